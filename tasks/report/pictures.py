"""Which pictures a benchmark's report has, and what is said under each; drawn from stored results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator
from numpy.typing import NDArray

from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Solution
from mcvrp.tasks.benchmark.spec import LABELS
from mcvrp.tasks.report.page import ReportFigure
from mcvrp.tasks.report.paper import GREEDY, SAMPLED
from mcvrp.tasks.report.paper_values import PublishedDistances, is_papers_setting, published_distances
from mcvrp.tasks.report.routes_picture import Panel, solutions
from mcvrp.tasks.report.significance import PAPER_SIZE, compared_size
from mcvrp.tasks.report.tables import baseline_of, gaps, paired
from mcvrp.tasks.report.time_curves import SizeCurves, time_curves
from mcvrp.tasks.support.pictures import (
    BLUE,
    DPI,
    FONT,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    Method,
    in_unit,
    label_lengths,
    method_name,
    panel_grid,
    png,
    style,
    svg,
)
from mcvrp.tasks.support.text import readable_unit
from mcvrp.tasks.train.card import Phase, loss_figure, training_curves

_Rows = Mapping[tuple[str, int, int], Mapping[str, Any]]  # with routes, by (method, n, index)


@dataclass(frozen=True)
class Pictured:
    """What the pictures are drawn from.

    Parameters
    ----------
    city, rules
        Where and how the instances were drawn.
    stored
        The results as stored, with routes and the costs of all samples.
    results
        The same for tables, see `tasks.report.tables`.
    trained_up_to
        Most customers that the model was trained on.
    losses
        Name and rows of metrics of the training's phases.
    """

    city: City
    rules: Rules
    stored: pa.Table
    results: pd.DataFrame
    trained_up_to: int
    losses: Sequence[Phase]


def pictures(source: Pictured) -> Iterator[ReportFigure]:
    """Yield the pictures that the results have data for."""
    yield from _distances(source)
    yield from _times(source)
    yield from _gaps(source)
    yield from _examples(source)
    if source.losses:
        caption = (
            "Training loss of problem tokens (left) and solution tokens (right), a row a phase, as the paper "
            "draws it; thick lines are running means."
        )
        yield _picture("losses", loss_figure(source.losses), caption)
        frames = [(name, pd.DataFrame([asdict(row) for row in rows])) for name, rows in source.losses]
        caption = "Training: loss and accuracy of both token streams through the phases of the curriculum."
        yield _picture("training", training_curves(frames), caption)


def best_of_the_model(results: pd.DataFrame) -> Method | None:
    """Return the model's decoder with the most samples that has answers, None without a model."""
    solved = results[results["cost"].notna()]
    for method in (SAMPLED, GREEDY):
        samples = solved.loc[solved["method"] == method, "samples"]
        if len(samples):
            return method, int(samples.max())
    return None


def _picture(name: str, figure: Figure, caption: str) -> ReportFigure:
    return ReportFigure(name, png(figure), caption, svg(figure))


def _distances(source: Pictured) -> Iterator[ReportFigure]:
    """Yield the paper's two pictures of distributions at its size, and those of every size."""
    results, unit, best = source.results, source.city.unit, best_of_the_model(source.results)
    if best is None:
        return
    single = baseline_of(results)
    factor, unit = readable_unit(unit, float(results["cost"].max()))
    results = results.assign(cost=results["cost"] * factor)
    n = compared_size(results, source.trained_up_to)
    for name, base in (("distances-single", single), ("distances-best", (single[0], best[1]))):
        if (base != single or name == "distances-single") and len(paired(results, n, base, best)[0]):
            theirs = None
            if n == PAPER_SIZE and is_papers_setting(source.city, source.rules):
                theirs = published_distances(base, best)
            figure = paper_distances(results, n, base, best, unit, theirs)
            dotted = ", dotted ones the paper's, on instances of its own" if theirs else ""
            yield _picture(
                name,
                figure,
                f"Distances of {method_name(best)} and {method_name(base)}; lines are means{dotted}.",
            )
    if len(paired(results, None, single, best)[0]):
        figure = distance_distributions(results, single, best, unit)
        yield _picture(
            "distances", figure, f"The same of {method_name(single)} and {method_name(best)} at every size."
        )


def _times(source: Pictured) -> Iterator[ReportFigure]:
    sizes = time_curves(source.stored)
    if any(size.curves for size in sizes):
        caption = (
            "Cost against time: what the best answer of each method costs after so much time on an instance. "
            "A method that runs several times, or draws several samples, improves with each; marks are where "
            "the time was measured, between them it is interpolated. On what each method ran stands in the "
            "tables' last column."
        )
        yield _picture("times", cost_against_time(sizes, source.city.unit), caption)


