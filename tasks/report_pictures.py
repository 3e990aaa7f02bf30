"""Which pictures a benchmark's report has, and what is said under each; drawn from stored results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import matplotlib.figure
import numpy as np
import pandas as pd
import pyarrow as pa

from model.instances import InstanceStream, Rules
from model.problem import City, Solution
from tasks import benchmark_figures
from tasks.example_figures import Panel, solutions
from tasks.figures import Method, method_name, png, svg, training_curves
from tasks.lengths import readable_unit
from tasks.paper_tables import GREEDY, SAMPLED
from tasks.paper_values import is_papers_setting, published_distances
from tasks.report_page import Figure
from tasks.significance import PAPER_SIZE, compared_size
from tasks.tables import baseline_of, paired
from tasks.time_curves import time_curves
from tasks.time_figures import cost_against_time
from tasks.train_figures import Phase, loss_figure

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
        The same for tables, see `tasks.tables`.
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


def pictures(source: Pictured) -> Iterator[Figure]:
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


def _picture(name: str, figure: matplotlib.figure.Figure, caption: str) -> Figure:
    return Figure(name, png(figure), caption, svg(figure))


def _distances(source: Pictured) -> Iterator[Figure]:
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
            figure = benchmark_figures.paper_distances(results, n, base, best, unit, theirs)
            dotted = ", dotted ones the paper's, on instances of its own" if theirs else ""
            yield _picture(
                name,
                figure,
                f"Distances of {method_name(best)} and {method_name(base)}; lines are means{dotted}.",
            )
    if len(paired(results, None, single, best)[0]):
        figure = benchmark_figures.distance_distributions(results, single, best, unit)
        yield _picture(
            "distances", figure, f"The same of {method_name(single)} and {method_name(best)} at every size."
        )


def _times(source: Pictured) -> Iterator[Figure]:
    sizes = time_curves(source.stored)
    if any(size.curves for size in sizes):
        caption = (
            "Cost against time: what the best answer of each method costs after so much time on an instance. "
            "A method that runs several times, or draws several samples, improves with each; marks are where "
            "the time was measured, between them it is interpolated. On what each method ran stands in the "
            "tables' last column."
        )
        yield _picture("times", cost_against_time(sizes, source.city.unit), caption)


def _gaps(source: Pictured) -> Iterator[Figure]:
    solved = source.results[source.results["cost"].notna()][["method", "samples"]].drop_duplicates()
    methods = [(str(m), int(s)) for m, s in solved.itertuples(index=False)]
    base = baseline_of(source.results)
    others = [method for method in methods if method != base]
    if others and base in methods:
        caption = (
            f"Gaps to {method_name(base)} over all sizes: boxes span the middle half of the instances, "
            "whiskers the middle 80 %, diamonds are means."
        )
        yield _picture("gaps", benchmark_figures.gap_boxes(source.results, base, others), caption)


def _examples(source: Pictured) -> Iterator[Figure]:
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
) -> tuple[matplotlib.figure.Figure, str] | None:
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
