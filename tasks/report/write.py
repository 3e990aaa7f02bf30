"""Report of a benchmark: tables, tests, key figures, pictures and one page, each made once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from urllib.parse import quote

from mcvrp.model.problem import City
from mcvrp.storage import layout, markdown
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.results import BenchmarkResults
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.report.formats import FORMATS, SIGNIFICANCE_FORMATS
from mcvrp.tasks.report.history import read_history
from mcvrp.tasks.report.page import KeyFigure, Link, Page, ReportFigure, StageLine, render
from mcvrp.tasks.report.paper import PAPER_TRAINED_UP_TO, paper_tables
from mcvrp.tasks.report.paper_values import is_papers_setting
from mcvrp.tasks.report.pictures import pictures
from mcvrp.tasks.report.significance import PairedTest, benchmark_tests
from mcvrp.tasks.report.summary import BenchmarkSummary, summarise
from mcvrp.tasks.report.tables import Table, benchmark_table

OVERVIEW = "table"  # the name of the table of every method, which lies on top; the others have a folder


def write_report(store: Store, city: City, results: BenchmarkResults) -> BenchmarkSummary:
    """Write tables, tests, pictures, card and page of a finished benchmark, and return its key figures.

    Of the model, where there is one, its labels and its training, the page tells what the store still has.
    """
    spec, card, frame = results.spec, results.card, results.frame
    limit = (card.largest if card else None) or PAPER_TRAINED_UP_TO
    papers = is_papers_setting(city, spec.rules_in(city))
    overview = benchmark_table(frame, results.accuracy, city.unit)
    summary, history = summarise(results, city, overview), read_history(store, card)
    of_the_paper = paper_tables(
        frame,
        trained_up_to=limit,
        labelled_by=history.labelled_by(spec.sizes),
        is_papers_setting=papers,
        unit=city.unit,
    )
    tables, tests = (overview, *of_the_paper), benchmark_tests(frame, limit, is_papers_setting=papers)
    drawn = list(pictures(city, results, limit, history.losses))
    configuration = history.configuration(spec)

    folder = layout.benchmark_dir(spec.run)
    store.put_json(f"{folder}/summary.json", asdict(summary))
    files = {"configuration.json": configuration.encode(), **dict(_files(drawn, tables, tests))}
    for name, data in files.items():
        store.put(f"{folder}/{name}", data)
    page = Page(
        title=f"MCVRP: {spec.run}",
        lead=_lead(summary),
        key_figures=list(_key_figures(summary)),
        stages=[*history.stages(city), _stage(spec)],
        tables=tables,
        tests=tests,
        figures=drawn,
        configuration=configuration,
        links=[
            *(Link(quote(name), name) for name in ("results.parquet", "summary.json", *files)),
            *history.links,
        ],
        address=store.url(folder),
    )
    text = benchmark_text(summary, page.lead, page.key_figures, drawn)
    store.put(layout.benchmark_card(spec.run), text.encode())
    # the page is last: where it lies, all that it links to does
    store.put(f"{folder}/report.html", render(page).encode())
    return summary


def _files(
    drawn: Sequence[ReportFigure], tables: Sequence[Table], tests: Sequence[PairedTest]
) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each picture and table."""
    for picture in drawn:
        yield f"figures/{picture.name}.png", picture.png
        yield f"figures/{picture.name}.svg", picture.svg
    for each in tables:
        for ending, text in FORMATS.items():
            yield f"{'' if each.name == OVERVIEW else 'tables/'}{each.name}.{ending}", text(each).encode()
    for ending, tests_text in SIGNIFICANCE_FORMATS.items() if tests else ():
        yield f"tables/significance.{ending}", tests_text(tests).encode()


def _stage(spec: BenchmarkSpec) -> StageLine:
    labels = ", ".join(all_methods()[name].label for name in spec.methods)
    return StageLine("Benchmark", f"{sum(spec.counts.values()):,} held-out instances, each by {labels}")


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
    texts = {"lead": lead, "key_figures": markdown.table(["", "", ""], rows)}
    return markdown.render("mcvrp.tasks.report", "README.md.j2", summary=summary, figures=figures, **texts)
