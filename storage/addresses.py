"""What people call the nodes of a city: the ids of its addresses, and where on Earth they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from model.errors import McvrpError

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Addresses:
    """The addresses behind the nodes of a city, the depot first.

    Parameters
    ----------
    ids
        What people call nodes 0 to m.
    lonlat
        Longitude and latitude of each in degrees (WGS 84), float64 ``(m + 1, 2)``, where known.
    projection
        How degrees became the city's coordinates, in PROJ's words; None where they were coordinates already.

    Raises
    ------
    McvrpError
        If an id is there twice, or there are not as many places as ids.
    """

    ids: tuple[str, ...]
    lonlat: NDArray[np.float64] | None = None
    projection: str | None = None

    def __post_init__(self) -> None:
        if len(self._node) < len(self.ids):
            raise McvrpError("two addresses of a city have the same id")
        if self.lonlat is not None and self.lonlat.shape != (len(self.ids), 2):
            raise McvrpError(f"{len(self.ids)} addresses cannot have places of shape {self.lonlat.shape}")

    @classmethod
    def numbered(cls, customers: int) -> Addresses:
        """Return the addresses of a city that has no names for them: "0", "1", ..."""
        return cls(tuple(map(str, range(customers + 1))))

    @cached_property
    def _node(self) -> dict[str, int]:
        return {name: node for node, name in enumerate(self.ids)}

    def nodes(self, ids: Iterable[str]) -> NDArray[np.int64]:
        """Return the node of each of ``ids``, `UNKNOWN` where there is no such address."""
        return np.array([self._node.get(name, UNKNOWN) for name in ids], dtype=np.int64)

    def names(self, nodes: Iterable[int]) -> list[str]:
        """Return the id of each of ``nodes``."""
        return [self.ids[node] for node in nodes]

    def __contains__(self, name: str) -> bool:
        return name in self._node


def joined(first: Addresses, ids: Sequence[str], lonlat: NDArray[np.float64] | None) -> Addresses:
    """Return ``first`` with more addresses behind them."""
    both = None if first.lonlat is None or lonlat is None else np.vstack([first.lonlat, lonlat])
    return Addresses((*first.ids, *ids), both, first.projection)
