"""What a person sees in Prefect beside the states: a bar while a stage runs, its figures afterwards.

Showing is never worth failing for: where an artifact does not get through, the run goes on.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact

from tasks.progress import Report, listening

FLUSH_SECONDS = 2.0


def show_figures(stage: str, title: str, figures: Mapping[str, object], body: str = "") -> None:
    """Leave a table of ``figures`` with the running flow or task, ``body`` (Markdown) below it."""
    rows = "\n".join(f"| {name} | {value} |" for name, value in figures.items())
    markdown = f"# {title}\n\n| | |\n|---|---|\n{rows}\n\n{body}".rstrip() + "\n"
    with contextlib.suppress(Exception):
        create_markdown_artifact(markdown, key=_key(stage), description=title)


@contextmanager
def showing_progress(stage: str) -> Iterator[None]:
    """Show each piece of work that reports its progress in this context as a bar in Prefect."""
    bars: dict[str, UUID] = {}
    shown: dict[str, float] = {}

    def listener(report: Report) -> None:
        now = time.monotonic()
        finished = report.done >= report.total
        if report.label in bars and not finished and now - shown[report.label] < FLUSH_SECONDS:
            return
        percent = min(100.0, 100 * report.done / report.total) if report.total else 100.0
        with contextlib.suppress(Exception):
            shown[report.label] = now
            if report.label in bars:
                update_progress_artifact(bars[report.label], progress=percent, description=str(report))
            else:
                bars[report.label] = _new_bar(stage, report, percent)

    with listening(listener):
        yield


def _new_bar(stage: str, report: Report, percent: float) -> UUID:
    created = create_progress_artifact(
        percent, key=_key(f"{stage}-{report.label}-progress"), description=str(report)
    )
    assert isinstance(created, UUID)
    return created


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
