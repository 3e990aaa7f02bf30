"""`mcvrp verify` and `gc`: what is wrong or unused."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from mcvrp.flows.cli.app import Common, Outcome, WithPreset, app, arg, command, flag
from mcvrp.model.errors import IncompleteError

if TYPE_CHECKING:
    from mcvrp.tasks.label.verify import VerificationReport


@command(app, "verify every label of a dataset", pipeline=True)
def verify(
    common: Common,
    dataset: Annotated[str, arg("DATASET", "name of the dataset")],
    delete: Annotated[bool, flag("--delete", "remove bad files (default: report only)")] = False,
) -> Outcome:
    from mcvrp.flows.cli.output import plain, reading, writing
    from mcvrp.tasks.label.verify import verify_dataset

    store, began = (writing if delete else reading)(common), time.monotonic()
    name = dataset.removeprefix("labels/").strip("/")
    report = verify_dataset(store, name, delete=delete)
    seconds = time.monotonic() - began
    document = {"good": report.good, **plain(report), "seconds": seconds}
    return Outcome(document, _text(name, report, seconds), 0 if report.good else IncompleteError.exit_code)


def _text(name: str, report: VerificationReport, seconds: float) -> str:
    from mcvrp.tasks.support.progress import duration
    from mcvrp.tasks.support.text import counted

    lines = [str(fault) for fault in report.faults]
    lines += [f"n={n}: no labels in rows {start} to {stop} (excluded)" for n, start, stop in report.missing]
    rate = report.rows / seconds if seconds > 0 else 0.0
    lines += [
        f"{counted(report.rows, 'label')} in {counted(report.files, 'file')} verified in "
        f"{duration(seconds)} ({rate:,.0f}/s)"
    ]
    if not report.good:
        removed = "removed" if report.deleted else f"mcvrp verify {name} --delete removes them"
        kept = sum(fault.misplaced for fault in report.faults)
        bad = len(report.faults) - kept
        faulty = f"{counted(bad, 'bad file')} ({removed}), " if bad else ""
        faulty += f"{counted(kept, 'misplaced file')} (to be moved away), " if kept else ""
        missing = counted(report.missing_rows, "label")
        lines[-1] += f"; {faulty}{missing} missing, {report.absent:,} without an answer"
        again = ": mcvrp label with its preset makes what is missing"
        lines[-1] += again if report.missing or bad else ""
    return "\n".join(lines)


@command(app, "list unused artifacts; --delete removes them")
def gc(
    common: WithPreset,
    delete: Annotated[bool, flag("--delete", "remove the listed artifacts (default: list only)")] = False,
) -> Outcome:
    from mcvrp.flows.cli.output import plain, reading, size_text, table, writing
    from mcvrp.flows.cli.stage import spec_of
    from mcvrp.tasks.gc.cleaning import clean
    from mcvrp.tasks.support.text import counted

    policy, store = spec_of(common).gc, writing(common) if delete else reading(common)
    candidates = clean(store, policy, delete=delete)
    files, size = sum(each.files for each in candidates), sum(each.bytes for each in candidates)
    document = {"deleted": delete, "candidates": plain(candidates), "files": files, "bytes": size}
    if not candidates:
        return Outcome(document, "nothing was removed" if delete else "nothing to remove")
    rows = [(size_text(each.bytes), each.path, each.why) for each in candidates]
    listed = table(("size", "path", "reason"), rows, (0,))
    left = "removed" if delete else "unused: nothing has been removed, --delete removes them"
    return Outcome(document, f"{listed}\n\n{counted(files, 'file')}, {size_text(size)} {left}")
