"""`mcvrp verify` in words: one line for a dataset that is right, else every fault with its place."""

from __future__ import annotations

from typing import Any

from mcvrp.flows.cli.output import plain
from mcvrp.storage.labels.verification import VerificationReport
from mcvrp.tasks.support.progress import duration


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
    return "\n".join(
        [*lines, f"{proved}; {', '.join(found)}: mcvrp label repairs dataset {report.dataset!r}"]
    )
