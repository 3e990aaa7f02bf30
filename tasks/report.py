"""The report of a run: pictures and one page, made from what the store holds and what was asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote

from model.problem import City
from storage import layout
from storage.benchmarks import read_results
from storage.store import Store
from tasks.benchmark_card import benchmark_text
from tasks.benchmark_spec import LABELS, BenchmarkSpec
from tasks.benchmark_summary import (
    FORMATS,
    SIGNIFICANCE,
    BenchmarkSummary,
    benchmark_table,
    comparisons,
    read_summary,
    results_frame,
    significance,
    table_path,
    trained_up_to,
)
from tasks.report_history import read_history
from tasks.report_page import KeyFigure, Link, Page, StageLine, render
from tasks.report_pictures import Pictured, pictures
from tasks.significance_formats import FORMATS as TEST_FORMATS


def write_report(store: Store, city: City, spec: BenchmarkSpec) -> str:
    """Write pictures, card and report of the finished benchmark ``spec``, and return the report's address.

    Everything comes from the store: results and summary, and of the model, where there is one,
    its labels and the metrics of its training.

    Raises
    ------
    McvrpError
        If there is no such benchmark.
    """
    spec, folder = spec.in_city(city), layout.benchmark_dir(spec.run)
    summary, results = read_summary(store, spec.run), results_frame(store, spec.run)
    history = read_history(store, summary)
    card = history.card
    source = Pictured(
        city, spec.rules, read_results(store, spec.run), results, trained_up_to(card), history.losses
    )
    drawn = list(pictures(source))
    configuration = history.configuration(spec)
    store.put(f"{folder}/configuration.json", configuration.encode())
    files = ["results.parquet", "summary.json", "configuration.json"]
    for picture in drawn:
        for ending, data in (("png", picture.png), ("svg", picture.svg)):
            files.append(f"figures/{picture.name}.{ending}")
            store.put(f"{folder}/{files[-1]}", data)
    overview = benchmark_table(results, summary.encoder_accuracy, city.unit)
    tables = (overview, *comparisons(results, city, spec.rules, card))
    files += [table_path(table.name, ending) for table in tables for ending in FORMATS]
    tests = significance(results, city, spec.rules, card)
    files += [table_path(SIGNIFICANCE, ending) for ending in TEST_FORMATS] if tests else []
    page = Page(
        title=f"MCVRP: {spec.run}",
        lead=_lead(summary),
        key_figures=list(_key_figures(summary)),
        stages=[*history.stages(city), _stage(spec)],
        tables=tables,
        tests=tests,
        figures=drawn,
        configuration=configuration,
        links=[*(Link(quote(name), name) for name in files), *history.links],
        address=store.url(folder),
    )
    text = benchmark_text(summary, page.lead, page.key_figures, drawn)
    store.put(layout.benchmark_card(spec.run), text.encode())
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
        yield KeyFigure(f"{summary.gs_mean_gap:.2f} %", f"Greedy: gap to {summary.baseline}", note)
    if summary.ns_mean_gap is not None:
        note = f"the best of {summary.ns_samples} nucleus samples, p\u00a0=\u00a0{summary.p:g}"
        yield KeyFigure(
            f"{summary.ns_mean_gap:.2f} %", f"Best of {summary.ns_samples}: gap to {summary.baseline}", note
        )
    if summary.encoder_accuracy is not None:
        note = "of the held-out problem tokens named by the encoder"
        yield KeyFigure(f"{100 * summary.encoder_accuracy:.2f} %", "Encoder accuracy", note)
    sizes = list(summary.instances)
    span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    total = sum(summary.instances.values())
    yield KeyFigure(f"{total:,}", "Held-out instances", f"of {span} customers, never trained on")
