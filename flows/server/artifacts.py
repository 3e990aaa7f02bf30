"""Prefect artifacts: a progress bar while a stage runs, its figures and pictures afterwards.

Prefect stores artifacts with the same key as versions of one artifact, so a key names the stage and what it
makes, "label-laptop". An artifact that cannot be stored never fails a run.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

import pandas as pd
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from mcvrp.storage.markdown import code, escaped, image
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.progress import INTERRUPTED, ProgressReport, listening

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
_PAGE_BYTES = 1_000_000  # of all pictures of an artifact


def show_figures(subject: str, title: str, figures: Mapping[str, object], *parts: str) -> None:
    """Create a Markdown artifact of the running flow or task: a list of ``figures``, then ``parts``.

    Its key is ``subject``, the stage and the name of its output: "label laptop".
    """
    # A list wraps on a narrow screen, on which Prefect cuts off a table.
    lines = "\n".join(f"- {escaped(name)}: **{escaped(value)}**" for name, value in figures.items())
    markdown = "\n\n".join(part for part in (f"# {escaped(title)}", lines, *parts) if part) + "\n"
    if FlowRunContext.get():
        with _at_once():
            create_markdown_artifact(markdown, key=artifact_key(subject), description=title)


def show_table(subject: str, title: str, table: pd.DataFrame) -> None:
    """Create a table artifact of the running flow or task, with the key ``subject``."""
    if FlowRunContext.get():
        with _at_once():
            rows = json.loads(table.to_json(orient="records"))  # plain values, null for NaN
            create_table_artifact(rows, key=artifact_key(subject), description=title)


@contextmanager
def _at_once() -> Iterator[None]:
    """Try requests in this context once and ignore errors: for minutes of retries the work would wait."""
    with contextlib.suppress(Exception), temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        yield


class _Bar:
    """Progress bar in Prefect, created with its first value."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._id: UUID | None = None
        self.updated = float("-inf")  # by `time.monotonic`

    def show(self, share: float, description: str) -> None:
        percent, self.updated = min(100.0, 100 * share), time.monotonic()
        if FlowRunContext.get() is None:
            return
        with _at_once():
            if self._id is None:
                created = create_progress_artifact(percent, key=self._key, description=description)
                assert isinstance(created, UUID)
                self._id = created
            else:
                update_progress_artifact(self._id, progress=percent, description=description)


@contextmanager
def showing_progress(subject: str, *, resumes: bool = True) -> Iterator[None]:
    """Show the progress that is reported in this context as bars in Prefect, one per label of a report.

    Ctrl-C and Cancel are logged, with whether the next run ``resumes``.
    """
    bars: dict[str, _Bar] = {}

    def listener(report: ProgressReport) -> None:
        bar = bars.setdefault(report.label, _Bar(artifact_key(f"{subject} {report.label} progress")))
        if report.share >= 1 or time.monotonic() - bar.updated >= FLUSH_SECONDS:
            bar.show(report.share, str(report))

    try:
        with listening(listener):
            yield
    except Exception:
        raise
    except BaseException:
        logger.warning(INTERRUPTED if resumes else "Interrupted, nothing is kept, start again")
        raise


def artifact_key(text: str) -> str:
    """Return ``text`` as a valid key of Prefect: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def links(store: Store, paths: Mapping[str, str]) -> str:
    """Return a Markdown list of ``paths`` in ``store`` as text: Prefect's page removes links to files."""
    lines = [f"- {label}: {code(store.url(path))}" for label, path in paths.items()]
    return "\n".join(["**In the store** (`mcvrp inspect PATH` describes any of them)", "", *lines])


def picture(name: str, png: bytes) -> str:
    """Return ``png`` as Markdown, embedded."""
    return image(name, f"data:image/png;base64,{base64.b64encode(png).decode()}")


def album(store: Store, paths: Mapping[str, str]) -> str:
    """Return the pictures at ``paths``, by their names, as Markdown: those that exist and fit the page."""
    pictures, left = [], _PAGE_BYTES
    for name, path in paths.items():
        if store.exists(path) and store.size(path) <= left:
            png = store.get(path)
            left -= len(png)
            pictures.append(picture(name, png))
    return "\n\n".join(pictures)
