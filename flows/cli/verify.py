"""What `mcvrp verify` has to say: one line for a dataset that is right, else every fault with its place."""

from __future__ import annotations

import time
from typing import Any

from mcvrp.flows.cli.output import plain
from mcvrp.storage.labels.verification import Verdict
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.support.progress import duration


def verified(store: Store, dataset: str, workers: int | None = None) -> tuple[Verdict, float]:
    """Return the verdict on ``dataset`` and the seconds that it took; McvrpError as in `verify_dataset`."""
    began = time.monotonic()
    verdict = verify_dataset(store, dataset, workers=workers)
    return verdict, time.monotonic() - began


def verdict_document(verdict: Verdict, seconds: float) -> Any:
    """Return the verdict for a program."""
    return {"good": verdict.good, **plain(verdict), "seconds": seconds}


def verdict_text(verdict: Verdict, seconds: float) -> str:
    """Return the verdict for a person: faults first, one a line, the sum of it last."""
    lines = [str(fault) for fault in verdict.faults]
    for n, start, stop in verdict.missing:
        rows = f"row {start} has" if stop == start + 1 else f"rows {start} to {stop - 1} have"
        lines.append(f"n={n}: {rows} no label")
    lines += [f"not checked: {reason}" for reason in verdict.unchecked]
    rate = verdict.rows / seconds if seconds > 0 else 0.0
    proved = (
        f"{verdict.rows:,} labels in {verdict.files:,} files proved in {duration(seconds)} ({rate:,.0f}/s)"
    )
    if verdict.good:
        return "\n".join([*lines, proved])
    found = []
    if verdict.faults:
        files = len({fault.path for fault in verdict.faults})
        found.append(f"{len(verdict.faults):,} faults in {files:,} files")
    if verdict.missing:
        quarantined = f", {verdict.quarantined:,} of them quarantined" if verdict.quarantined else ""
        found.append(f"{verdict.missing_rows:,} labels missing{quarantined}")
    return "\n".join([*lines, f"{proved}; {', '.join(found)}: mcvrp label mends dataset {verdict.dataset!r}"])
