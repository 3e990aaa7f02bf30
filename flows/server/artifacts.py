"""What a person sees in Prefect beside the states: a bar while a stage runs, its figures afterwards.

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

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord
from mcvrp.tasks.support.progress import Report, listening
from mcvrp.tasks.train.card import begun_phases, loss_grid

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


# The cards of datasets and cities as Prefect shows them


def card_markdown(store: Store, dataset: str) -> str:
    """Return the card of ``dataset`` without its title, "" where it has none.

    Its pictures are as `flows.server.artifacts` puts them.
    """
    path = layout.card(dataset)
    if not store.exists(path):
        return ""
    _, _, text = store.get(path).decode(errors="replace").partition("\n")
    folder = layout.label_dir(dataset)

    def inlined(match: re.Match[str]) -> str:
        name, where = match[1], f"{folder}/{match[2]}"
        try:
            png = store.get(where)
        except McvrpError:
            return name
        return picture(name, png, store.url(where))

    text = re.sub(r"!\[([^\]]*)\]\(([^)]+)\)", inlined, text)
    return text.strip()


def city_markdown(store: Store, name: str) -> str:
    """Return the map of the city ``name``, "" where it has none; its figures are shown beside."""
    path = layout.city_map(name)
    if not store.exists(path):
        return ""
    return picture("Map of the addresses", store.get(path), store.url(path))


# The losses of training as Prefect shows them


def training_curve(store: Store, run: str, phases: Sequence[str]) -> str:
    """Return the losses of ``phases`` of ``run`` as Markdown with the picture inside, "" if none began."""
    begun = begun_phases(store, run, phases)
    if not begun:
        return ""
    name = f"Losses of {', '.join(phase for phase, _ in begun)}"
    return picture(name, loss_grid(begun), store.url(layout.run_losses(run)))


# Where in the store a stage has left what it made, as Markdown for the end of its artifact


def links(store: Store, places: Mapping[str, str]) -> str:
    """Return a list of ``places``, paths in ``store`` by what they are: a file's path or s3:// address."""
    lines = [f"- {what}: `{store.url(path)}`" for what, path in places.items()]
    return "\n".join(["**In the store**", "", *lines, "", "`mcvrp inspect PATH` shows any of them."])


# Pictures within Markdown, as Prefect shows it

_LARGEST = 500_000  # bytes of a picture that is shown inline
_PAGE = 1_000_000  # bytes of all pictures that one artifact shows


def picture(name: str, png: bytes, url: str) -> str:
    """Return the Markdown of a picture whose bytes are ``png`` and whose address in the store is ``url``."""
    if len(png) > _LARGEST:
        return f"[{name}]({url})"
    return f"![{name}](data:image/png;base64,{base64.b64encode(png).decode()})"


def gallery(store: Store, folder: str) -> str:
    """Return the Markdown of the PNG files directly in ``folder`` of ``store``, as many as fit a page."""
    places = map(PurePosixPath, store.list(folder))
    inside = [place for place in places if place.suffix == ".png" and str(place.parent) == folder]
    return album(store, {place.stem: str(place) for place in inside})


def album(store: Store, paths: Mapping[str, str]) -> str:
    """Return the Markdown of the pictures at ``paths`` by their names, of those that are there and fit."""
    shown, left = [], _PAGE
    for name, path in paths.items():
        if not store.exists(path) or store.size(path) > left:
            continue
        png = store.get(path)
        left -= len(png)
        shown.append(picture(name, png, store.url(path)))
    return "\n\n".join(shown)


# What the artifact of a night or round shows below its figures


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