def _gaps(source: Pictured) -> Iterator[ReportFigure]:
    solved = source.results[source.results["cost"].notna()][["method", "samples"]].drop_duplicates()
    methods = [(str(m), int(s)) for m, s in solved.itertuples(index=False)]
    base = baseline_of(source.results)
    others = [method for method in methods if method != base]
    if others and base in methods:
        caption = (
            f"Gaps to {method_name(base)} over all sizes: boxes span the middle half of the instances, "
            "whiskers the middle 80 %, diamonds are means."
        )
        yield _picture("gaps", gap_boxes(source.results, base, others), caption)


def _examples(source: Pictured) -> Iterator[ReportFigure]:
    """Yield the model's solution beside the baseline's: at the median and at the best gap."""
    best = best_of_the_model(source.results)
    if best is None:
        return
    base, _ = baseline_of(source.results)
    n = compared_size(source.results, source.trained_up_to)
    larger = [size for size in source.results["n"].unique().tolist() if size > source.trained_up_to]
    rows = {
        (row["method"], row["n"], row["index"]): row
        for row in source.stored.drop_columns(["costs"]).to_pylist()
        if row["routes"] is not None and row["method"] in (base, best[0])
    }
    wanted: list[tuple[str, int, str, Callable[[int], int]]] = [
        ("solution", n, "median", lambda count: (count - 1) // 2)
    ]
    wanted += [(f"best-gap-{size}", size, "best", lambda _: 0) for size in (n, *sorted(larger)[-1:])]
    for name, size, which, place in wanted:
        example = _example(source, rows, (best[0], base), size, which, place)
        if example:
            yield _picture(name, *example)


def _example(
    source: Pictured, rows: _Rows, methods: tuple[str, str], n: int, which: str, place: Callable[[int], int]
) -> tuple[Figure, str] | None:
    ours_is, base_is = methods
    pairs = [
        (row, rows[base_is, n, index])
        for (label, size, index), row in rows.items()
        if (label, size) == (ours_is, n) and (base_is, n, index) in rows
    ]
    if not pairs:
        return None
    order = np.argsort([ours["cost"] / base["cost"] for ours, base in pairs], kind="stable")
    ours, base = pairs[int(order[place(len(pairs))])]
    instance = InstanceStream(source.city, ours["seed"], "test", source.rules)(n, ours["index"])
    panels = [
        Panel(method_name((row["method"], row["samples"])), Solution.of(row["routes"]))
        for row in (ours, base)
    ]
    caption = (
        f"{n} customers, the instance with the {which} gap of {len(pairs):,} (number {ours['index']}): "
        f"{panels[0].title} beside {panels[1].title}. Routes are coloured in the order in which they are "
        "decoded, counter-clockwise around the depot from blue to red."
    )
    return solutions(source.city, instance, panels, reference=1), caption


# The pictures of a benchmark's costs

_HEADROOM = 1.25  # the axis over its highest bar, for the legend
_BOXES_WIDTH, _LETTER_WIDTH = 6.6, 0.082  # inches: of the boxes, and of a letter of their names
_LOOKS = ((BLUE, "-"), (ORANGE, "--"))  # of the base and of the other method


def paper_distances(
    results: pd.DataFrame,
    n: int,
    base: Method,
    other: Method,
    unit: str = "",
    published: PublishedDistances | None = None,
) -> Figure:
    """Return the distributions of two methods' costs on ``n`` customers, with means, as the paper draws them.

    The title has the mean of the instances' relative differences (the paper's -1.05 % and
    0.81 %). The two need a solved instance in common. ``published`` stands beside ours.
    """
    costs = paired(results, n, base, other)
    figure = Figure(figsize=(8.6, 5.6 if published else 5.0), dpi=DPI, layout="constrained")
    axis = figure.add_subplot()
    style(axis)
    _histograms(axis, costs, [method_name(method) for method in (base, other)])
    title = f"mean relative difference {gaps(costs[1], costs[0]).mean():+.2f} %"
    if published:
        title += f" (the paper: {published.difference:+.2f} %)"
        for mean, name, (colour, _) in zip(
            (published.base, published.other), (base, other), _LOOKS, strict=True
        ):
            label = f"the paper's {method_name(name)}: mean {mean:.2f}"
            axis.axvline(mean, 0, 1 / _HEADROOM, color=colour, linestyle=":", linewidth=1.8, label=label)
    axis.set_title(f"{n} customers, {len(costs[0]):,} instances\n{title}", fontsize=FONT, loc="left")
    axis.set_xlabel(f"Total distance{in_unit(unit)}")
    axis.set_ylabel("Instances")
    figure.legend(loc="outside lower center", ncols=1 if published else 2, frameon=False, fontsize=FONT - 1)
    return figure


def _histograms(axis: Axes, costs: Sequence[NDArray[np.float64]], names: Sequence[str]) -> None:
    """Draw the histograms over each other, a line at each mean; names may be empty."""
    both = np.concatenate(costs)
    count = min(30, max(8, round(math.sqrt(len(both)))))
    bins = np.histogram_bin_edges(both, bins=count).tolist()
    for values, name, (colour, dash) in zip(costs, names, _LOOKS, strict=True):
        label = f"{name}: mean {values.mean():.2f}" if name else f"mean {values.mean():.2f}"
        axis.hist(values, bins, histtype="stepfilled", color=colour, alpha=0.25)
        axis.hist(values, bins, histtype="step", color=colour, linewidth=1.6)
        axis.axvline(
            values.mean(), 0, 1 / _HEADROOM, color=colour, linestyle=dash, linewidth=2.2, label=label
        )
    axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set_ylim(top=axis.get_ylim()[1] * _HEADROOM)


def distance_distributions(results: pd.DataFrame, base: Method, other: Method, unit: str = "") -> Figure:
    """Return the distributions of two methods' costs with their means, one panel a size.

    Sizes that the two have no solved instance of in common are left out.
    """
    pairs = {n: paired(results, n, base, other) for n in sorted(results["n"].unique().tolist())}
    pairs = {n: pair for n, pair in pairs.items() if len(pair[0])}
    figure, axes = panel_grid(max(len(pairs), 1), columns=3, width=3.7, height=3.4)
    for axis, (n, costs) in zip(axes, pairs.items(), strict=False):
        _histograms(axis, costs, ["", ""])
        axis.set_title(f"{n} customers, {len(costs[0]):,} instances")
        axis.set_xlabel(f"Total distance{in_unit(unit)}")
        close = {"handlelength": 1.3, "columnspacing": 0.9, "handletextpad": 0.4, "borderpad": 0.1}
        axis.legend(loc="upper left", ncols=2, frameon=False, fontsize=FONT - 1, **close)
    for axis in axes[:: min(3, len(axes))]:
        axis.set_ylabel("Instances")
    lines = [Line2D([], [], color=c, linestyle=d, linewidth=2.2) for c, d in _LOOKS]
    names = [method_name(base), method_name(other)]
    figure.legend(lines, names, loc="outside lower center", ncols=2, frameon=False, fontsize=FONT)
    return figure


def gap_boxes(results: pd.DataFrame, base: Method, others: Sequence[Method]) -> Figure:
    """Return each method's gaps to ``base`` as boxes, all sizes together.

    Boxes span the quartiles, whiskers the 10th to 90th percentile, a diamond marks the mean.
    """
    named = {}
    for other in others:
        theirs, reference = paired(results, None, other, base)
        if len(theirs):
            named[method_name(other)] = gaps(theirs, reference)
    width = _BOXES_WIDTH + _LETTER_WIDTH * max(map(len, named), default=0)
    figure = Figure(figsize=(width, 1.5 + 0.5 * max(len(named), 1)), dpi=DPI, layout="constrained")
    axis = figure.add_subplot()
    style(axis)
    axis.axvline(0, color=GREY, linewidth=1)
    axis.boxplot(
        list(named.values()),
        orientation="horizontal",
        whis=(10, 90),
        widths=0.55,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        tick_labels=list(named),
        boxprops={"facecolor": "#CFE5F3", "edgecolor": BLUE},
        medianprops={"color": BLUE, "linewidth": 2},
        whiskerprops={"color": BLUE},
        capprops={"color": BLUE},
        meanprops={"marker": "D", "markerfacecolor": ORANGE, "markeredgecolor": "white", "markersize": 8},
    )
    for row, values in enumerate(named.values(), start=1):
        place: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "ha": "left", "va": "center"}
        axis.annotate(f"mean {values.mean():.2f} %", (1.01, row), color=ORANGE, fontsize=FONT - 1, **place)
    axis.set_ylim(len(named) + 0.6, 0.4)  # the first method on top
    axis.set_xlabel(f"Gap to {method_name(base)} (%)")
    return figure


