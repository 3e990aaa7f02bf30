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
    store, workers = (writing if delete else reading)(common).outlasting(), None
    if dataset is None or common.overrides:
        spec = preset_of(common, ["label"])[1].label
        dataset, workers = dataset or spec.dataset, spec.workers
    began = time.monotonic()
    name = dataset.removeprefix("labels/").strip("/")
    report = verify_dataset(store, name, workers=workers, delete=delete)
    seconds = time.monotonic() - began
    document = {"good": report.good, **plain(report), "seconds": seconds}
    return Outcome(document, _text(report, seconds), 0 if report.good else IncompleteError.exit_code)


def _text(report: VerificationReport, seconds: float) -> str:
    lines = [str(fault) for fault in report.faults]
    for n, start, stop in report.missing:
        rows = f"row {start} has" if stop == start + 1 else f"rows {start} to {stop - 1} have"
        lines.append(f"n={n}: {rows} no label")
    lines += [*report.shared, *(f"not checked: {reason}" for reason in report.unchecked)]
    rate = report.rows / seconds if seconds > 0 else 0.0
    verified = (
        f"{report.rows:,} labels in {report.files:,} files verified in {duration(seconds)} ({rate:,.0f}/s)"
    )
    problems, remedies = list[str](), list[str]()
    if report.faults:
        problems.append(f"{len(report.faults):,} bad files{' deleted' if report.deleted else ''}")
        if not report.deleted:
            remedies.append(f"mcvrp verify {report.dataset} --delete removes bad files")
    if report.missing:
        problems.append(f"{report.missing_rows:,} labels missing")
        remedies.append("mcvrp label makes missing ones")
    if report.absent:
        problems.append(f"{report.absent:,} instances that no attempt has solved")
    if report.shared:
        problems.append("instances in datasets of two splits")
        remedies.append("remove one of these datasets")
    if problems:
        verified = f"{verified}; {', '.join(problems)}{': ' * bool(remedies)}{', '.join(remedies)}"
    return "\n".join([*lines, verified])
