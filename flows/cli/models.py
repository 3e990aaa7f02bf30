"""`mcvrp gc`, `models`, `promote` and `rollback`."""

from __future__ import annotations

import argparse

from mcvrp.flows.cli.commands import preset_of
from mcvrp.flows.cli.inspect_kinds import model_versions
from mcvrp.flows.cli.output import Outcome, plain, reading, size_text, table, writing
from mcvrp.model.errors import McvrpError, shown
from mcvrp.storage import layout
from mcvrp.storage.exported import export_folder, import_folder
from mcvrp.storage.models.models import named_version, open_folder, versions
from mcvrp.storage.models.registry import ALIASES, move_champion, pointer, roll_back
from mcvrp.storage.store.store import Store
from mcvrp.tasks.gc.cleaning import clean

_LISTED = 200  # candidates; more are counted
_CHAMPION, _CHALLENGER = "champion", "challenger"


def clean_store(options: argparse.Namespace) -> Outcome:
    """List the unused artifacts, one line each, or remove them."""
    policy = preset_of(options, ["gc"])[1].gc
    store = writing(options) if options.delete else reading(options).outlasting()
    candidates = clean(store, policy, delete=options.delete)
    files, size = sum(each.files for each in candidates), sum(each.bytes for each in candidates)
    document = {"deleted": options.delete, "candidates": plain(candidates), "files": files, "bytes": size}
    if not candidates:
        return Outcome(document, "nothing was removed" if options.delete else "nothing to remove")
    rows = [(size_text(each.bytes), each.path, each.why) for each in candidates]
    listed = table(("size", "path", "reason"), rows[:_LISTED], (0,))
    more = f"... and {len(rows) - _LISTED:,} more" if len(rows) > _LISTED else ""
    left = "removed" if options.delete else "are unused: nothing has been removed, run mcvrp gc --delete"
    text = "\n\n".join(filter(None, (listed, more, f"{files:,} files, {size_text(size)} {left}")))
    return Outcome(document, text)


def list_models(options: argparse.Namespace) -> Outcome:
    """Describe the versions of a model, or of all."""
    store, name = reading(options), getattr(options, "model", None)
    names = [each for each in (store.folders("models") if name is None else [name]) if versions(store, each)]
    if not names:
        what = "no models" if name is None else f"no model {name!r}"
        raise McvrpError(f"there is {what} in {store.url()}: run mcvrp train")
    models = {each: model_versions(store, each) for each in names}
    text = "\n\n".join(f"{each}\n{model.text}" for each, model in models.items())
    return Outcome({each: model.document for each, model in models.items()}, text)


def export_model(options: argparse.Namespace) -> Outcome:
    """Write NAME[@VERSION] to a folder."""
    name, _, version = options.model.partition("@")
    store = reading(options)
    card, output = named_version(store, name, version or _CHAMPION), Store.open(options.folder).outlasting()
    export_folder(store, card, output, options.city)
    files = output.list("")
    text = f"{name} version {card.version} in {output.url()}: {', '.join(files)}"
    return Outcome({"model": name, "version": card.version, "folder": output.url(), "files": files}, text)


def import_model(options: argparse.Namespace) -> Outcome:
    """Publish the model in a folder as the next version of its name, or of another one."""
    store = writing(options)
    card = import_folder(open_folder(options.folder), store, options.name)
    alias = next((a for a in ALIASES if pointer(store, card.name, a).version == card.version), None)
    text = f"{card.name} version {card.version} in {store.url()}" + (f", its {alias}" if alias else "")
    return Outcome({"model": card.name, "version": card.version, "alias": alias}, text)


def promote(options: argparse.Namespace) -> Outcome:
    """Make a version of a model its champion."""
    return promote_version(writing(options), options.model, options.version, options.why or "")


def promote_version(store: Store, name: str, wanted: str, why: str) -> Outcome:
    """Make version ``wanted`` of the model ``name``, a number or "challenger", its champion."""
    champion, version = pointer(store, name, _CHAMPION), layout.version_number(wanted)
    if wanted == _CHALLENGER:
        version = pointer(store, name, _CHALLENGER).version
        if version is None:
            raise McvrpError(f"model {name!r} has no challenger to promote: train one with mcvrp train")
    if version is None:
        raise McvrpError(f"{shown(wanted)} is not a version: give a number, or {_CHALLENGER}")
    if version == champion.version:
        raise McvrpError(f"version {version} is already the champion of model {name!r}: give another version")
    move_champion(store, name, version, champion, why)
    return _moved(name, champion.version, version)


def roll_back_champion(options: argparse.Namespace) -> Outcome:
    """Restore the previous champion of a model."""
    name = options.model or preset_of(options, ["train"])[1].train.model
    return _moved(name, *roll_back(writing(options), name, options.why or ""))


def _moved(name: str, was: int | None, now: int | None) -> Outcome:
    before = "there was none before" if was is None else f"it was version {was}"
    text = f"champion of {name} is version {now}, {before}"
    return Outcome({"model": name, "was": was, "champion": now}, text)
