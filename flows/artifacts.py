"""What a person sees in Prefect beside the states: a bar while a stage runs, its figures afterwards.

Prefect keeps artifacts of one key as versions of one thing, so a key names stage and thing, as
"label-laptop". Showing is never worth failing for: where an artifact does not get through, the run goes on.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact

from tasks.progress import Report, listening

FLUSH_SECONDS = 2.0


def show_figures(thing: str, title: str, figures: Mapping[str, object], body: str = "") -> None:
    """Leave a list of ``figures`` with the running flow or task, ``body`` (Markdown) below it.

    Parameters
    ----------
    thing
        What this is a version of: the stage and the name of what it made, as "label laptop".
    """
    # A list wraps on a narrow screen, where Prefect cuts a table off; and a table needs headings.
    lines = "\n".join(f"- {name}: **{value}**" for name, value in figures.items())
    markdown = f"# {title}\n\n{lines}\n\n{body}".rstrip() + "\n"
    with contextlib.suppress(Exception):
        create_markdown_artifact(markdown, key=artifact_key(thing), description=title)


@contextmanager
def showing_progress(thing: str) -> Iterator[None]:
    """Show each piece of work that reports its progress in this context as a bar in Prefect.

    ``thing`` is that of `show_figures`.
    """
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
                bars[report.label] = _new_bar(progress_key(thing, report.label), percent, str(report))

    with listening(listener):
        yield


@contextmanager
def showing_steps(thing: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar of ``total`` steps; what this yields is told the name of each as it begins.

    For stages that are a few calls, none of which counts what it does. The terminal says nothing of them.
    """
    begun: list[str] = []
    bars: list[UUID] = []

    def show(description: str, done: int) -> None:
        percent = 100.0 * done / total
        with contextlib.suppress(Exception):
            if bars:
                update_progress_artifact(bars[0], progress=percent, description=description)
            else:
                bars.append(_new_bar(progress_key(thing), percent, description))

    def begin(step: str) -> None:
        begun.append(step)
        show(f"{thing}: {step} ({len(begun)} of {total})", len(begun) - 1)

    yield begin
    show(f"{thing}: done", total)  # not where a step failed: its bar stays where it was


def artifact_key(text: str) -> str:
    """Return ``text`` as Prefect takes it for a key: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def progress_key(thing: str, label: str = "") -> str:
    """Return the key of a bar: that of ``thing``, and the words of ``label`` that it does not have."""
    key = artifact_key(thing)
    words = [word for word in artifact_key(label).split("-") if word and word not in key.split("-")]
    return "-".join([key, *words, "progress"])


def _new_bar(key: str, percent: float, description: str) -> UUID:
    created = create_progress_artifact(percent, key=key, description=description)
    assert isinstance(created, UUID)
    return created
