"""Report of a benchmark: writes tables, tests, key figures, figures and the HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pandas as pd

from mcvrp.model.problem import City
from mcvrp.storage import layout, markdown
from mcvrp.storage.cities import city_parent
from mcvrp.storage.models.attention import attention_models
from mcvrp.storage.provenance import Parent, Provenance, made, provenance_in, provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.run import BenchmarkResults
from mcvrp.tasks.report.formats import FORMATS, SIGNIFICANCE_FORMATS, Page, render_page, to_narrow_markdown
from mcvrp.tasks.report.history import read_history
from mcvrp.tasks.report.metrics import baseline_of, mean_gap
from mcvrp.tasks.report.paper import (
    GREEDY,
    PAPER_TRAINED_UP_TO,
    SAMPLED,
    is_papers_setting,
    paper_tables,
    paper_tests,
)
from mcvrp.tasks.report.pictures import pictures
from mcvrp.tasks.report.tables import Table, benchmark_table
from mcvrp.tasks.report.verdict import verdict, warnings

OVERVIEW = "table"  # name of the table of all methods; the others are in a folder of their own


def write_report(store: Store, city: City, results: BenchmarkResults) -> BenchmarkSummary:
    """Write tables, tests, figures, README and page of a finished benchmark, and return its key figures."""
    spec, card, frame = results.spec, results.card, results.frame
    trained_up_to = (card.largest if card else None) or PAPER_TRAINED_UP_TO
    is_papers = is_papers_setting(city, spec.rules_in(city))
    history = read_history(store, card)
    labelled_by = history.labelled_by(spec.sizes)
    overview = benchmark_table(frame, results.accuracy, city.unit)
    of_the_paper = paper_tables(
        frame,
        trained_up_to=trained_up_to,
        labelled_by=labelled_by,
        is_papers_setting=is_papers,
        unit=city.unit,
    )
    summary = replace(summarise(results, city, overview), provenance=_provenance(store, city, results))
    folder = layout.benchmark_dir(spec.run)
    labels = ", ".join(all_methods()[name].label for name in spec.methods)
    work = f"{sum(spec.counts.values()):,} held-out instances, each solved by {labels}"
    page = Page(
        title=f"MCVRP: {spec.run}",
        lead=_lead(summary),
        key_figures=list(_key_figures(summary)),
        stages=[*history.stages(city), ("Benchmark", work)],
        tables=(overview, *of_the_paper),
        tests=paper_tests(frame, trained_up_to, is_papers_setting=is_papers),
        figures=list(pictures(city, results, trained_up_to, history.losses)),
        configuration=history.configuration(spec),
        address=store.url(folder),
        verdict=list(verdict(frame, labelled_by)),
        warnings=list(warnings(frame)),
    )
    files = dict(_files(page))
    links = [(quote(name), name) for name in ("results.parquet", "summary.json", *files)]
    store.put_json(f"{folder}/summary.json", asdict(summary))
    for name, data in files.items():
        store.put(f"{folder}/{name}", data)
    store.put(layout.benchmark_card(spec.run), _readme(summary, page).encode())
    # last, so that all files that the page links to exist
    store.put(f"{folder}/report.html", render_page(replace(page, links=[*links, *history.links])).encode())
    return summary


def _provenance(store: Store, city: City, results: BenchmarkResults) -> Provenance:
    """Return the provenance of a benchmark, with earlier makers of its answers."""
    spec, path = results.spec, f"{layout.benchmark_dir(results.spec.run)}/summary.json"
    attention = attention_models(store, spec.attention) if spec.attention and "am" in spec.methods else []
    parents = [
        city_parent(store, city.city_id),
        results.card.as_parent if results.card else None,
        *(Parent(card.folder, card.weights_sha256) for card in attention if card.n in spec.sizes),
    ]
    earlier = provenance_in(store.get_json(path)) if store.exists(path) else None
    return made(parents, earlier)


def _files(page: Page) -> Iterator[tuple[str, bytes]]:
    yield "configuration.json", page.configuration.encode()
    for figure in page.figures:
        yield f"figures/{figure.name}.png", figure.png
        yield f"figures/{figure.name}.svg", figure.svg
    for table in page.tables:
        for ending, text in FORMATS.items():
            folder = "" if table.name == OVERVIEW else "tables/"
            yield f"{folder}{table.name}.{ending}", text(table).encode()
    for ending, tests_text in SIGNIFICANCE_FORMATS.items() if page.tests else ():
        yield f"tables/significance.{ending}", tests_text(page.tests).encode()


def _lead(summary: BenchmarkSummary) -> str:
    methods = "Heuristics"
    if summary.model:
        methods = f"Model {summary.model}, version {summary.model_version}, and heuristics"
    now = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
    return f"{methods} on held-out instances. {summary.hardware}; {now}; {summary.provenance}."


def _key_figures(summary: BenchmarkSummary) -> Iterator[tuple[str, str, str]]:
    if summary.gs_mean_gap is not None:
        note = "mean over all held-out instances, greedy decoding"
        yield f"{summary.gs_mean_gap:.2f} %", f"Greedy: gap to {summary.baseline}", note
    if summary.ns_mean_gap is not None:
        note = f"mean of the best of {summary.ns_samples} nucleus samples, p\u00a0=\u00a0{summary.p:g}"
        yield f"{summary.ns_mean_gap:.2f} %", f"Best of {summary.ns_samples}: gap to {summary.baseline}", note
    if summary.encoder_accuracy is not None:
        note = "on the problem tokens of the held-out instances"
        yield f"{100 * summary.encoder_accuracy:.2f} %", "Encoder accuracy", note
    sizes = list(summary.instances)
    span = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    total = sum(summary.instances.values())
    yield f"{total:,}", "Held-out instances", f"of {span} customers, not in training"


def _readme(summary: BenchmarkSummary, page: Page) -> str:
    rows = [[label, value, note] for value, label, note in page.key_figures]
    return markdown.render(
        "mcvrp.tasks.report",
        "README.md.j2",
        summary=summary,
        figures=page.figures,
        lead=page.lead,
        made=provenance_line(summary.provenance, layout.benchmark_dir(summary.run)),
        key_figures=markdown.table(["", "", ""], rows),
    )


@dataclass(frozen=True)
class BenchmarkSummary:
    """Key figures of a benchmark; None if not measured.

    Gaps are means over all instances of all sizes to a single run of ``baseline``, in percent: of greedy
    decoding, and of the best of ``ns_samples`` samples with nucleus ``p``.
    """

    run: str
    city_id: str
    model: str | None
    model_version: int | None
    instances: Mapping[int, int]  # number of held-out instances by size
    encoder_accuracy: float | None  # on the problem tokens
    gs_mean_gap: float | None
    ns_mean_gap: float | None
    ns_samples: int
    p: float
    mean_costs: Mapping[str, Mapping[int, float]]  # over solved instances, by method and size
    failures: Mapping[str, tuple[int, str]]  # instances without an answer, and the most frequent reason
    hardware: str
    markdown: str  # table of all methods, as two narrow ones
    baseline: str = "HGS"  # or PyVRP, if HGS has no answers
    provenance: Provenance | None = None


def summarise(results: BenchmarkResults, city: City, table: Table) -> BenchmarkSummary:
    """Return the key figures of ``results``; ``table`` is the one of all methods (`benchmark_table`)."""
    spec, card, frame = results.spec, results.card, results.frame
    samples, means = spec.samples[-1], dict[str, dict[int, float]]()
    for line in table.lines:
        if line.cost:
            means.setdefault(line.name, {})[line.n] = line.cost.mean
    return BenchmarkSummary(
        run=spec.run,
        city_id=city.city_id,
        model=card.name if card else None,
        model_version=card.version if card else None,
        instances={line.n: line.instances for line in table.lines},
        encoder_accuracy=results.accuracy,
        gs_mean_gap=mean_gap(frame, (GREEDY, 1)),
        ns_mean_gap=mean_gap(frame, (SAMPLED, samples)),
        ns_samples=samples,
        p=spec.p,
        mean_costs=means,
        failures=_failures(frame),
        hardware="; ".join(sorted({machine for machine in frame["machine"] if machine})),
        markdown=to_narrow_markdown(table),
        baseline=baseline_of(frame)[0],
    )


def _failures(results: pd.DataFrame) -> dict[str, tuple[int, str]]:
    failed: dict[str, Any] = {}
    for method, block in results[results["failure"].notna()].groupby("method", sort=False):
        instances = len(block[["n", "index"]].drop_duplicates())
        failed[str(method)] = (instances, str(block["failure"].mode().iloc[0]))
    return failed
