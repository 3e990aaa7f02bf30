"""`mcvrp verify`: a check of every label of a dataset."""

from __future__ import annotations

import time

from mcvrp.flows.cli.app import Common, Outcome
from mcvrp.flows.cli.output import plain, reading
from mcvrp.flows.cli.stage import preset_of
from mcvrp.model.errors import IncompleteError
from mcvrp.storage.labels.verification import VerificationReport
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.support.progress import duration


def verify_labels(common: Common, dataset: str | None) -> Outcome:
    """Verify every label of a dataset; the exit code is 1 if one is wrong or missing."""
    store, workers = reading(common).outlasting(), None
    if dataset is None or common.overrides:
        spec = preset_of(common)[1].label
        dataset, workers = dataset or spec.dataset, spec.workers
    began = time.monotonic()
    report = verify_dataset(store, dataset.removeprefix("labels/").strip("/"), workers=workers)
    seconds = time.monotonic() - began
    document = {"good": report.good, **plain(report), "seconds": seconds}
    return Outcome(document, _text(report, seconds), 0 if report.good else IncompleteError.exit_code)


def _text(report: VerificationReport, seconds: float) -> str:
    lines = [str(fault) for fault in report.faults]
    lines += [f"n={n}: no labels in rows {start} to {stop - 1}" for n, start, stop in report.missing]
    lines += [f"not checked: {reason}" for reason in report.unchecked]
    rate = report.rows / seconds if seconds > 0 else 0.0
    lines += [
        f"{report.rows:,} labels in {report.files:,} files verified in {duration(seconds)} ({rate:,.0f}/s)"
    ]
    if not report.good:
        missing = f"{report.missing_rows:,} labels missing, {report.quarantined:,} of them quarantined"
        lines[-1] += f"; {len(report.faults):,} faults, {missing}: mcvrp label repairs {report.dataset!r}"
    return "\n".join(lines)
