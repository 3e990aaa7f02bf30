"""Drift of fresh days from the training data: demand, size, capacity, geography."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.spatial.distance import jensenshannon

from mcvrp.model.problem import City, Instance

ALARM = 0.2  # distances above are marked
_ZONES = 4  # zones per side of the city


@dataclass(frozen=True)
class Drift:
    """Distance of a property between then and now in [0, 1], 0 if equal; ``then`` and ``now`` describe it."""

    name: str
    then: str
    now: str
    distance: float

    @property
    def alarm(self) -> bool:
        """True if the distance is large."""
        return self.distance > ALARM


def drift(city: City, then: Sequence[Instance], now: Sequence[Instance]) -> tuple[Drift, ...]:
    """Return the drift from ``then`` to ``now`` of each property; () if one of them is empty.

    Numbers: Kolmogorov–Smirnov statistic; geography: Jensen–Shannon distance over 4 x 4 zones.
    """
    if not then or not now:
        return ()
    before, after = _zones(city, then), _zones(city, now)
    moved = float(jensenshannon(before, after, base=2))
    return (
        _numbers("demand of a customer", then, now, lambda day: day.demands),
        _numbers("customers per day", then, now, lambda day: day.n),
        _numbers("capacity of a vehicle", then, now, lambda day: day.capacity),
        Drift("orders by zone", _busiest(before), _busiest(after), moved),
    )


def _numbers(
    name: str, then: Sequence[Instance], now: Sequence[Instance], of: Callable[[Instance], ArrayLike]
) -> Drift:
    old, new = (np.hstack([np.asarray(of(day), np.float64) for day in days]) for days in (then, now))
    return Drift(name, _described(old), _described(new), float(stats.ks_2samp(old, new).statistic))


def _described(values: NDArray[np.float64]) -> str:
    low, high = np.percentile(values, [10, 90])
    numbers = [float(values.mean()), float(low), float(high)]
    mean, low, high = (f"{each:,.0f}" if each >= 1000 else f"{each:.4g}" for each in numbers)
    return f"{mean} ({low} – {high})"


def _zones(city: City, instances: Sequence[Instance]) -> NDArray[np.float64]:
    """Return the fraction of orders in each zone, row-major from the south-west, ``(16,)``."""
    nodes = np.concatenate([instance.ids for instance in instances]).astype(np.int64)
    # the upper and right edges belong to the last zones
    cells = np.clip((city.unit_xy[nodes] * _ZONES).astype(np.int64), 0, _ZONES - 1)
    counts = np.bincount(cells[:, 1] * _ZONES + cells[:, 0], minlength=_ZONES**2)
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _busiest(shares: NDArray[np.float64]) -> str:
    row, column = divmod(int(shares.argmax()), _ZONES)
    return f"{100 * shares.max():.0f} % in zone {column + 1}, {row + 1}"
