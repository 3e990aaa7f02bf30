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
    store, workers = reading(common), None
    if dataset is None or common.overrides:
        spec = preset_of(common, ["label"])[1].label
        dataset, workers = dataset or spec.dataset, spec.workers
    began = time.monotonic()
    report = verify_dataset(store, dataset.removeprefix("labels/").strip("/"), workers=workers)
    seconds = time.monotonic() - began
    document = {"good": report.good, **plain(report), "seconds": seconds}
    return Outcome(document, _text(report, seconds), 0 if report.good else IncompleteError.exit_code)


def _text(report: VerificationReport, seconds: float) -> str:
    lines = [str(fault) for fault in report.faults]
    for n, start, stop in report.missing:
        rows = f"row {start} has" if stop == start + 1 else f"rows {start} to {stop - 1} have"
        lines.append(f"n={n}: {rows} no label")
    lines += [f"not checked: {reason}" for reason in report.unchecked]
    rate = report.rows / seconds if seconds > 0 else 0.0
    verified = (
        f"{report.rows:,} labels in {report.files:,} files verified in {duration(seconds)} ({rate:,.0f}/s)"
    )
    if report.good:
        return "\n".join([*lines, verified])
    problems = []
    if report.faults:
        files = len({fault.path for fault in report.faults})
        problems.append(f"{len(report.faults):,} faults in {files:,} files")
    if report.missing:
        quarantined = f", {report.quarantined:,} of them quarantined" if report.quarantined else ""
        problems.append(f"{report.missing_rows:,} labels missing{quarantined}")
    # Of good rows; each of these faults names the dataset of another split that has them, too.
    shared = [fault for fault in report.faults if fault.i is not None and not fault.sha256]
    remedies = []
    if report.missing or len(report.faults) > len(shared):
        remedies.append(f"mcvrp label repairs dataset {report.dataset!r}")
    if shared:
        remedies.append("remove one of the datasets that share instances")
    return "\n".join([*lines, f"{verified}; {', '.join(problems)}: {'; '.join(remedies)}"])
