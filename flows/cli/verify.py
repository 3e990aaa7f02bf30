"""`mcvrp verify`: a check of every label of a dataset."""

from __future__ import annotations

import time

from mcvrp.flows.cli.app import Common, Outcome
from mcvrp.flows.cli.output import plain, reading, writing
from mcvrp.flows.cli.stage import preset_of
from mcvrp.model.errors import IncompleteError
from mcvrp.tasks.label.verify import VerificationReport, verify_dataset
from mcvrp.tasks.support.progress import duration


def verify_labels(common: Common, dataset: str | None, *, delete: bool = False) -> Outcome:
    """Verify every label of a dataset; the exit code is 1 if one is wrong or missing."""
    store, workers = (writing if delete else reading)(common), None
    if dataset is None or common.overrides:
        spec = preset_of(common, store)[1].label
        dataset, workers = dataset or spec.dataset, spec.workers
    began = time.monotonic()
    name = dataset.removeprefix("labels/").strip("/")
    report = verify_dataset(store, name, workers=workers, delete=delete)
    seconds = time.monotonic() - began
    document = {"good": report.good, **plain(report), "seconds": seconds}
    return Outcome(document, _text(report, seconds), 0 if report.good else IncompleteError.exit_code)


def _text(report: VerificationReport, seconds: float) -> str:
    lines = [str(fault) for fault in report.faults]
    lines += [f"n={n}: no labels in rows {start} to {stop - 1}" for n, start, stop in report.missing]
    rate = report.rows / seconds if seconds > 0 else 0.0
    lines += [
        f"{report.rows:,} labels in {report.files:,} files verified in {duration(seconds)} ({rate:,.0f}/s)"
    ]
    if not report.good:
        removed = "removed" if report.deleted else "mcvrp verify --delete removes them"
        bad = f"{len(report.faults):,} bad files ({removed}), " if report.faults else ""
        lines[-1] += f"; {bad}{report.missing_rows:,} labels missing, {report.absent:,} without an answer"
        lines[-1] += ": mcvrp label makes what is missing" if report.missing or report.faults else ""
    return "\n".join(lines)
