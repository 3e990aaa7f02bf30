"""What a stage has to say when it is done: its figures, in words, the same in Prefect and on the console."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.progress import duration

if TYPE_CHECKING:
    from tasks.benchmark_summary import BenchmarkSummary
    from tasks.labels import LabelSummary
    from tasks.train import PhaseSummary, TrainSummary
    from tasks.train_am import AmSummary

Figures = Mapping[str, str]
_KNOWN = ("customers", "id")  # facts of a city that its summary has of its own


@dataclass(frozen=True)
class CitySummary:
    """A city in the store."""

    name: str
    city_id: str
    customers: int
    seconds: float
    facts: Figures = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchmarkResult:
    """A finished benchmark: its key figures, where the report lies, how long it took."""

    summary: BenchmarkSummary
    report: str
    seconds: float


@dataclass(frozen=True)
class PipelineSummary:
    """A finished run of the whole pipeline."""

    city: CitySummary
    label: LabelSummary
    train: TrainSummary
    benchmark: BenchmarkResult
    am: AmSummary | None = None


def city_figures(city: CitySummary) -> Figures:
    """Return what there is to say about a city."""
    shown = {"city": city.name, "customers": f"{city.customers:,}", "city_id": city.city_id}
    more = {what: text.replace("`", "") for what, text in city.facts.items() if what not in _KNOWN}
    return shown | more | ({"note": "; ".join(city.notes)} if city.notes else {})


def label_figures(label: LabelSummary) -> Figures:
    """Return what there is to say about a labelled dataset."""
    figures = {
        "dataset": label.dataset,
        "labels": f"{label.rows:,}",
        "new": f"{label.new:,}",
        "time": duration(label.seconds),
    }
    if label.new and label.solving > 0:
        figures["speed"] = f"{label.new / label.solving:,.1f} labels/s per core, solver time"
        figures["workers"] = str(label.workers)
    if label.retried:
        figures["done again"] = f"{label.retried:,} units of work, {label.failures:,} for a lost worker"
    if label.quarantined:
        figures["quarantined"] = f"{label.quarantined:,} instances of the dataset"
    if label.held_out:
        figures["held out"] = f"{label.held_out.rows:,} labels, dataset {label.held_out.dataset}"
    return figures


def phase_figures(phase: PhaseSummary) -> Figures:
    """Return what there is to say about a phase of training, or about what a job made of it."""
    figures = {
        "phase": phase.phase,
        "steps": f"{phase.steps:,}" if phase.complete else f"{phase.step:,} of {phase.steps:,}",
        "samples": f"{phase.samples:,}",
        "went on from step": f"{phase.began_at:,}",
        "time": duration(phase.seconds),
    }
    for name in ("problem_loss", "solution_loss", "tokens_per_second"):
        value = phase.metrics.get(name)
        if value is not None:
            figures[name.replace("_", " ")] = f"{value:,.3f}" if "loss" in name else f"{value:,.0f}"
    return {**figures, **_held_out_gap(phase)}


def train_figures(train: TrainSummary) -> Figures:
    """Return what there is to say about a training run."""
    return {
        "run": train.run,
        "phases": ", ".join(f"{phase.phase} ({phase.steps:,} steps)" for phase in train.phases),
        "time": duration(sum(phase.seconds for phase in train.phases)),
        **_held_out_gap(train.phases[-1]),
        "model": f"{train.model.name}, version {train.model.version}",
    }


def _held_out_gap(phase: PhaseSummary) -> Figures:
    gap = phase.metrics.get("greedy_gap")
    return {} if gap is None else {"greedy gap, held out": f"{gap:.2f} %"}


def am_figures(am: AmSummary) -> Figures:
    """Return what there is to say about attention models: how good each is, or that it diverged."""
    figures = {"attention models": am.model, "time": duration(am.seconds)}
    for card in am.cards:
        if card.diverged is None:
            found = f"{card.steps:,} steps, mean greedy cost {card.epochs[-1].greedy:.4g}"
        else:
            found = f"diverged at {card.diverged}"
        figures[f"n={card.n}"] = found
    return figures


def benchmark_figures(benchmark: BenchmarkResult) -> Figures:
    """Return what there is to say about a benchmark."""
    summary = benchmark.summary
    figures = {"benchmark": summary.run, "time": duration(benchmark.seconds)}
    if summary.model is not None:
        figures["model"] = f"{summary.model}, version {summary.model_version}"
    if summary.encoder_accuracy is not None:
        figures["encoder accuracy"] = f"{100 * summary.encoder_accuracy:.2f} %"
    if summary.gs_mean_gap is not None:
        figures[f"mean gap to {summary.baseline}, greedy"] = f"{summary.gs_mean_gap:.2f} %"
    if summary.ns_mean_gap is not None:
        best = f"best of {summary.ns_samples} samples (p = {summary.p:g})"
        figures[f"mean gap to {summary.baseline}, {best}"] = f"{summary.ns_mean_gap:.2f} %"
    for method, (count, reason) in summary.failures.items():
        figures[f"{method} without answer"] = f"{count:,} instances: {reason}"
    return figures | {"report": benchmark.report}


def times(pipeline: PipelineSummary) -> Figures:
    """Return how long each stage took."""
    held_out = pipeline.label.held_out
    phases = {f"train {phase.phase}": phase.seconds for phase in pipeline.train.phases}
    stages = {
        "city": pipeline.city.seconds,
        "label": pipeline.label.seconds + (held_out.seconds if held_out else 0.0),
        **phases,
        **({"am": pipeline.am.seconds} if pipeline.am else {}),
        "benchmark": pipeline.benchmark.seconds,
    }
    stages["in all"] = sum(stages.values())
    return {name: duration(seconds) for name, seconds in stages.items()}


def aligned(figures: Figures) -> str:
    """Return ``figures`` as lines whose values stand below each other."""
    width = max((len(name) for name in figures), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in figures.items())


def aligned_table(markdown: str) -> str:
    """Return ``markdown`` with the cells of its table below each other, as a terminal shows it best."""
    lines = markdown.splitlines()
    places = [k for k, line in enumerate(lines) if line.startswith("|")]
    if len(places) < 2:
        return markdown
    header, ruler, *rows = ([cell.strip() for cell in lines[k].strip("|").split("|")] for k in places)
    if any(len(row) != len(header) for row in (ruler, *rows)):
        return markdown  # a bar within a cell: leave it
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.rjust(width) if rule.endswith(":") else cell.ljust(width)
            for cell, width, rule in zip(cells, widths, ruler, strict=True)
        )
        return "  ".join(aligned).rstrip()

    head = [line(header), "  ".join("-" * width for width in widths)] if any(header) else []
    table = [*head, *map(line, rows)]
    caption = [above.replace("**", "") for above in lines[: places[0]]]  # a terminal has no bold
    return "\n".join([*caption, *table, *lines[places[-1] + 1 :]])


def pipeline_text(pipeline: PipelineSummary) -> str:
    """Return what a person wants to know after a run: the table, the times, where the report lies."""
    benchmark = pipeline.benchmark
    figures = {key: value for key, value in benchmark_figures(benchmark).items() if key != "time"}
    parts = [aligned_table(benchmark.summary.markdown.strip()), aligned(times(pipeline)), aligned(figures)]
    return "\n\n".join(parts)


def plain(value: Any) -> Any:
    """Return ``value`` as JSON knows it: dataclasses as objects, arrays as lists, infinite as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, str | PurePath):
        return str(value)
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
