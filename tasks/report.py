"""The report of a run: pictures and one page, made from what the store holds and what was asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote

import numpy as np
import pandas as pd

from model.instances import InstanceStream, Rules
from model.problem import City, Solution
from storage import layout
from storage.benchmarks import read_results
from storage.store import Store
from tasks import figures
from tasks.benchmark_spec import LABELS, BenchmarkSpec
from tasks.benchmark_summary import (
    BASELINE,
    GREEDY,
    SAMPLED,
    BenchmarkSummary,
    benchmark_table,
    read_summary,
    results_frame,
)
from tasks.figures import Method, Panel
from tasks.report_history import Curves, read_history
from tasks.report_page import Figure, KeyFigure, Link, Page, StageLine, render


def write_report(store: Store, city: City, spec: BenchmarkSpec) -> str:
    """Write pictures and report of the finished benchmark ``spec`` and return the report's address.

    Everything comes from the store: results and summary, and of the model, where there is one,
    its labels and the metrics of its training.

    Raises
    ------
    McvrpError
        If there is no such benchmark.
    """
    folder = layout.benchmark_dir(spec.run)
    summary, results = read_summary(store, spec.run), results_frame(store, spec.run)
    history = read_history(store, summary)
    pictures = list(_pictures(store, city, summary, results, spec.rules, history.curves))
    for picture in pictures:
        store.put(f"{folder}/figures/{picture.name}.png", picture.png)
    files = ["table.csv", "table.md", "table.tex", "results.parquet", "summary.json"]
    files += [f"figures/{picture.name}.png" for picture in pictures]
    page = Page(
        title=f"MCVRP: {spec.run}",
        lead=_lead(summary),
        key_figures=list(_key_figures(summary)),
        stages=[*history.stages(city), _stage(spec)],
        tables=[benchmark_table(results, summary.encoder_accuracy)],
        figures=pictures,
        configuration=history.configuration(spec),
        links=[Link(quote(name), name) for name in files] + history.links(),
    )
    path = f"{folder}/report.html"
    store.put(path, render(page).encode())
    return store.url(path)


def _stage(spec: BenchmarkSpec) -> StageLine:
    methods = ", ".join(LABELS[method] for method in spec.methods)
    return StageLine("Benchmark", f"{sum(spec.counts.values()):,} held-out instances, each by {methods}")


def _lead(summary: BenchmarkSummary) -> str:
    model = f"Model {summary.model}, version {summary.model_version}, against" if summary.model else "Only"
    now = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
    return f"{model} heuristics on orders it never saw. {summary.hardware}; {now}."


def _key_figures(summary: BenchmarkSummary) -> Iterator[KeyFigure]:
    if summary.gs_mean_gap is not None:
        note = "mean over all held-out instances, one decoded answer each"
        yield KeyFigure(f"{summary.gs_mean_gap:.2f} %", "Greedy: gap to HGS", note)
    if summary.ns_mean_gap is not None:
        note = f"the best of {summary.ns_samples} nucleus samples, p\u00a0=\u00a0{summary.p:g}"
        yield KeyFigure(f"{summary.ns_mean_gap:.2f} %", f"Best of {summary.ns_samples}: gap to HGS", note)
    if summary.encoder_accuracy is not None:
        note = "of the held-out problem tokens named by the encoder"
        yield KeyFigure(f"{100 * summary.encoder_accuracy:.2f} %", "Encoder accuracy", note)
    sizes = list(summary.instances)
    span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    total = sum(summary.instances.values())
    yield KeyFigure(f"{total:,}", "Held-out instances", f"of {span} customers, never trained on")


# Pictures ------------------------------------------------------------------------------------


def _pictures(
    store: Store, city: City, summary: BenchmarkSummary, results: pd.DataFrame, rules: Rules, curves: Curves
) -> Iterator[Figure]:
    best = _best_of_the_model(summary)
    name = figures.method_name
    if best and summary.gap_of(best) is not None:
        example = _example(store, city, summary, best, rules)
        if example:
            yield example
        png = figures.distance_distributions(results, BASELINE, best, city.unit)
        caption = (
            f"Distances of {name(BASELINE)} and {name(best)} on the held-out instances; lines are means."
        )
        yield Figure("distances", png, caption)
    others = [m for m in _methods(results) if m != BASELINE]
    if others and BASELINE in _methods(results):
        caption = (
            f"Gaps to {name(BASELINE)} over all sizes: boxes span the middle half of the instances, whiskers "
            "the middle 80 %, diamonds are means."
        )
        yield Figure("gaps", figures.gap_boxes(results, BASELINE, others), caption)
    if curves:
        caption = "Training: loss and accuracy of both token streams through the phases of the curriculum."
        yield Figure("training", figures.training_curves(curves), caption)


def _methods(results: pd.DataFrame) -> list[Method]:
    """Return the methods with any answer, in the order of the results."""
    solved = results[results["cost"].notna()]
    pairs = solved[["method", "samples"]].drop_duplicates()
    return [(str(m), int(s)) for m, s in zip(pairs["method"], pairs["samples"], strict=True)]


def _best_of_the_model(summary: BenchmarkSummary) -> Method | None:
    for method in ((SAMPLED, summary.ns_samples), GREEDY):
        if summary.gap_of(method) is not None:
            return method
    return None


def _example(
    store: Store, city: City, summary: BenchmarkSummary, best: Method, rules: Rules
) -> Figure | None:
    """Return the two solutions of the instance whose gap is the median at the largest size."""
    table = read_results(store, summary.run)
    rows = {
        (row["method"], row["n"], row["index"]): row
        for row in table.to_pylist()
        if row["routes"] is not None and row["method"] in (BASELINE[0], best[0])
    }
    n = max((n for _, n, _ in rows), default=0)
    pairs = [
        (rows[key], rows[best[0], n, key[2]])
        for key in rows
        if key[:2] == (BASELINE[0], n) and (best[0], n, key[2]) in rows
    ]
    if not pairs:
        return None
    gap = [theirs["cost"] / base["cost"] for base, theirs in pairs]
    base, theirs = pairs[int(np.argsort(gap)[(len(gap) - 1) // 2])]
    instance = InstanceStream(city, base["seed"], "test", rules)(n, base["index"])
    panels = [
        Panel(figures.method_name((row["method"], row["samples"])), Solution.of(row["routes"]))
        for row in (base, theirs)
    ]
    caption = (
        f"One instance side by side: {n} customers, the held-out instance with the median gap "
        f"(number {base['index']} of {summary.instances[n]:,})."
    )
    return Figure("solution", figures.solutions(city, instance, panels), caption)
