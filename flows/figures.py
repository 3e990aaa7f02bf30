"""Key figures and tables of the result of each stage, the same in Prefect and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcvrp.storage.markdown import table
from mcvrp.tasks.city.card import city_facts
from mcvrp.tasks.city.make import PlannedCity
from mcvrp.tasks.retrain.card import comparison, gained, learned
from mcvrp.tasks.support.progress import duration
from mcvrp.tasks.support.text import counted

if TYPE_CHECKING:
    from mcvrp.tasks.attention.train import AttentionSummary
    from mcvrp.tasks.label.stage import LabelSummary
    from mcvrp.tasks.report.write import BenchmarkSummary
    from mcvrp.tasks.retrain.nightly import NightSummary
    from mcvrp.tasks.solve.day import Solved
    from mcvrp.tasks.train.phases import PhaseSummary, TrainSummary

Figures = Mapping[str, str]


@dataclass(frozen=True)
class CitySummary:
    name: str
    city_id: str
    customers: int
    seconds: float
    facts: Figures = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, made: PlannedCity, seconds: float) -> CitySummary:
        """Return the summary of the city ``name``, which took ``seconds`` to make."""
        city, facts = made.city, city_facts(made.city, made.addresses, made.roads)
        return cls(name, city.city_id, city.customers, seconds, facts, made.notes)


@dataclass(frozen=True)
class BenchmarkResult:
    """Summary of a finished benchmark, the address of its report, and its duration in seconds."""

    summary: BenchmarkSummary
    report: str
    seconds: float


@dataclass(frozen=True)
class PipelineSummary:
    city: CitySummary
    label: LabelSummary
    train: TrainSummary
    benchmark: BenchmarkResult
    attention: AttentionSummary | None = None


def city_figures(city: CitySummary) -> Figures:
    facts = {what: text.replace("`", "") for what, text in city.facts.items()}  # they are Markdown
    return {"city": city.name} | facts | ({"note": "; ".join(city.notes)} if city.notes else {})


def label_figures(label: LabelSummary) -> Figures:
    figures = {
        "dataset": label.dataset,
        "labels": f"{label.rows:,}",
        "new": f"{label.new:,}",
        "time": duration(label.seconds),
    }
    if label.absent:
        figures["unsolved"] = counted(label.absent, "instance")
    if label.held_out:
        figures["held out"] = f"{counted(label.held_out.rows, 'label')}, dataset {label.held_out.dataset}"
    return figures


def label_lacks(label: LabelSummary) -> str:
    """Return a sentence that lists the missing labels, "" if all exist."""
    return "; ".join(filter(None, (label.lacks, label.held_out.lacks if label.held_out else "")))


def phase_figures(phase: PhaseSummary) -> Figures:
    """Return the key figures of a training phase."""
    figures = {
        "phase": phase.phase,
        "steps": f"{phase.steps:,}",
        "resumed from step": f"{phase.began_at:,}",
        "time": duration(phase.seconds),
    }
    for name in ("problem_loss", "solution_loss", "sampled_cost"):
        if (value := phase.metrics.get(name)) is not None:
            figures[name.replace("_", " ")] = f"{value:,.3f}"
    if (kept := phase.metrics.get("kept_step")) is not None:
        figures["note"] = f"the held-out gap became worse: ends with the weights of step {kept:,}"
    return {**figures, **_held_out_gap(phase)}


def train_figures(train: TrainSummary) -> Figures:
    return {
        "run": train.run,
        "phases": ", ".join(f"{phase.phase} ({phase.steps:,} steps)" for phase in train.phases),
        "time": duration(sum(phase.seconds for phase in train.phases)),
        **_held_out_gap(train.phases[-1]),
        "model": f"{train.model.name}, version {train.model.version}",
    }


def _held_out_gap(phase: PhaseSummary) -> Figures:
    named = {"greedy_gap": "greedy gap, held out", "best_gap": "best of several samples, held out"}
    gaps = {text: phase.metrics.get(name) for name, text in named.items()}
    return {text: f"{gap:.2f} %" for text, gap in gaps.items() if gap is not None}


def attention_figures(attention: AttentionSummary) -> Figures:
    """Return the key figures of attention models: the mean cost of each, or that it diverged."""
    figures = {"attention models": attention.model, "time": duration(attention.seconds)}
    for card in attention.cards:
        figures[f"n={card.n}"] = (
            f"{card.steps:,} steps, mean greedy cost {card.epochs[-1].greedy:.4g}"
            if card.diverged is None
            else f"diverged at {card.diverged}"
        )
    return figures


def benchmark_figures(benchmark: BenchmarkResult) -> Figures:
    summary = benchmark.summary
    figures = {"benchmark": summary.run, "time": duration(benchmark.seconds)} | summary.key_figures
    return figures | {"report": benchmark.report}


def benchmark_tables(benchmark: BenchmarkResult) -> str:
    """Return the table of a benchmark as Markdown."""
    return benchmark.summary.markdown.strip()


def night_figures(night: NightSummary) -> Figures:
    taken, measured, record = night.taken, night.measured, night.record
    files = f"{len(taken.files)} new, {taken.known} known"
    figures = {
        "city": night.city,
        "route files": files if taken.files or taken.known or taken.refused else f"none in {taken.folder}",
    }
    if taken.days or not record:  # otherwise the interrupted attempt took them
        figures["new days"] = str(len(taken.days))
    if taken.refused:
        figures["refused files"] = str(len(taken.refused))  # `night_lacks` names them, with reasons
    if measured:
        figures["learned from"] = learned(measured)
        if record and record.name != measured.mix.dataset:
            figures["learned from"] = f"no new days: version {record.challenger} is compared again"
    if record:
        verb = "promoted" if record.applied else "not promoted"
        figures["decision"] = f"version {record.challenger} {verb}: {'; '.join(record.reasons)}"
    else:
        held_out_text = f" ({len(taken.days):,} held out or learned before)" if taken.days else ""
        figures["decision"] = f"no new days to learn from{held_out_text}: nothing to do until there are"
    return figures | {"champion": f"version {night.champion}"}


def night_lacks(night: NightSummary) -> str:
    """Return which files were refused and why, in lines, "" if there are none."""
    return "\n".join(night.taken.refused)


def night_tables(night: NightSummary) -> str:
    """Return the tables of improved labels and comparison as Markdown, "" if nothing was measured."""
    if night.measured is None:
        return ""
    return "\n\n".join(filter(None, (gained(night.measured), comparison(night.measured))))


def solve_lacks(day: Solved) -> str:
    """Return which members of the search failed and why, "" if none did."""
    return "\n".join(day.failures)


def pipeline_figures(pipeline: PipelineSummary) -> Figures:
    """Return the key figures of all stages: customers, labels, model, gaps."""
    benchmark = benchmark_figures(pipeline.benchmark)
    return {
        "city": f"{pipeline.city.name}, {counted(pipeline.city.customers, 'customer')}",
        "labels": f"{pipeline.label.rows:,}",
        "model": f"{pipeline.train.model.name}, version {pipeline.train.model.version}",
        **{name: value for name, value in benchmark.items() if name not in ("model", "time")},
    }


def pipeline_lacks(pipeline: PipelineSummary) -> str:
    """Return a sentence that lists what the stages have not finished, "" if there is nothing."""
    return label_lacks(pipeline.label)


def pipeline_tables(pipeline: PipelineSummary) -> str:
    """Return the tables of the benchmark and of the duration of each stage as Markdown."""
    held_out = pipeline.label.held_out
    stages = {
        "city": pipeline.city.seconds,
        "label": pipeline.label.seconds + (held_out.seconds if held_out else 0.0),
        **{f"train {phase.phase}": phase.seconds for phase in pipeline.train.phases},
        **({"attention": pipeline.attention.seconds} if pipeline.attention else {}),
        "benchmark": pipeline.benchmark.seconds,
    }
    stages["in all"] = sum(stages.values())
    times = table(("stage", "time"), [(name, duration(seconds)) for name, seconds in stages.items()])
    return f"{benchmark_tables(pipeline.benchmark)}\n\n{times}"
