"""How far fresh days have moved from what a model has learned from: demand, size, vehicles, geography."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.distance import jensenshannon

from mcvrp.model.problem import City, Instance

ALARM = 0.2  # a distance above it is worth a look
_ZONES = 4  # zones of the city a side


@dataclass(frozen=True)
class Drift:
    """One property's distance between then and now in [0, 1]; 0 is no difference.

    ``then`` and ``now`` describe each side for people.
    """

    name: str
    then: str
    now: str
    distance: float

    @property
    def alarm(self) -> bool:
        """Whether it is worth a look."""
        return self.distance > ALARM


def drift(city: City, then: Sequence[Instance], now: Sequence[Instance]) -> tuple[Drift, ...]:
    """Return how far ``now`` is from ``then``, property by property; () where a side is empty.

    Distances of numbers are the largest difference of their distribution functions (Kolmogorov,
    Smirnov), that of the geography is the Jensen-Shannon distance of the orders' zones, of which
    the city has 4 x 4.
    """
    if not then or not now:
        return ()
    return (
        _numbers("demand of a customer", _demands(then), _demands(now)),
        _numbers("customers a day", _sizes(then), _sizes(now)),
        _numbers("capacity of a vehicle", _capacities(then), _capacities(now)),
        _geography(city, then, now),
    )


def _numbers(name: str, then: NDArray[np.float64], now: NDArray[np.float64]) -> Drift:
    return Drift(name, _described(then), _described(now), float(stats.ks_2samp(then, now).statistic))


def _geography(city: City, then: Sequence[Instance], now: Sequence[Instance]) -> Drift:
    before, after = _zones(city, then), _zones(city, now)
    distance = float(jensenshannon(before, after, base=2))
    return Drift("where the orders are", _busiest(before), _busiest(after), distance)


def _zones(city: City, instances: Sequence[Instance]) -> NDArray[np.float64]:
    """Return the share of orders in each zone, row by row from the south-west, ``(16,)``."""
    nodes = np.concatenate([instance.ids for instance in instances]).astype(np.int64)
    cells = np.clip((city.unit_xy[nodes] * _ZONES).astype(np.int64), 0, _ZONES - 1)
    counts = np.bincount(cells[:, 1] * _ZONES + cells[:, 0], minlength=_ZONES**2)
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _busiest(shares: NDArray[np.float64]) -> str:
    row, column = divmod(int(shares.argmax()), _ZONES)
    return (
        f"{100 * shares.max():.0f} % in the busiest zone (column {column + 1} from the west, "
        f"row {row + 1} from the south)"
    )


def _demands(instances: Sequence[Instance]) -> NDArray[np.float64]:
    return np.concatenate([instance.demands for instance in instances]).astype(np.float64)


def _sizes(instances: Sequence[Instance]) -> NDArray[np.float64]:
    return np.array([instance.n for instance in instances], dtype=np.float64)


def _capacities(instances: Sequence[Instance]) -> NDArray[np.float64]:
    return np.array([instance.capacity for instance in instances], dtype=np.float64)


def _described(values: NDArray[np.float64]) -> str:
    low, high = np.percentile(values, [10, 90])
    return f"{values.mean():.4g} ({low:.4g} – {high:.4g})"
