"""`mcvrp verify`: one line for a valid dataset, otherwise every fault with its file and row."""

from __future__ import annotations

from typing import Any

from mcvrp.flows.cli.output import plain
from mcvrp.storage.labels.verification import VerificationReport
from mcvrp.tasks.support.progress import duration


def verification_document(report: VerificationReport, seconds: float) -> Any:
    """Return the report as JSON."""
    return {"good": report.good, **plain(report), "seconds": seconds}


def verification_text(report: VerificationReport, seconds: float) -> str:
    """Return the report as text: one line per fault, and a summary."""
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
    return "\n".join(
        [*lines, f"{verified}; {', '.join(problems)}: mcvrp label repairs dataset {report.dataset!r}"]
    )
