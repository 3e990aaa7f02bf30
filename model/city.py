"""The city: a depot and the fixed set of addresses that it serves. NumPy only."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.random import philox_key, philox_uniforms
from mcvrp.shared_array import shared

DEPOT = 0  # node number of the depot in every city
_SHARED = 2**20  # bytes of a matrix from which on the processes of a machine share it
MOST_COST = 1e12  # from one address to another: float64 tells thousandths in the sum of a day
_NO_ROAD = 1e3  # multiple of a leg
# Share of the frame's side by which later addresses may be outside the frame: training with rotation turns
# the corners of a square out of it by (sqrt(2) - 1) / 2, so the network has seen such coordinates.
MARGIN = 0.21


def nfc(text: object) -> str:
    """Return ``text`` in Unicode's composed form: "é" is one character, or two that look the same."""
    return unicodedata.normalize("NFC", str(text))


def _composed(address_ids: Iterable[object]) -> list[str]:
    """Return the ids in composed form; McvrpError for a text, which would be one id per letter."""
    if isinstance(address_ids, str):
        raise McvrpError(f"address ids are a list, not the text {shown(address_ids)}")
    return list(map(nfc, address_ids))


@dataclass(frozen=True, eq=False)
class City:
    """A depot and the fixed set of addresses that it serves.

    McvrpError if a shape is wrong, a value not finite, a cost negative, or a node outside the frame.

    Parameters
    ----------
    xy
        Coordinates in the city's own unit, float64 ``(m + 1, 2)``; row 0 is the depot.
    matrix
        Travel cost from row to column, float64 ``(m + 1, m + 1)``, symmetric or not; None: straight lines.
    origin, scale
        Frame of the model: ``(xy - origin) / scale`` is in the unit square.
    unit
        Unit of coordinates and costs: "unit" for a synthetic city, "m" for metres.
    extends
        Numbers of customers of the cities that this one extends, the oldest first: each consists of the
        first customers of this city, in the same frame, with the same costs.
    spare
        Spare output classes of a network, for addresses that are added later.
    demand, capacity
        The city's ranges, both ends included; None for the defaults of `model.instances.Rules`.
    address_ids
        The company's own ids of nodes 0 to m, such as "C10241", which are not part of `city_id`; empty: the
        node numbers.

    Notes
    -----
    A trained network depends on the features of each node, so these must not change when the city is
    extended: the frame stays, and kappa (the distance to the depot over the largest one) keeps the scale of
    the oldest city, `max_radius`. A later address may be outside the frame by `MARGIN` of its side, with a
    kappa above 1.
    """

    xy: NDArray[np.float64] = field(repr=False)
    matrix: NDArray[np.float64] | None = field(default=None, repr=False)
    origin: tuple[float, float] = (0.0, 0.0)
    scale: float = 1.0
    unit: str = "unit"
    extends: tuple[int, ...] = ()
    spare: int = 0
    demand: tuple[int, int] | None = None
    capacity: tuple[int, int] | None = None
    address_ids: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        xy = frozen(self.xy, np.float64)
        object.__setattr__(self, "xy", xy)
        if xy.ndim != 2 or xy.shape[1] != 2 or len(xy) < 2:
            raise McvrpError(f"a city needs (m + 1, 2) coordinates, depot first, not {xy.shape}")
        if not np.isfinite(xy).all():
            row = int(np.flatnonzero(~np.isfinite(xy).all(axis=1))[0])
            raise McvrpError(
                f"node {row} of the city has no finite coordinates ({xy[row].tolist()}): give two numbers"
            )
        if self.matrix is not None:
            object.__setattr__(self, "matrix", _checked_matrix(self.matrix, len(xy)))
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise McvrpError(f"the scale of a city must be positive, not {self.scale}")
        if self.spare < 0:
            raise McvrpError(f"a city cannot have {self.spare} spare classes: give 0 or more")
        steps = (0, *self.extends, self.customers)
        if any(before >= after for before, after in pairwise(steps)):
            raise McvrpError(
                f"a city of {self.customers} customers cannot extend cities of {self.extends}: give "
                "ascending numbers below its own"
            )
        bound = np.full((len(xy), 1), 1e-12)
        bound[self.original_customers + 1 :] += MARGIN
        unit_xy = self.unit_xy
        outside = np.flatnonzero(((unit_xy < -bound) | (unit_xy > 1 + bound)).any(axis=1))
        if len(outside):
            raise McvrpError(
                f"node {outside[0]} lies outside the city's frame (origin {self.origin}, scale {self.scale})"
                ": give a frame that holds all nodes, or use City.framed"
            )
        ids = tuple(_composed(self.address_ids))
        object.__setattr__(self, "address_ids", ids)
        if ids and len(ids) != len(xy):
            raise McvrpError(f"a city of {len(xy)} nodes has {len(ids)} address_ids: give one per node")
        if len(set(ids)) < len(ids):
            raise McvrpError("two addresses of a city have the same id: give each address its own id")

    @classmethod
    def uniform(cls, customers: int, seed: int) -> City:
        """Return the synthetic city of Sec. 5.1: uniform on the unit square, depot at its centre."""
        if customers < 1:
            raise McvrpError(f"a city needs at least one customer, not {customers}")
        uniforms = philox_uniforms(philox_key("city", str(seed)), (0, customers), 2 * customers)
        return cls(np.vstack([[0.5, 0.5], uniforms.reshape(-1, 2)]))

    @classmethod
    def framed(cls, xy: ArrayLike, matrix: NDArray[np.float64] | None = None, **more: Any) -> City:
        """Return the city whose frame is the smallest square around all of ``xy``; ``more``: other fields."""
        xy = np.asarray(xy, np.float64)
        low, high = xy.min(axis=0), xy.max(axis=0)
        rounding = 8 * float(np.spacing(np.abs(xy).max()))  # large coordinates of a small city
        scale = (float((high - low).max()) or 1.0) + rounding  # 1: all addresses coincide
        x, y = ((low + high) / 2 - scale / 2).tolist()
        return cls(xy, matrix, (x, y), scale, **more)

    @property
    def customers(self) -> int:
        """The number m of customers."""
        return len(self.xy) - 1

    @property
    def classes(self) -> int:
        """The output classes of a network for this city: its nodes and the spare classes."""
        return len(self.xy) + self.spare

    @property
    def original_customers(self) -> int:
        """The number of customers of the oldest city, which defines the frame."""
        return self.extends[0] if self.extends else self.customers

    @cached_property
    def max_radius(self) -> float:
        """The distance from the depot at which kappa is 1, in the frame: the oldest city's largest."""
        delta = self.unit_xy[: self.original_customers + 1] - self.unit_xy[DEPOT]
        return float(np.hypot(delta[:, 0], delta[:, 1]).max())

    def ancestor(self, k: int) -> City:
        """Return the ``k``-th of the cities that this one extends, the oldest is number 0."""
        nodes, spare = self.extends[k] + 1, self.classes - self.extends[k] - 1
        matrix = None if self.matrix is None else self.matrix[:nodes, :nodes]
        return replace(
            self,
            xy=self.xy[:nodes],
            matrix=matrix,
            extends=self.extends[:k],
            spare=spare,
            address_ids=self.address_ids[:nodes],
        )

    @cached_property
    def ancestors(self) -> tuple[str, ...]:
        """The ids of the cities that this one extends, the oldest first, from this city's own content."""
        return tuple(self.ancestor(k).city_id for k in range(len(self.extends)))

    def accepts(self, city_id: str) -> bool:
        """Return whether labels and models of ``city_id`` are valid here: this city or one it extends."""
        return city_id == self.city_id or city_id in self.ancestors

    @cached_property
    def city_id(self) -> str:
        """Content hash: equal for equal coordinates, frame, unit and matrix on any machine.

        Includes the extended cities, which determine kappa, but neither spare classes nor ranges.
        """
        digest = hashlib.sha256(b"mcvrp-city-1")
        digest.update(self.xy.astype("<f8").tobytes())
        digest.update(np.array([*self.origin, self.scale], dtype="<f8").tobytes())
        digest.update(self.unit.encode())
        if self.matrix is not None:
            digest.update(b"matrix")
            digest.update(np.ascontiguousarray(self.matrix, "<f8").data)  # without a copy of hundreds of MB
        if self.extends:
            digest.update(b"extends" + np.array(self.extends, dtype="<u8").tobytes())
        return digest.hexdigest()[:16]

    @cached_property
    def _node_of(self) -> dict[str, int]:
        ids = self.address_ids or map(str, range(len(self.xy)))
        return {address: node for node, address in enumerate(ids)}

    def nodes(self, address_ids: Iterable[object]) -> NDArray[np.int64]:
        """Return the node of each of ``address_ids``; McvrpError naming the first that is not in the city."""
        ids = _composed(address_ids)
        for address in ids:
            if address not in self._node_of:
                raise McvrpError(f"{shown(address)} is not an address of the city: correct the id")
        return np.array([self._node_of[address] for address in ids], dtype=np.int64)

    def ids_of(self, nodes: Iterable[int]) -> list[str]:
        """Return the address id of each of ``nodes``, such as those of a route."""
        nodes = list(nodes)
        self.require_nodes(np.array(nodes, dtype=None if nodes else np.int64))
        return [self.address_ids[node] if self.address_ids else str(node) for node in nodes]

    def require_nodes(self, nodes: NDArray[np.int64]) -> None:
        """Raise McvrpError naming the first of ``nodes`` that is not in the city."""
        if nodes.dtype.kind not in "iu":
            raise McvrpError(f"nodes are integers, not {nodes.dtype}: correct the route")
        outside = (nodes < 0) | (nodes > self.customers)
        if outside.any():
            raise McvrpError(
                f"{nodes[outside][0]} is not a node of the city, whose nodes are 0 to {self.customers}: "
                "correct the route"
            )

    @cached_property
    def symmetric(self) -> bool:
        """Whether every route costs the same in both directions."""
        return self.matrix is None or bool(np.array_equal(self.matrix, self.matrix.T))

    @property
    def unit_xy(self) -> NDArray[np.float64]:
        """Coordinates in the frame of the model, ``(m + 1, 2)``, in [0, 1] but for later addresses."""
        return (self.xy - np.asarray(self.origin)) / self.scale

    def legs(self, path: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Return the cost of each leg of ``path``, ``(..., L)``, as ``(..., L - 1)``."""
        start, end = path[..., :-1], path[..., 1:]
        if self.matrix is not None:
            return self.matrix[start, end]
        delta = self.xy[end] - self.xy[start]
        return np.hypot(delta[..., 0], delta[..., 1])

    def costs(self, nodes: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Return the travel costs between ``nodes``, ``(k, k)``, from row to column."""
        if self.matrix is not None:
            return self.matrix[np.ix_(nodes, nodes)]
        xy = self.xy[nodes]
        delta = xy[:, None, :] - xy[None, :, :]
        return np.hypot(delta[..., 0], delta[..., 1])

    def landmark_costs(self, count: int) -> NDArray[np.float64]:
        """Return the travel costs between each node and ``count`` landmarks, ``(m + 1, count)``.

        Means of both directions, at most the dearest leg (see `dearest_leg`), divided by the largest. Each
        landmark is the node farthest from the depot and from the landmarks before it. Landmarks and the
        largest cost are those of the oldest city.
        """
        if not count:
            return np.empty((len(self.xy), 0))
        nodes = np.arange(len(self.xy))
        old = slice(self.original_customers + 1)
        most = MOST_COST if self.matrix is None else dearest_leg(self.matrix[old, old])

        def costs_to(landmark: int) -> NDArray[np.float64]:
            there = np.column_stack([nodes, np.full_like(nodes, landmark)])
            return np.minimum((self.legs(there) + self.legs(there[:, ::-1]))[:, 0] / 2, most)

        costs, nearest = np.empty((len(nodes), count)), costs_to(DEPOT)[old]
        for k in range(count):
            costs[:, k] = costs_to(int(nearest.argmax()))
            nearest = np.minimum(nearest, costs[old, k])
        return costs / (costs[old].max() or 1.0)


def no_road(costs: NDArray[np.float64]) -> float:
    """Return the cost from which a leg of ``costs``, ``(k, k)``, represents "no road".

    `MOST_COST`, or a thousand times the dearest leg of a minimum spanning tree (by the dearer of both
    directions), if that is less: placeholders such as 1e9 for pairs without a road. With more than 1,000
    nodes it is as many times, as no way in the tree is longer. Scaled with placeholders, all other legs would
    be equal for a solver that rounds.
    """
    multiple, some = max(_NO_ROAD, len(costs)), np.arange(len(costs))[:: 1 + len(costs) // 100]
    cheapest = np.maximum(costs[some], costs[:, some].T)
    cheapest[np.arange(len(some)), some] = np.inf
    # the tree's dearest leg is at least each node's cheapest one
    if float(costs.max(initial=0.0)) < multiple * float(cheapest.min(axis=1).max()):
        return MOST_COST
    from scipy.cluster.hierarchy import single  # here: few matrices have placeholders
    from scipy.spatial.distance import squareform

    # the last of the clusters that single linkage joins are joined by the tree's dearest leg
    dearest = float(single(squareform(np.maximum(costs, costs.T), checks=False))[-1, 2])
    return min(MOST_COST, multiple * dearest) if dearest else MOST_COST


def dearest_leg(costs: NDArray[np.float64]) -> float:
    """Return the largest of ``costs``, ``(k, k)``, without those that represent "no road"; 0 if none is."""
    limit = no_road(costs)
    if (largest := float(costs.max(initial=0.0))) < limit:
        return largest  # masks of the whole matrix would take a third of its memory
    return max(float(row[row < limit].max(initial=0.0)) for row in costs)


def _checked_matrix(values: NDArray[np.float64], nodes: int) -> NDArray[np.float64]:
    matrix = np.asarray(values, np.float64)
    matrix = shared(matrix) if matrix.nbytes >= _SHARED else frozen(matrix, np.float64)
    if matrix.shape != (nodes, nodes):
        raise McvrpError(
            f"the cost matrix has shape {matrix.shape}, the city needs {(nodes, nodes)}: "
            "give a row and a column for each node"
        )
    for row, costs in enumerate(matrix):  # masks of the whole matrix would take a third of its memory
        if not (valid := is_cost(costs)).all():
            raise McvrpError(
                f"the travel cost from node {row} to node {int(valid.argmin())} is not a cost: "
                f"give 0 to {MOST_COST:g}"
            )
    return matrix


def is_cost(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of the ``values`` that are valid travel costs: 0 to `MOST_COST`, of any shape."""
    return (values >= 0) & (values <= MOST_COST)  # NaN is neither


def frozen(values: Any, dtype: type) -> NDArray[Any]:
    """Return ``values`` as an array that is never changed: a copy, unless they are such an array already."""
    array: NDArray[Any] = np.asarray(values, dtype=dtype)
    memory: Any = array
    while isinstance(memory, np.ndarray):
        if memory.flags.writeable:
            array = np.array(array)
            array.setflags(write=False)
            break
        memory = memory.base
    return array
