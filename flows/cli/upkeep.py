"""`mcvrp verify`, `gc` and `driven remove`: what is wrong, unused or to be taken back."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING, Annotated

from mcvrp.flows.cli.app import Common, Outcome, Text, app, arg, command, flag, group, opt
from mcvrp.model.errors import IncompleteError, McvrpError, shown
from mcvrp.storage import layout

if TYPE_CHECKING:
    from mcvrp.tasks.label.verify import VerificationReport


@command(app, "verify every label of a dataset", pipeline=True)
def verify(
    common: Common,
    dataset: Annotated[Text, arg("[DATASET]", "name (default: the preset's)")] = None,
    delete: Annotated[bool, flag("--delete", "remove bad files (default: report only)")] = False,
) -> Outcome:
    from mcvrp.flows.cli.output import plain, reading, writing
    from mcvrp.flows.cli.stage import spec_of
    from mcvrp.tasks.label.verify import verify_dataset

    store, workers = (writing if delete else reading)(common), None
    if dataset is None or common.overrides:
        spec = spec_of(common).label
        dataset, workers = dataset or spec.dataset, spec.workers
    began = time.monotonic()
    name = dataset.removeprefix("labels/").strip("/")
    report = verify_dataset(store, name, workers=workers, delete=delete)
    seconds = time.monotonic() - began
    document = {"good": report.good, **plain(report), "seconds": seconds}
    return Outcome(document, _text(report, seconds), 0 if report.good else IncompleteError.exit_code)


def _text(report: VerificationReport, seconds: float) -> str:
    from mcvrp.tasks.support.progress import duration
    from mcvrp.tasks.support.text import counted

    lines = [str(fault) for fault in report.faults]
    lines += [f"n={n}: no labels in rows {start} to {stop - 1}" for n, start, stop in report.missing]
    rate = report.rows / seconds if seconds > 0 else 0.0
    lines += [
        f"{counted(report.rows, 'label')} in {counted(report.files, 'file')} verified in "
        f"{duration(seconds)} ({rate:,.0f}/s)"
    ]
    if not report.good:
        removed = "removed" if report.deleted else "mcvrp verify --delete removes them"
        bad = f"{counted(len(report.faults), 'bad file')} ({removed}), " if report.faults else ""
        missing = counted(report.missing_rows, "label")
        lines[-1] += f"; {bad}{missing} missing, {report.absent:,} without an answer"
        lines[-1] += ": mcvrp label makes what is missing" if report.missing or report.faults else ""
    return "\n".join(lines)


@command(app, "list unused artifacts; --delete removes them")
def gc(
    common: Common,
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
    left = "removed" if delete else "unused: nothing has been removed, run mcvrp gc --delete"
    return Outcome(document, f"{listed}\n\n{counted(files, 'file')}, {size_text(size)} {left}")


@command(
    group("driven", "remove a driven day that was read from a wrong file"),
    "remove a day and the labels made from it; the next night reads its corrected file",
)
def remove(
    common: Common,
    day: Annotated[str, arg("DAY", "date of the day, such as 2026-01-31")],
    city: Annotated[Text, opt("NAME", "name of the city (default: the preset's)")] = None,
) -> Outcome:
    from mcvrp.flows.cli.output import plain, writing
    from mcvrp.flows.cli.stage import spec_of
    from mcvrp.tasks.driven.remove import remove_day

    try:
        date = datetime.date.fromisoformat(day)
    except ValueError:
        raise McvrpError(f"{shown(day)} is not a date like 2026-01-31") from None
    preset, store = spec_of(common), writing(common)
    name = layout.checked_name("city", city or preset.city.name)
    removed = remove_day(store, name, date, preset.night.model, preset.night.incoming)
    lines = [f"{removed.date} of city {name} is removed: the next night reads it from the file that has it"]
    for trained, record in removed.nights:
        lines.append(
            f"version {record.challenger} of {trained} has learned from it ({record.name}): those labels are "
            "removed, the version is not (mcvrp rollback restores the champion before it)"
        )
    return Outcome(plain(removed), "\n".join(lines))
