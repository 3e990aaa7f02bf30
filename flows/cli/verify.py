"""What `mcvrp verify` has to say: one line for a dataset that is right, else every fault with its place."""

from __future__ import annotations

import time
from typing import Any

from mcvrp.flows.cli.output import plain
from mcvrp.storage.labels.verification import VerificationReport
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.support.progress import duration


def verified(store: Store, dataset: str, workers: int | None = None) -> tuple[VerificationReport, float]:
    """Return the report on ``dataset`` and the seconds that it took; McvrpError as in `verify_dataset`."""
    began = time.monotonic()
    report = verify_dataset(store, dataset, workers=workers)
    return report, time.monotonic() - began


def verification_document(report: VerificationReport, seconds: float) -> Any:
    """Return the report for a program."""
    return {"good": report.good, **plain(report), "seconds": seconds}


def verification_text(report: VerificationReport, seconds: float) -> str:
    """Return the report for a person: faults first, one a line, the sum of it last."""
    lines = [str(fault) for fault in report.faults]
    for n, start, stop in report.missing:
        rows = f"row {start} has" if stop == start + 1 else f"rows {start} to {stop - 1} have"
        lines.append(f"n={n}: {rows} no label")
    lines += [f"not checked: {reason}" for reason in report.unchecked]
    rate = report.rows / seconds if seconds > 0 else 0.0
    proved = f"{report.rows:,} labels in {report.files:,} files proved in {duration(seconds)} ({rate:,.0f}/s)"
    if report.good:
        return "\n".join([*lines, proved])
    found = []
    if report.faults:
        files = len({fault.path for fault in report.faults})
        found.append(f"{len(report.faults):,} faults in {files:,} files")
    if report.missing:
        quarantined = f", {report.quarantined:,} of them quarantined" if report.quarantined else ""
        found.append(f"{report.missing_rows:,} labels missing{quarantined}")
    return "\n".join([*lines, f"{proved}; {', '.join(found)}: mcvrp label mends dataset {report.dataset!r}"])
