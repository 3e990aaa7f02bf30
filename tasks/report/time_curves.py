"""What a dispatcher asks: the best cost that each method has after t seconds, from stored results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_POINTS = 200  # of a curve, evenly apart on a logarithmic scale


@dataclass(frozen=True)
class Curve:
    """Mean cost of the best answer that a method has so far; one point where only its outcome is known.

    ``seconds`` ``(k,)`` ascend, wall-clock of an instance; ``cost`` ``(k,)`` falls. ``marks`` are
    the places in both at which the time was measured; between them it is interpolated.
    """

    method: str
    seconds: NDArray[np.float64]
    cost: NDArray[np.float64]
    marks: NDArray[np.int64]


@dataclass(frozen=True)
class SizeCurves:
    """The curves of all methods at one size, over the ``instances`` that all of them solved."""

    n: int
    instances: int
    curves: tuple[Curve, ...]


def time_curves(results: pa.Table) -> list[SizeCurves]:
    """Return the curves of each size, ascending, from stored results with the costs of all samples.

    A method without an answer to any instance of a size has no curve there.
    """
    solved = results.filter(pc.field("feasible"))
    found = []
    for n in sorted(pc.unique(solved["n"]).to_pylist()):
        rows = solved.filter(pc.field("n") == n)
        by_method = {
            str(method): rows.filter(pc.field("method") == method)
            for method in pc.unique(rows["method"]).to_pylist()
        }
        answered = [_answered(block) for block in by_method.values()]
        common = sorted(set.intersection(*answered))
        curves = [_curve(method, block, common) for method, block in by_method.items()] if common else []
        found.append(SizeCurves(n, len(common), tuple(curve for curve in curves if len(curve.cost))))
    return found


def _answered(block: pa.Table) -> set[int]:
    """Return the instances of which all samples are there."""
    return set(block.filter(pc.is_valid(pc.field("costs")))["index"].to_pylist())


def _curve(method: str, block: pa.Table, common: list[int]) -> Curve:
    block = block.filter(pc.is_in(pc.field("index"), pa.array(common, pa.uint32())))
    means = block.select(["samples", "seconds"]).group_by("samples").aggregate([("seconds", "mean")])
    means = means.sort_by("samples")
    measured = np.array(means["samples"].to_pylist(), np.int64)
    seconds = np.maximum.accumulate(means["seconds_mean"].to_numpy())
    costs = block.filter(pc.is_valid(pc.field("costs")))["costs"]
    if pc.any(pc.not_equal(pc.list_value_length(costs), measured[-1])).as_py():
        # only the outcome is known, such as that of a search which began with the samples
        outcome = np.mean([min(of_instance) for of_instance in costs.to_pylist()])
        return Curve(method, seconds[-1:], np.array([outcome]), np.array([0]))
    every = costs.combine_chunks().flatten().to_numpy().reshape(len(common), -1)  # (instances, samples)
    best = np.minimum.accumulate(every, axis=1).mean(axis=0)  # infinite until each instance has an answer
    spaced = np.geomspace(1, len(best), _POINTS).round().astype(np.int64)
    counts = np.union1d(spaced, measured)  # numbers of samples
    counts = counts[np.isfinite(best[counts - 1])]
    times = np.interp(counts, np.concatenate([[0], measured]), np.concatenate([[0.0], seconds]))
    marks = np.flatnonzero(np.isin(counts, measured))
    return Curve(method, times, best[counts - 1], marks)