# The picture of cost against time

_SKY, _AMBER, _WINE, _BROWN, _INK, _SLATE = "#56B4E9", "#E69F00", "#882255", "#5B3A00", "#000000", "#6B6B6B"
_KNOWN = {  # colour, dash and marker, no two markers alike; HGS and the model as in the other pictures
    LABELS["hgs"]: (BLUE, "-", "o"),
    LABELS["pyvrp"]: (_SKY, "-", "s"),
    LABELS["lkh3"]: (GREEN, "-", "p"),
    LABELS["am"]: (PINK, "--", "v"),
    LABELS["fm-gs"]: (_AMBER, "--", "^"),
    LABELS["fm-ns"]: (ORANGE, "-", "D"),
    LABELS["fm-bs"]: (_AMBER, ":", "P"),
    LABELS["fm-ls"]: (_WINE, "-", "X"),
    LABELS["fm-rrc"]: (_BROWN, "--", "*"),
    LABELS["hgs-equal"]: (BLUE, ":", "<"),
    LABELS["pyvrp-equal"]: (_SKY, ":", ">"),
    LABELS["fm-hgs"]: (_INK, "-.", "h"),
    LABELS["fm-pyvrp"]: (_SLATE, "-.", "d"),
}
_OTHERS = ((_INK, ":", "$1$"), (_SLATE, "-", "$2$"), (_BROWN, ":", "$3$"), (_WINE, ":", "$4$"))
_TICKS = {1e-3: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min"}
_TICKS |= {3600: "1 h", 36_000: "10 h"}
_COARSE, _CROWDED = (1e-3, 0.1, 10, 600, 36_000), 1e4  # the ticks of an axis that spans more than so much
_COLUMNS = 3
_LEGEND_WIDTH, _LEGEND_LINE = 4.1, 0.25  # inches that the longest label takes, and a line of labels
_MARGIN = 2.0  # of the time axis beyond the first and the last answer, a factor


def cost_against_time(sizes: Sequence[SizeCurves], unit: str = "") -> Figure:
    """Return the mean cost of each method's best answer so far over the time of an instance, a panel a size.

    A method has nothing before its first answer, and keeps its best after its last; marks are
    the numbers of samples at which the time was measured.
    """
    drawn = [size for size in sizes if size.curves]
    methods = list(dict.fromkeys(curve.method for size in drawn for curve in size.curves))
    others = [method for method in methods if method not in _KNOWN]
    looks = {**_KNOWN, **dict(zip(others, cycle(_OTHERS), strict=False))}
    figure, axes = panel_grid(max(len(drawn), 1), columns=_COLUMNS, width=4.2, height=3.5)
    for axis, size in zip(axes, drawn, strict=False):
        first = min(curve.seconds[0] for curve in size.curves) / _MARGIN
        last = max(curve.seconds[-1] for curve in size.curves) * _MARGIN
        for curve in size.curves:
            colour, dash, marker = looks[curve.method]
            line: dict[str, Any] = {"color": colour, "linestyle": dash, "linewidth": 2}
            seconds, cost = [*curve.seconds, last], [*curve.cost, curve.cost[-1]]
            axis.step(seconds, cost, where="post", **line)
            x, y = curve.seconds[curve.marks], curve.cost[curve.marks]
            axis.plot(
                x, y, linestyle="none", marker=marker, color=colour, markersize=9, markeredgecolor="white"
            )
        axis.set_xscale("log")
        ticks = _TICKS if last < _CROWDED * first else {t: _TICKS[t] for t in _COARSE}
        axis.set_xticks(list(ticks), list(ticks.values()))
        axis.set_xlim(first, last)
        axis.xaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_major_locator(MaxNLocator(5))
        axis.set_title(f"{size.n} customers, {size.instances:,} instances", fontsize=FONT)
        axis.set_xlabel("Time per instance", fontsize=FONT)
    dearest = max((float(curve.cost[0]) for size in drawn for curve in size.curves), default=0.0)
    for k, axis in enumerate(axes):
        label_lengths(axis.yaxis, dearest, unit, "Mean distance of the\nbest answer")
        axis.yaxis.label.set_fontsize(FONT - 1)
        if k % _COLUMNS:
            axis.set_ylabel("")
    handles = [
        Line2D([], [], color=colour, linestyle=dash, linewidth=2, marker=marker, label=method)
        for method, (colour, dash, marker) in ((method, looks[method]) for method in methods)
    ]
    if handles:
        columns = max(1, int(figure.get_figwidth() // _LEGEND_WIDTH))
        figure.set_figheight(figure.get_figheight() + _LEGEND_LINE * math.ceil(len(handles) / columns))
        figure.legend(
            handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=FONT - 1
        )
    return figure
