"""Report of a benchmark: writes tables, tests, key figures, figures and the HTML page."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mcvrp.model.problem import City
from mcvrp.storage import layout, markdown
from mcvrp.storage.cities import city_parent
from mcvrp.storage.models.attention import attention_models
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.parsing import parse_json
from mcvrp.storage.provenance import Parent, Provenance, made, provenance_in, provenance_line
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.run import BenchmarkResults
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.report.formats import FORMATS, Page, render_page, to_narrow_markdown
from mcvrp.tasks.report.history import labelled_by
from mcvrp.tasks.report.metrics import baseline_of, in_training, mean_gap
from mcvrp.tasks.report.paper import BEAM, GREEDY, PAPER_TRAINED_UP_TO, SAMPLED, paper_tables
from mcvrp.tasks.report.pictures import pictures
from mcvrp.tasks.report.tables import OVERVIEW, Table, benchmark_table
from mcvrp.tasks.report.verdict import readable_name, verdict, warnings


def write_report(store: Store, city: City, results: BenchmarkResults) -> BenchmarkSummary:
    """Write tables, tests, figures, README and page of a finished benchmark, and return its key figures."""
    spec, card, frame = results.spec, results.card, results.frame
    trained_up_to = (card.largest if card else None) or PAPER_TRAINED_UP_TO
    overview = benchmark_table(frame, city.unit)
    summary = replace(
        summarise(results, city, overview, trained_up_to), provenance=_provenance(store, city, results)
    )
    folder = layout.benchmark_dir(spec.run)
    page = Page(
        title=f"MCVRP: {spec.run}",
        lead=_lead(summary),
        verdict=list(verdict(frame, labelled_by(store, card, spec.sizes), trained_up_to)),
        warnings=list(warnings(frame)),
        key_figures={**summary.key_figures, "software": f"{summary.provenance}"},
        tables=[overview, *paper_tables(frame, trained_up_to, city.unit)],
        figures=list(pictures(city, results, trained_up_to)),
    )
    files = dict(_files(page))
    store.put_json(f"{folder}/summary.json", asdict(summary))
    for name, data in files.items():
        store.put(f"{folder}/{name}", data)
    for path in store.list(f"{folder}/tables"):  # those of an earlier run with more methods
        if path.removeprefix(f"{folder}/") not in files:
            store.delete(path)
    store.put(f"{folder}/configuration.json", _configuration(store, card, spec).encode())
    store.put(layout.benchmark_card(spec.run), _card(summary, page).encode())
    store.put(f"{folder}/report.html", render_page(page).encode())
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


def _configuration(store: Store, card: ModelCard | None, spec: BenchmarkSpec) -> str:
    """Return the model and the specs of labels, training and benchmark as JSON, as far as there are any."""
    paths = {"label": layout.label_spec(card.dataset), "train": layout.run_spec(card.run)} if card else {}
    settings: dict[str, Any] = {"model": {"name": card.name, "version": card.version}} if card else {}
    for name, path in paths.items():
        with contextlib.suppress(ValueError):  # damaged, which a report can do without
            if data := store.find(path):
                settings[name] = parse_json(data)
    return json.dumps(settings | {"benchmark": spec.model_dump(mode="json")}, indent=2)


def _files(page: Page) -> Iterator[tuple[str, bytes]]:
    for figure in page.figures:
        yield f"figures/{figure.name}.png", figure.png
    for table in page.tables:
        for ending, text in FORMATS.items():
            folder = "" if table.name == OVERVIEW else "tables/"
            yield f"{folder}{table.name}.{ending}", text(table).encode()


def _lead(summary: BenchmarkSummary) -> str:
    now = datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
    model = f"Model {summary.model}, version {summary.model_version}. " if summary.model else ""
    return f"{model}All methods on the same held-out instances. {summary.hardware}; {now}."


def _card(summary: BenchmarkSummary, page: Page) -> str:
    pictures = [markdown.image(figure.name, f"figures/{figure.name}.png") for figure in page.figures]
    return markdown.card(
        f"Benchmark `{summary.run}`",
        {name: markdown.escaped(value) for name, value in summary.key_figures.items()},
        markdown.section("Tables", summary.markdown),
        markdown.section("Figures", *pictures),
        lead=page.lead,
        made=provenance_line(summary.provenance),
    )


@dataclass(frozen=True)
class BenchmarkSummary:
    """Key figures of a benchmark.

    ``gaps`` are means over all instances up to ``gaps_up_to`` customers to a single run of ``baseline`` with
    their standard errors, in percent: of greedy decoding, of the most samples, and of the widest beam, as far
    as measured.
    """

    run: str
    city_id: str
    model: str | None
    model_version: int | None
    instances: Mapping[int, int]  # number of held-out instances by size
    gaps_up_to: int  # largest size that the model was trained on
    gaps: Mapping[str, tuple[float, float]]  # by decoding
    hardware: str
    markdown: str  # table of all methods
    baseline: str = "HGS"  # or PyVRP, if HGS has no answers
    provenance: Provenance | None = None

    @property
    def key_figures(self) -> dict[str, str]:
        """Key figures as text, by name: the same on the page, on the card and in Prefect."""
        sizes = " to ".join(map(str, sorted({min(self.instances), max(self.instances)})))
        total = sum(self.instances.values())
        figures = {"held-out instances": f"{total:,} of {sizes} customers, not in training"}
        if self.model is not None:
            figures["model"] = f"{self.model}, version {self.model_version}"
        limit = f", up to {self.gaps_up_to} customers" if self.gaps_up_to < max(self.instances) else ""
        for decoding, (mean, error) in self.gaps.items():
            figures[f"mean gap to {self.baseline}, {decoding}"] = f"{mean:.2f} ± {error:.2f} %{limit}"
        return figures


def summarise(results: BenchmarkResults, city: City, table: Table, trained_up_to: int) -> BenchmarkSummary:
    """Return the key figures of ``results``; ``table`` is the one of all methods (`benchmark_table`)."""
    spec, card, frame = results.spec, results.card, results.frame
    known = in_training(frame, trained_up_to)
    counts: Any = table.numbers.groupby("n")["instances"].max()  # its keys are untyped
    runs = (GREEDY, 1), (SAMPLED, spec.samples[-1]), (BEAM, spec.decoding.beam_width)
    gaps = {readable_name(run).removeprefix("model, "): mean_gap(known, run) for run in runs}
    return BenchmarkSummary(
        run=spec.run,
        city_id=city.city_id,
        model=card.name if card else None,
        model_version=card.version if card else None,
        instances=counts.to_dict(),
        gaps_up_to=int(known["n"].max()),
        gaps={decoding: gap for decoding, gap in gaps.items() if gap},
        hardware="; ".join(sorted({machine for machine in frame["machine"] if machine})),
        markdown=to_narrow_markdown(table),
        baseline=baseline_of(frame)[0],
    )
