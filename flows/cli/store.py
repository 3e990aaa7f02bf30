"""`mcvrp store` and `mcvrp verify`: a copy of a store, and a check of every label of a dataset."""

from __future__ import annotations

import argparse
import time

from mcvrp.flows.cli.commands import preset_of
from mcvrp.flows.cli.output import Outcome, plain, reading, size_text
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.labels.verification import VerificationReport
from mcvrp.storage.store.store import Store
from mcvrp.tasks.copying.copy import copy_store, require_apart
from mcvrp.tasks.support.progress import duration


def copy(options: argparse.Namespace) -> Outcome:
    """Copy a store; the exit code is 1 if the source changed meanwhile."""
    if options.store or options.overrides:
        raise McvrpError("mcvrp store copy takes its two stores as arguments: omit --store and --set")
    require_apart(Store.at(options.source), Store.at(options.target))
    source = Store.open(options.source, writable=False).outlasting()
    summary = copy_store(source, Store.open(options.target).outlasting())
    kept = summary.files - summary.copied
    text = (
        f"{summary.target}: {summary.files:,} files, {size_text(summary.bytes)}, equal to those of "
        f"{summary.source}; {summary.copied:,} copied{f', {kept:,} were there' if kept else ''}, in "
        f"{duration(summary.seconds)}"
    )
    if not summary.changed:
        return Outcome(plain(summary), text)
    lacks = (
        f"{summary.changed:,} files of {summary.source} were written or removed while it was copied: run the "
        "same command again once no other command writes there"
    )
    return Outcome(plain(summary), f"{summary.target}: unfinished copy", IncompleteError.exit_code, lacks)


def verify(options: argparse.Namespace) -> Outcome:
    """Verify every label of a dataset; the exit code is 1 if one is wrong or missing."""
    from mcvrp.tasks.label.verify import verify_dataset  # needs Ray, which `store copy` does without

    store, dataset, workers = reading(options).outlasting(), options.dataset, None
    if dataset is None or options.overrides:
        spec = preset_of(options, ["label"])[1].label
        dataset, workers = dataset or spec.dataset, spec.workers
    began = time.monotonic()
    report = verify_dataset(store, dataset.removeprefix("labels/").strip("/"), workers=workers)
    seconds = time.monotonic() - began
    document = {"good": report.good, **plain(report), "seconds": seconds}
    code = 0 if report.good else IncompleteError.exit_code
    return Outcome(document, _text(report, seconds), code)


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
