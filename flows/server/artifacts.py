"""Artifacts in Prefect beside the states: a bar while a stage runs, its figures and pictures afterwards.

Prefect keeps artifacts of one key as versions of one thing, so a key names stage and thing, as
"label-laptop". Showing is never worth failing for: where an artifact does not get through, the run goes on.
"""

from __future__ import annotations

import base64
import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from uuid import UUID

from prefect.artifacts import create_markdown_artifact, create_progress_artifact, update_progress_artifact
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.markdown import code, escaped, image, link, unescaped, without_metadata
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord
from mcvrp.tasks.support.progress import ProgressReport, listening
from mcvrp.tasks.train.card import begun_phases, loss_grid

FLUSH_SECONDS = 2.0
_PICTURE_BYTES = 500_000  # of a picture that is shown within the page; a larger one is linked
_PAGE_BYTES = 1_000_000  # of all pictures that one artifact shows


def show_figures(thing: str, title: str, figures: Mapping[str, object], *parts: str) -> None:
    """Leave a list of ``figures`` with the running flow or task, ``parts`` (Markdown) below it.

    Parameters
    ----------
    thing
        What this is a version of: the stage and the name of what it made, as "label laptop".
    """
    # A list wraps on a narrow screen, where Prefect cuts a table off; and a table needs headings.
    lines = "\n".join(f"- {escaped(name)}: **{escaped(value)}**" for name, value in figures.items())
    markdown = "\n\n".join(part for part in (f"# {escaped(title)}", lines, *parts) if part) + "\n"
    with _at_once():
        create_markdown_artifact(markdown, key=artifact_key(thing), description=title)


@contextmanager
def _at_once() -> Iterator[None]:
    """Show what is shown in this context now or never: Prefect would try for minutes, and the work wait."""
    with contextlib.suppress(Exception), temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        yield


class _Bar:
    """A bar in Prefect, made when it first has something to show."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._id: UUID | None = None
        self.shown = float("-inf")  # when, by `time.monotonic`

    def show(self, share: float, description: str) -> None:
        percent, self.shown = min(100.0, 100 * share), time.monotonic()
        with _at_once():
            if self._id is None:
                created = create_progress_artifact(percent, key=self._key, description=description)
                assert isinstance(created, UUID)
                self._id = created
            else:
                update_progress_artifact(self._id, progress=percent, description=description)


@contextmanager
def showing_progress(thing: str) -> Iterator[None]:
    """Show each piece of work that reports its progress in this context as a bar in Prefect.

    ``thing`` is that of `show_figures`.
    """
    bars: dict[str, _Bar] = {}

    def listener(report: ProgressReport) -> None:
        bar = bars.setdefault(report.label, _Bar(progress_key(thing, report.label)))
        share = report.done / report.total if report.total else 1.0
        if share >= 1 or time.monotonic() - bar.shown >= FLUSH_SECONDS:
            bar.show(share, str(report))

    with listening(listener):
        yield


@contextmanager
def showing_steps(thing: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar of ``total`` steps; what this yields is told the name of each as it begins.

    For stages that are a few calls, none of which counts what it does. The terminal says nothing of them.
    """
    bar, begun = _Bar(progress_key(thing)), list[str]()

    def begin(step: str) -> None:
        begun.append(step)
        bar.show((len(begun) - 1) / total, f"{thing}: {step} ({len(begun)} of {total})")

    yield begin
    bar.show(1.0, f"{thing}: done")  # not where a step failed: its bar stays where it was


def artifact_key(text: str) -> str:
    """Return ``text`` as Prefect takes it for a key: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def progress_key(thing: str, label: str = "") -> str:
    """Return the key of a bar: that of ``thing``, and the words of ``label`` that it does not have."""
    key = artifact_key(thing)
    words = [word for word in artifact_key(label).split("-") if word and word not in key.split("-")]
    return "-".join([key, *words, "progress"])


def links(store: Store, places: Mapping[str, str]) -> str:
    """Return a list of ``places``, paths in ``store`` by what they are: a file's path or s3:// address."""
    lines = [f"- {what}: {code(store.url(path))}" for what, path in places.items()]
    return "\n".join(["**In the store**", "", *lines, "", "`mcvrp inspect PATH` shows any of them."])


def picture(name: str, png: bytes, url: str) -> str:
    """Return the Markdown of a picture whose bytes are ``png`` and whose address in the store is ``url``."""
    if len(png) > _PICTURE_BYTES:
        return link(name, url)
    return image(name, f"data:image/png;base64,{base64.b64encode(png).decode()}")


def gallery(store: Store, folder: str) -> str:
    """Return the Markdown of the PNG files directly in ``folder`` of ``store``, as many as fit a page."""
    places = map(PurePosixPath, store.list(folder))
    inside = [place for place in places if place.suffix == ".png" and str(place.parent) == folder]
    return album(store, {place.stem: str(place) for place in inside})


def album(store: Store, paths: Mapping[str, str]) -> str:
    """Return the Markdown of the pictures at ``paths`` by their names, of those that are there and fit."""
    shown, left = [], _PAGE_BYTES
    for name, path in paths.items():
        if store.exists(path) and store.size(path) <= left:
            png = store.get(path)
            left -= len(png)
            shown.append(picture(name, png, store.url(path)))
    return "\n\n".join(shown)


def card_markdown(store: Store, dataset: str) -> str:
    """Return the card of ``dataset`` without its title, its pictures within; "" where it has none."""
    path = layout.card(dataset)
    if not store.exists(path):
        return ""
    _, _, text = without_metadata(store.get(path).decode(errors="replace")).partition("\n")

    def inlined(match: re.Match[str]) -> str:
        name, where = unescaped(match[1]), f"{layout.label_dir(dataset)}/{match[2]}"
        try:
            return picture(name, store.get(where), store.url(where))
        except McvrpError:
            return name

    return re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", inlined, text).strip()


def city_markdown(store: Store, name: str) -> str:
    """Return the map of the city ``name``, "" where it has none; its figures are shown beside."""
    path = layout.city_map(name)
    if not store.exists(path):
        return ""
    return picture("Map of the addresses", store.get(path), store.url(path))


def training_curve(store: Store, run: str, phases: Sequence[str]) -> str:
    """Return the losses of ``phases`` of ``run`` as Markdown with the picture inside, "" if none began."""
    begun = begun_phases(store, run, phases)
    if not begun:
        return ""
    name = f"Losses of {', '.join(phase for phase, _ in begun)}"
    return picture(name, loss_grid(begun), store.url(layout.run_losses(run)))


def trial_body(store: Store, model: str, record: TrialRecord, tables: Sequence[str]) -> str:
    """Return ``tables``, the picture of the trial and links to what it has made, as Markdown."""
    folder = layout.trial_dir(model, record.name)
    places = {
        "round" if record.name.startswith(layout.ROUND) else "night": folder,
        "labels": layout.label_dir(record.name),
        "training": layout.run_dir(record.name),
        "challenger": layout.model_dir(model, record.challenger),
    }
    return "\n\n".join(part for part in (*tables, gallery(store, folder), links(store, places)) if part)
