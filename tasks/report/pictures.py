"""Figures of a benchmark's report with their captions: gaps of all methods, costs of two, solutions."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Solution, gap
from mcvrp.tasks.benchmark.run import BenchmarkResults
from mcvrp.tasks.report.formats import ReportFigure
from mcvrp.tasks.report.metrics import MethodRun, baseline_of, in_training, paired
from mcvrp.tasks.report.paper import GREEDY, SAMPLED, compared_size
from mcvrp.tasks.report.verdict import PICTURE, gaps_and_times, readable_name
from mcvrp.tasks.support.pictures import BLUE, DPI, FONT, ORANGE, in_unit, png, solutions, style
from mcvrp.tasks.support.text import readable_unit

_HEADROOM = 1.25  # height of the axis relative to its highest bar, for the legend
_LOOKS = ((BLUE, "-"), (ORANGE, "--"))  # baseline and other method


def pictures(city: City, results: BenchmarkResults, trained_up_to: int) -> Iterator[ReportFigure]:
    """Yield the figures that the results have data for."""
    best, n = best_of_the_model(results.frame), compared_size(results.frame, trained_up_to)
    if overview := gaps_and_times(in_training(results.frame, trained_up_to)):
        caption = "Mean gap against mean time per instance, sizes of training; bars are standard errors."
        yield ReportFigure(PICTURE, png(overview), caption)
    if best:
        yield from _distances(city, results.frame, best, n)
        larger = [size for size in results.frame["n"].unique().tolist() if size > trained_up_to]
        yield from _examples(city, results, best, n, sorted(larger)[-1:])


def best_of_the_model(results: pd.DataFrame) -> MethodRun | None:
    """Return the model's method with answers at the largest number of samples, None without a model."""
    solved = results[results["cost"].notna()]
    for method in (SAMPLED, GREEDY):
        samples = solved.loc[solved["method"] == method, "samples"]
        if len(samples):
            return method, int(samples.max())
    return None


def _distances(city: City, results: pd.DataFrame, best: MethodRun, n: int) -> Iterator[ReportFigure]:
    """Yield the paper's two figures of distributions: against a single run, and as many as samples."""
    single = baseline_of(results)
    factor, unit = readable_unit(city.unit, float(results["cost"].max()))
    frame = results.assign(cost=results["cost"] * factor)
    # with greedy decoding only, both baselines are the single run
    bases = dict.fromkeys((single, (single[0], best[1])))
    for name, base in zip(("distances-single", "distances-best"), bases, strict=False):
        if len(paired(frame, n, base, best)[0]):
            caption = f"Distances: {readable_name(best)}; {readable_name(base)}. Lines are means."
            yield ReportFigure(name, png(distances(frame, n, base, best, unit)), caption)


def _examples(
    city: City, results: BenchmarkResults, best: MethodRun, n: int, larger: list[int]
) -> Iterator[ReportFigure]:
    """Yield the model's solution beside the baseline's, at the median and at the best gap."""
    table = results.table.drop_columns(["costs"]).to_pandas()
    routed = table[table["routes"].notna()]
    ours, base = (routed[routed["method"] == method] for method in (best[0], baseline_of(results.frame)[0]))
    both = ours.merge(base, on=["n", "index"], suffixes=("", "_base"))
    wanted = [("solution", n, "median"), *((f"best-gap-{size}", size, "best") for size in (n, *larger))]
    for name, size, which in wanted:
        pairs = both[both["n"] == size]
        if pairs.empty:
            continue
        rank = (len(pairs) - 1) // 2 if which == "median" else 0
        gaps = gap(pairs["cost"].to_numpy(), pairs["cost_base"].to_numpy())
        row = pairs.iloc[gaps.argsort(kind="stable")[rank]]
        panels = [
            (readable_name((row[f"method{end}"], row[f"samples{end}"])), Solution.of(row[f"routes{end}"]))
            for end in ("", "_base")
        ]
        caption = (
            f"{size} customers, the instance with the {which} gap of {len(pairs):,} (number {row['index']}): "
            f"{panels[0][0]}; {panels[1][0]}."
        )
        stream = InstanceStream(city, int(row["seed"]), "test", results.spec.rules_in(city))
        instance = stream(size, int(row["index"]))
        yield ReportFigure(name, png(solutions(city, instance, panels, reference=1)), caption)


def distances(results: pd.DataFrame, n: int, base: MethodRun, other: MethodRun, unit: str = "") -> Figure:
    """Return the paper's figure of the cost distributions of two methods on ``n`` customers, with means.

    The title gives the mean relative difference. The methods need a solved instance in common.
    """
    costs = paired(results, n, base, other)
    both = np.concatenate(costs)
    count = min(30, max(8, round(math.sqrt(len(both)))))
    bins = np.histogram_bin_edges(both, bins=count).tolist()
    figure = Figure(figsize=(8.6, 5.0), dpi=DPI, layout="constrained")
    axis = figure.add_subplot()
    style(axis)
    for values, method, (colour, dash) in zip(costs, (base, other), _LOOKS, strict=True):
        label = f"{readable_name(method)}: mean {values.mean():.2f}"
        axis.hist(values, bins, histtype="stepfilled", color=colour, alpha=0.25)
        axis.hist(values, bins, histtype="step", color=colour, linewidth=1.6)
        axis.axvline(
            values.mean(), 0, 1 / _HEADROOM, color=colour, linestyle=dash, linewidth=2.2, label=label
        )
    axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.set_ylim(top=axis.get_ylim()[1] * _HEADROOM)
    title = f"mean relative difference {gap(costs[1], costs[0]).mean():+.2f} %"
    axis.set_title(f"{n} customers, {len(costs[0]):,} instances\n{title}", fontsize=FONT, loc="left")
    axis.set_xlabel(f"Total distance{in_unit(unit)}")
    axis.set_ylabel("Instances")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=FONT - 1)
    return figure
