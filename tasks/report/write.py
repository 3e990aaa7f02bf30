"""The report of a run: pictures and one page, made from what the store holds and what was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import read_results
from mcvrp.storage.markdown import table
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.methods import methods
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.report.history import read_history
from mcvrp.tasks.report.page import KeyFigure, Link, Page, ReportFigure, StageLine, render
from mcvrp.tasks.report.pictures import Pictured, pictures
from mcvrp.tasks.report.significance_formats import FORMATS as TEST_FORMATS
from mcvrp.tasks.report.summary import (
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
    methods = ", ".join(methods()[name].label for name in spec.methods)
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


# The card of a benchmark

_FILES = {
    "report.html": "all of it on one page, with settings and the history of the model",
    "table.md, .csv, .tex": "the table below; CSV has full precision",
    "tables/": "the paper's four tables and its tests of significance, in the same formats",
    "figures/": "the pictures below, and those of the paper, as PNG and SVG",
    "summary.json": "the key figures for programs",
    "configuration.json": "what was asked for: labels, training, benchmark",
    "results.parquet": "a row an instance, method and number of samples: cost, seconds, routes, who and how",
    "parts/": "the answers as they came, in parts named by what decides them",
}


def benchmark_text(
    summary: BenchmarkSummary, lead: str, key_figures: Sequence[KeyFigure], figures: Sequence[ReportFigure]
) -> str:
    """Return the card as Markdown; pictures are links relative to it.

    Parameters
    ----------
    lead
        What was compared, on what, when.
    key_figures, figures
        Those of the report.
    """
    rows = [[key.label, key.value, key.note] for key in key_figures]
    files = [[f"`{file}`", text] for file, text in _FILES.items()]
    parts = [f"# Benchmark `{summary.run}`", lead]
    parts += [table(["", "", ""], rows), "## Files", table(["File", "Holds"], files)]
    parts += ["## Table", summary.markdown.strip(), "## Pictures", *_pictures(figures)]
    return "\n\n".join(parts) + "\n"


def _pictures(figures: Sequence[ReportFigure]) -> Iterator[str]:
    for figure in figures:
        yield f"![{figure.name}](figures/{figure.name}.png)"
        yield figure.caption
