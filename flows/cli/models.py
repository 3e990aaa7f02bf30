"""What `mcvrp gc`, `models`, `promote` and `rollback` say."""

from __future__ import annotations

from typing import Any

from mcvrp.flows.cli.inspect_files import Found
from mcvrp.flows.cli.inspect_things import model_versions
from mcvrp.flows.cli.output import aligned_table, plain
from mcvrp.model.errors import McvrpError
from mcvrp.storage.models.models import versions
from mcvrp.storage.models.registry import point, pointer, promote, roll_back
from mcvrp.storage.store.store import Store
from mcvrp.tasks.gc.cleaning import CleaningSummary

_LISTED = 200  # candidates; more are counted
_UNITS = ("bytes", "kB", "MB", "GB", "TB")
_CHALLENGER = "challenger"


def cleaning_document(cleaning: CleaningSummary) -> dict[str, Any]:
    """Return what was found, or removed, for a program."""
    return {**plain(cleaning), "files": cleaning.files, "bytes": cleaning.bytes}


def cleaning_text(cleaning: CleaningSummary) -> str:
    """Return what was found, or removed, for a person: a line each, then the sum."""
    lines = ["| what | size | where | why |", "|---|--:|---|---|"]
    for candidate in cleaning.candidates[:_LISTED]:
        lines.append(
            f"| {candidate.kind} | {size_text(candidate.bytes)} | {candidate.path} | {candidate.why} |"
        )
    blocks = [aligned_table("\n".join(lines))] if cleaning.candidates else []
    if more := len(cleaning.candidates) - _LISTED:
        blocks += [f"... and {more:,} more"] if more > 0 else []
    if cleaning.skipped:
        blocks.append(
            "\n".join(f"left alone: {skipped.path} ({skipped.why})" for skipped in cleaning.skipped)
        )
    blocks.append(_sum(cleaning))
    return "\n\n".join(blocks)


def _sum(cleaning: CleaningSummary) -> str:
    if not cleaning.candidates:
        return "nothing to remove" if not cleaning.deleted else "nothing was removed"
    amount = f"{cleaning.files:,} files, {size_text(cleaning.bytes)}"
    if not cleaning.deleted:
        return f"{amount} may go: nothing has been removed, mcvrp gc --delete does it"
    kept = f"; {cleaning.kept_now} are needed by now and stay" if cleaning.kept_now else ""
    return f"{amount} removed{kept}"


def size_text(count: float) -> str:
    """Return a number of bytes as people say it: "3.2 GB"."""
    for unit in _UNITS:
        if count < 1000 or unit == _UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("a unit is always found")


# Aliases ---------------------------------------------------------------------------------------


def list_models(store: Store, name: str | None) -> Found:
    """Describe the versions of the model ``name``, or of all.

    Raises
    ------
    McvrpError
        If there is no such model.
    """
    names = store.folders("models") if name is None else [name]
    names = [found for found in names if versions(store, found)]
    if not names:
        what = "no models" if name is None else f"no model {name!r}"
        raise McvrpError(f"there is {what} in {store.url()}: run mcvrp train")
    found = {known: model_versions(store, known) for known in names}
    text = "\n\n".join(f"{known}\n{described.text}" for known, described in found.items())
    return Found({known: described.document for known, described in found.items()}, text)


def promote_version(store: Store, name: str, wanted: str, why: str) -> Found:
    """Make version ``wanted`` of the model ``name``, a number or "challenger", its champion.

    Raises
    ------
    McvrpError
        If there is no such version, it is champion already, or somebody else moves an alias just now.
    """
    champion, challenger = pointer(store, name, "champion"), pointer(store, name, "challenger")
    if wanted != _CHALLENGER and not (wanted.isascii() and wanted.isdigit()):
        raise McvrpError(f"{wanted!r} is no version: give a number, or the word {_CHALLENGER}")
    version = challenger.version if wanted == _CHALLENGER else int(wanted)
    if version is not None and version == champion.version:
        raise McvrpError(f"version {version} is the champion of model {name!r} already")
    if version == challenger.version:
        promote(store, name, champion, challenger, why)
    else:
        point(store, name, "champion", version, champion, why)
    return _moved(name, champion.version, version)


def roll_back_champion(store: Store, name: str, why: str) -> Found:
    """Give the alias champion of the model ``name`` back to the champion before; errors as `roll_back`."""
    was, now = roll_back(store, name, why)
    return _moved(name, was, now)


def _moved(name: str, was: int | None, now: int | None) -> Found:
    before = "there was none before" if was is None else f"it was version {was}"
    return Found(
        {"model": name, "was": was, "champion": now}, f"champion of {name} is version {now}, {before}"
    )
