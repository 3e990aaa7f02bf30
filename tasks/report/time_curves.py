"""Cost against time: the cost of each method's best answer after t seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator
from numpy.typing import NDArray

from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.support.pictures import BLUE, FONT, GREEN, ORANGE, PINK, label_lengths, panel_grid

_POINTS = 200  # of a curve, evenly spaced on a logarithmic scale
_SKY, _AMBER, _WINE, _BROWN, _INK, _SLATE = "#56B4E9", "#E69F00", "#882255", "#5B3A00", "#000000", "#6B6B6B"
_LOOKS = {  # colour, dash and marker, which is unique; HGS and the model as in the other figures
    "hgs": (BLUE, "-", "o"),
    "pyvrp": (_SKY, "-", "s"),
    "lkh3": (GREEN, "-", "p"),
    "am": (PINK, "--", "v"),
    "fm-gs": (_AMBER, "--", "^"),
    "fm-ns": (ORANGE, "-", "D"),
    "fm-bs": (_AMBER, ":", "P"),
    "fm-ls": (_WINE, "-", "X"),
    "random-ls": (_SLATE, "--", "8"),
    "fm-rrc": (_BROWN, "--", "*"),
    "hgs-equal": (BLUE, ":", "<"),
    "pyvrp-equal": (_SKY, ":", ">"),
    "fm-hgs": (_INK, "-.", "h"),
    "fm-pyvrp": (_SLATE, "-.", "d"),
}
_KNOWN = {all_methods()[name].label: look for name, look in _LOOKS.items()}
_OTHERS = ((_INK, ":", "$1$"), (_SLATE, "-", "$2$"), (_BROWN, ":", "$3$"), (_WINE, ":", "$4$"))
_TICKS = {1e-3: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min"}
_TICKS |= {3600: "1 h", 36_000: "10 h"}
_COARSE, _CROWDED = (1e-3, 0.1, 10, 600, 36_000), 1e4  # ticks if an axis spans more than this factor
_COLUMNS = 3
_LEGEND_WIDTH, _LEGEND_LINE = 4.1, 0.25  # inches: width of the longest label, height of a row
_MARGIN = 2.0  # factor by which the time axis extends beyond the first and the last answer


@dataclass(frozen=True)
class Curve:
    """Mean cost of a method's best answer so far over time; a single point if only the outcome is known.

    ``seconds`` ``(k,)`` ascend, wall-clock time per instance; ``cost`` ``(k,)`` descends. ``marks`` are the
    indices at which the time was measured; between them it is interpolated.
    """

    method: str
    seconds: NDArray[np.float64]
    cost: NDArray[np.float64]
    marks: NDArray[np.int64]


@dataclass(frozen=True)
class SizeCurves:
    """Curves of all methods at one size over the ``instances`` that all of them solved."""

    n: int
    instances: int
    curves: tuple[Curve, ...]


def time_curves(results: pa.Table) -> list[SizeCurves]:
    """Return the curves of each size, ascending, from results with the costs of all samples.

    A method without answers at a size has no curve there.
    """
    solved = results.filter(pc.field("feasible"))
    sizes = []
    for n in sorted(pc.unique(solved["n"]).to_pylist()):
        rows = solved.filter(pc.field("n") == n)
        by_method = {
            str(method): rows.filter(pc.field("method") == method)
            for method in pc.unique(rows["method"]).to_pylist()
        }
        has_costs = pc.is_valid(pc.field("costs"))  # of all samples
        answered = [set(block.filter(has_costs)["index"].to_pylist()) for block in by_method.values()]
        common = sorted(set.intersection(*answered))
        curves = [_curve(method, block, common) for method, block in by_method.items()] if common else []
        sizes.append(SizeCurves(n, len(common), tuple(curve for curve in curves if len(curve.cost))))
    return sizes


def _curve(method: str, block: pa.Table, common: list[int]) -> Curve:
    block = block.filter(pc.is_in(pc.field("index"), pa.array(common, pa.uint32())))
    means = block.group_by("samples").aggregate([("seconds", "mean"), ("cost", "mean")]).sort_by("samples")
    measured = np.array(means["samples"].to_pylist(), np.int64)
    # numbers of samples that were timed separately need not ascend in time
    seconds = np.maximum.accumulate(means["seconds_mean"].to_numpy())
    costs = block.filter(pc.is_valid(pc.field("costs")))["costs"]
    if len(costs) > len(common):  # each number is an answer of its own, as that of a beam of this width
        return Curve(method, seconds, means["cost_mean"].to_numpy(), np.arange(len(measured)))
    if pc.any(pc.not_equal(pc.list_value_length(costs), measured[-1])).as_py():
        # only the outcome is known, for example of a search that started from the samples
        outcome = np.mean([min(of_instance) for of_instance in costs.to_pylist()])
        return Curve(method, seconds[-1:], np.array([outcome]), np.array([0]))
    every = costs.combine_chunks().flatten().to_numpy().reshape(len(common), -1)  # (instances, samples)
    best = np.minimum.accumulate(every, axis=1).mean(axis=0)  # infinite until all instances have an answer
    spaced = np.geomspace(1, len(best), _POINTS).round().astype(np.int64)
    counts = np.union1d(spaced, measured)  # numbers of samples
    counts = counts[np.isfinite(best[counts - 1])]
    times = np.interp(counts, np.concatenate([[0], measured]), np.concatenate([[0.0], seconds]))
    marks = np.flatnonzero(np.isin(counts, measured))
    return Curve(method, times, best[counts - 1], marks)


def cost_against_time(sizes: Sequence[SizeCurves], unit: str = "") -> Figure:
    """Return the mean cost of each method's best answer over the time per instance, one panel per size.

    A curve begins with the method's first answer and is extended beyond its last. Marks are the numbers of
    samples at which the time was measured.
    """
    drawn = [size for size in sizes if size.curves]
    methods = list(dict.fromkeys(curve.method for size in drawn for curve in size.curves))
    others = [method for method in methods if method not in _KNOWN]
    looks = {**_KNOWN, **dict(zip(others, cycle(_OTHERS), strict=False))}
    figure, axes = panel_grid(max(len(drawn), 1), columns=_COLUMNS, width=4.2, height=3.5)
    for axis, size in zip(axes, drawn, strict=False):
        _draw(axis, size, looks)
    highest = max((float(curve.cost[0]) for size in drawn for curve in size.curves), default=0.0)
    for k, axis in enumerate(axes):
        label_lengths(axis.yaxis, highest, unit, "Mean distance of the\nbest answer")
        axis.yaxis.label.set_fontsize(FONT - 1)
        if k % _COLUMNS:
            axis.set_ylabel("")
    if methods:
        columns = max(1, int(figure.get_figwidth() // _LEGEND_WIDTH))
        figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * math.ceil(len(methods) / columns))
        handles = [
            Line2D([], [], color=colour, linestyle=dash, linewidth=2, marker=marker, label=method)
            for method, (colour, dash, marker) in ((method, looks[method]) for method in methods)
        ]
        figure.legend(
            handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=FONT - 1
        )
    return figure


def _draw(axis: Axes, size: SizeCurves, looks: Mapping[str, tuple[str, str, str]]) -> None:
    first = min(curve.seconds[0] for curve in size.curves) / _MARGIN
    last = max(curve.seconds[-1] for curve in size.curves) * _MARGIN
    for curve in size.curves:
        colour, dash, marker = looks[curve.method]
        x, y = [*curve.seconds, last], [*curve.cost, curve.cost[-1]]
        axis.step(x, y, where="post", color=colour, linestyle=dash, linewidth=2)
        marked = curve.seconds[curve.marks], curve.cost[curve.marks]
        mark: dict[str, Any] = {"marker": marker, "markersize": 9, "markeredgecolor": "white"}
        axis.plot(*marked, linestyle="none", color=colour, **mark)
    axis.set_xscale("log")
    ticks = _TICKS if last < _CROWDED * first else {t: _TICKS[t] for t in _COARSE}
    axis.set_xticks(list(ticks), list(ticks.values()))
    axis.set_xlim(first, last)
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_locator(MaxNLocator(5))
    axis.set_title(f"{size.n} customers, {size.instances:,} instances", fontsize=FONT)
    axis.set_xlabel("Time per instance", fontsize=FONT)
