"""Instances by the rules of CVRPLIB's set X (Uchoa et al. 2017, Sec. 4), if the set itself is not available.

The set varies the depot (centre, corner, random), the customers (random, clustered, half of each), seven
distributions of demand, and the length of routes. They take turns here.
"""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_SIDE = 1001  # of the grid: coordinates 0 to 1000
_DECAY = 40.0  # of the density around the seed of a cluster, in units of the grid
_SEEDS = (3, 8)  # of clusters, at least and at most
_ROUTE = (3, 6, 25)  # customers of a route: triangular distribution
_DEMANDS = ((1, 1), (1, 10), (5, 10), (1, 100), (50, 100))
_LOW, _HIGH, _SMALL, _LARGE = (1, 50), (51, 100), (1, 10), (50, 100)  # of the two other distributions
_SMALL_SHARE = (0.7, 0.95)  # of customers


def write_instances(folder: Path, count: int) -> None:
    """Write ``count`` instances of 101 to 1,001 nodes into ``folder``, the same in each call."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, nodes in enumerate(np.geomspace(101, 1001, count).round().astype(int).tolist()):
        name, text = instance(nodes, k)
        (folder / f"{name}.vrp").write_text(text)


def instance(nodes: int, k: int) -> tuple[str, str]:
    """Return name and text of the .vrp file of the ``k``-th instance."""
    rng, n = np.random.default_rng([nodes, k]), nodes - 1
    xy = np.vstack([_depot(rng, k % 3), _customers(rng, n, k // 3 % 3)])
    demands = _demands(rng, xy[1:], k % 7)
    capacity = max(int(demands.max()), ceil(rng.triangular(*_ROUTE) * demands.sum() / n))
    name = f"made-n{nodes}-k{ceil(demands.sum() / capacity)}"
    lines = [f"NAME : {name}", "TYPE : CVRP", f"DIMENSION : {nodes}", "EDGE_WEIGHT_TYPE : EUC_2D"]
    lines += [f"CAPACITY : {capacity}", "NODE_COORD_SECTION"]
    lines += [f"{row} {x} {y}" for row, (x, y) in enumerate(xy.tolist(), start=1)]
    lines += ["DEMAND_SECTION", "1 0", *(f"{row} {d}" for row, d in enumerate(demands.tolist(), start=2))]
    return name, "\n".join([*lines, "DEPOT_SECTION", "1", "-1", "EOF", ""])


def _depot(rng: np.random.Generator, kind: int) -> NDArray[np.int64]:
    return [np.array([500, 500]), np.array([0, 0]), rng.integers(_SIDE, size=2)][kind]


def _customers(rng: np.random.Generator, n: int, kind: int) -> NDArray[np.int64]:
    """Return ``n`` different points: random, clustered, or half of each."""
    random = rng.choice(_SIDE**2, [n, 0, n // 2][kind], replace=False)
    points = np.column_stack(np.divmod(random, _SIDE))
    if kind == 0:
        return points
    seeds = rng.integers(_SIDE, size=(rng.integers(_SEEDS[0], _SEEDS[1] + 1), 2))
    x, y = np.indices((_SIDE, _SIDE))
    density = sum(np.exp(-np.hypot(x - a, y - b) / _DECAY) for a, b in seeds.tolist()).ravel().clip(max=1)
    density[random] = density[seeds @ (_SIDE, 1)] = 0
    seeds = np.unique(seeds, axis=0)  # they are customers, too
    cells = rng.choice(_SIDE**2, n - len(points) - len(seeds), replace=False, p=density / density.sum())
    return np.vstack([points, seeds, np.column_stack(np.divmod(cells, _SIDE))])


def _demands(rng: np.random.Generator, xy: NDArray[np.int64], kind: int) -> NDArray[np.int64]:
    def between(bounds: tuple[int, int]) -> NDArray[np.int64]:
        return rng.integers(bounds[0], bounds[1] + 1, len(xy))

    if kind < len(_DEMANDS):
        return between(_DEMANDS[kind])
    if kind == len(_DEMANDS):  # by quadrant
        even = (xy[:, 0] < _SIDE / 2) == (xy[:, 1] < _SIDE / 2)
        return np.where(even, between(_HIGH), between(_LOW))
    return np.where(rng.random(len(xy)) < rng.uniform(*_SMALL_SHARE), between(_SMALL), between(_LARGE))
