"""Figures of a benchmark's report and their captions, drawn from its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.figure import Figure

from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Solution
from mcvrp.tasks.benchmark.results import BenchmarkResults
from mcvrp.tasks.report.distributions import distance_distributions, gap_boxes, paper_distances
from mcvrp.tasks.report.metrics import MethodRun, baseline_of, method_name, paired
from mcvrp.tasks.report.page import ReportFigure
from mcvrp.tasks.report.paper import GREEDY, PAPER_SIZE, SAMPLED, compared_size
from mcvrp.tasks.report.paper_values import is_papers_setting, published_distances
from mcvrp.tasks.report.time_curves import cost_against_time, time_curves
from mcvrp.tasks.support.pictures import png, solutions, svg
from mcvrp.tasks.support.text import readable_unit
from mcvrp.tasks.train.card import Phase, loss_figure, training_curves


def pictures(
    city: City, results: BenchmarkResults, trained_up_to: int, losses: Sequence[Phase]
) -> Iterator[ReportFigure]:
    """Yield the figures that the results have data for.

    ``trained_up_to`` is the largest size in training, ``losses`` are names and metrics of the training
    phases.
    """
    best, n = best_of_the_model(results.frame), compared_size(results.frame, trained_up_to)
    if best:
        yield from _distances(city, results, best, n)
    yield from _times(city, results)
    yield from _gaps(results.frame)
    if best:
        larger = [size for size in results.frame["n"].unique().tolist() if size > trained_up_to]
        yield from _examples(city, results, best, n, sorted(larger)[-1:])
    if losses:
        caption = (
            "Training loss of problem tokens (left) and solution tokens (right), one row per phase, as in "
            "the paper; thick lines are running means."
        )
        yield _picture("losses", loss_figure(losses), caption)
        caption = "Training: loss and accuracy of both token streams over the phases of the curriculum."
        yield _picture("training", training_curves(losses), caption)


def best_of_the_model(results: pd.DataFrame) -> MethodRun | None:
    """Return the model's method with answers at the largest number of samples, None without a model."""
    solved = results[results["cost"].notna()]
    for method in (SAMPLED, GREEDY):
        samples = solved.loc[solved["method"] == method, "samples"]
        if len(samples):
            return method, int(samples.max())
    return None


def _picture(name: str, figure: Figure, caption: str) -> ReportFigure:
    return ReportFigure(name, png(figure), caption, svg(figure))


def _distances(city: City, results: BenchmarkResults, best: MethodRun, n: int) -> Iterator[ReportFigure]:
    """Yield the paper's two figures of distributions at its size, and the distributions at all sizes."""
    single = baseline_of(results.frame)
    factor, unit = readable_unit(city.unit, float(results.frame["cost"].max()))
    frame = results.frame.assign(cost=results.frame["cost"] * factor)
    # with greedy decoding only, both baselines are the single run
    bases = dict.fromkeys((single, (single[0], best[1])))
    for name, base in zip(("distances-single", "distances-best"), bases, strict=False):
        if not len(paired(frame, n, base, best)[0]):
            continue
        papers = n == PAPER_SIZE and is_papers_setting(city, results.spec.rules_in(city))
        theirs = published_distances(base, best) if papers else None
        dotted = ", dotted lines those of the paper, on its own instances" if theirs else ""
        yield _picture(
            name,
            paper_distances(frame, n, base, best, unit, theirs),
            f"Distances of {method_name(best)} and {method_name(base)}; lines are means{dotted}.",
        )
    if len(paired(frame, None, single, best)[0]):
        caption = f"Distances of {method_name(single)} and {method_name(best)} at all sizes."
        yield _picture("distances", distance_distributions(frame, single, best, unit), caption)


def _times(city: City, results: BenchmarkResults) -> Iterator[ReportFigure]:
    sizes = time_curves(results.table)
    if any(size.curves for size in sizes):
        caption = (
            "Cost against time: mean cost of each method's best answer after a given time per instance. "
            "Methods with several runs or samples improve with each. Marks are measured times; between them, "
            "time is interpolated. The last column of the tables names the hardware of each method."
        )
        yield _picture("times", cost_against_time(sizes, city.unit), caption)


def _gaps(results: pd.DataFrame) -> Iterator[ReportFigure]:
    solved = results[results["cost"].notna()][["method", "samples"]].drop_duplicates()
    methods = [(str(m), int(s)) for m, s in solved.itertuples(index=False)]
    base = baseline_of(results)
    others = [method for method in methods if method != base]
    if others and base in methods:
        caption = (
            f"Gaps to {method_name(base)} over all sizes: boxes span the quartiles, whiskers the 10th to "
            "90th percentile; diamonds are means."
        )
        yield _picture("gaps", gap_boxes(results, base, others), caption)


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
        row = pairs.iloc[(pairs["cost"] / pairs["cost_base"]).argsort(kind="stable").iloc[rank]]
        panels = [
            (method_name((row[f"method{end}"], row[f"samples{end}"])), Solution.of(row[f"routes{end}"]))
            for end in ("", "_base")
        ]
        caption = (
            f"{size} customers, the instance with the {which} gap of {len(pairs):,} (number {row['index']}): "
            f"{panels[0][0]} beside {panels[1][0]}. Colours follow the canonical order of routes: "
            "counter-clockwise around the depot by the angle of the centroid, from blue to red."
        )
        stream = InstanceStream(city, int(row["seed"]), "test", results.spec.rules_in(city))
        instance = stream(size, int(row["index"]))
        yield _picture(name, solutions(city, instance, panels, reference=1), caption)
