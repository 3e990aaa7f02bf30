"""`mcvrp gc`, `models`, `promote` and `rollback`: their results as documents and text."""

from __future__ import annotations

from typing import Any

from mcvrp.flows.cli.inspect_kinds import model_versions
from mcvrp.flows.cli.output import Outcome, output_folder, plain, size_text, table
from mcvrp.model.errors import McvrpError, shown
from mcvrp.storage import layout
from mcvrp.storage.exported import export_folder, import_folder
from mcvrp.storage.models.models import named_version, open_folder, versions
from mcvrp.storage.models.registry import ALIASES, move_champion, pointer, roll_back
from mcvrp.storage.store.store import Store
from mcvrp.tasks.gc.cleaning import CleaningSummary

_LISTED = 200  # candidates; more are counted
_CHAMPION, _CHALLENGER = "champion", "challenger"


def cleaning_document(cleaning: CleaningSummary) -> dict[str, Any]:
    """Return the unused or removed artifacts as JSON."""
    return {**plain(cleaning), "files": cleaning.files, "bytes": cleaning.bytes}


def cleaning_text(cleaning: CleaningSummary) -> str:
    """Return the unused or removed artifacts as text, one line each, and their sum."""
    rows = [(each.kind, size_text(each.bytes), each.path, each.why) for each in cleaning.candidates]
    more = len(rows) - _LISTED
    blocks = (
        table(("kind", "size", "path", "reason"), rows[:_LISTED], (1,)) if rows else "",
        f"... and {more:,} more" if more > 0 else "",
        "\n".join(f"skipped: {skipped.path} ({skipped.why})" for skipped in cleaning.skipped),
        _sum(cleaning),
    )
    return "\n\n".join(filter(None, blocks))


def _sum(cleaning: CleaningSummary) -> str:
    if not cleaning.candidates:
        return "nothing to remove" if not cleaning.deleted else "nothing was removed"
    amount = f"{cleaning.files:,} files, {size_text(cleaning.bytes)}"
    if not cleaning.deleted:
        return f"{amount} are unused: nothing has been removed, run mcvrp gc --delete"
    kept = f"; {cleaning.kept_now} are in use by now and were kept" if cleaning.kept_now else ""
    return f"{amount} removed{kept}"


def list_models(store: Store, name: str | None) -> Outcome:
    """Describe the versions of the model ``name``, or of all.

    Raises
    ------
    McvrpError
        If there is no such model.
    """
    names = [each for each in (store.folders("models") if name is None else [name]) if versions(store, each)]
    if not names:
        what = "no models" if name is None else f"no model {name!r}"
        raise McvrpError(f"there is {what} in {store.url()}: run mcvrp train")
    models = {each: model_versions(store, each) for each in names}
    text = "\n\n".join(f"{each}\n{model.text}" for each, model in models.items())
    return Outcome({each: model.document for each, model in models.items()}, text)


def export_model(store: Store, what: str, folder: str, city: str | None = None) -> Outcome:
    """Write ``what``, a model as NAME[@VERSION], to ``folder``; ``city``, errors as `export_folder`."""
    name, _, version = what.partition("@")
    card = named_version(store, name, version or _CHAMPION)
    output = output_folder(folder)
    export_folder(store, card, output, city)
    files = output.list("")
    text = f"{name} version {card.version} in {output.url()}: {', '.join(files)}"
    return Outcome({"model": name, "version": card.version, "folder": output.url(), "files": files}, text)


def import_model(folder: str, store: Store, name: str | None) -> Outcome:
    """Publish the model in ``folder`` as the next version of ``name``; errors as `import_folder`."""
    card = import_folder(open_folder(folder), store, name)
    alias = next((a for a in ALIASES if pointer(store, card.name, a).version == card.version), None)
    text = f"{card.name} version {card.version} in {store.url()}" + (f", its {alias}" if alias else "")
    return Outcome({"model": card.name, "version": card.version, "alias": alias}, text)


def promote_version(store: Store, name: str, wanted: str, why: str) -> Outcome:
    """Make version ``wanted`` of the model ``name``, a number or "challenger", its champion.

    Raises
    ------
    McvrpError
        If there is no such version, it is already the champion, or another process moves the champion.
    """
    champion = pointer(store, name, "champion")
    number = layout.version_number(wanted)
    if wanted != _CHALLENGER and number is None:
        raise McvrpError(f"{shown(wanted)} is not a version: give a number, or {_CHALLENGER}")
    version = pointer(store, name, _CHALLENGER).version if wanted == _CHALLENGER else number
    if version is None:
        raise McvrpError(f"model {name!r} has no challenger to promote: train one with mcvrp train")
    if version == champion.version:
        raise McvrpError(f"version {version} is already the champion of model {name!r}: give another version")
    move_champion(store, name, version, champion, why)
    return _moved(name, champion.version, version)


def roll_back_champion(store: Store, name: str, why: str) -> Outcome:
    """Restore the previous champion of the model ``name``; errors as `roll_back`."""
    was, now = roll_back(store, name, why)
    return _moved(name, was, now)


def _moved(name: str, was: int | None, now: int | None) -> Outcome:
    before = "there was none before" if was is None else f"it was version {was}"
    text = f"champion of {name} is version {now}, {before}"
    return Outcome({"model": name, "was": was, "champion": now}, text)
