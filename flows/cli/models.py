"""`mcvrp gc`, `models`, `promote` and `rollback`."""

from __future__ import annotations

from mcvrp.flows.cli.app import Common, Outcome
from mcvrp.flows.cli.output import plain, reading, size_text, table, writing
from mcvrp.flows.cli.stage import preset_of
from mcvrp.model.errors import McvrpError
from mcvrp.storage.exported import export_folder, import_folder
from mcvrp.storage.models.models import model_card, named_version, open_folder, versions
from mcvrp.storage.models.registry import ALIASES, move_champion, pointer, roll_back
from mcvrp.storage.store.store import Store
from mcvrp.tasks.gc.cleaning import clean

_METRICS = ("solution_loss", "greedy_gap")
_MOVES = 10  # latest changes of the champion to show
_CHAMPION = "champion"


def clean_store(common: Common, *, delete: bool) -> Outcome:
    """List the unused artifacts, one line each, or remove them."""
    policy = preset_of(common)[1].gc
    store = writing(common) if delete else reading(common)
    candidates = clean(store, policy, delete=delete)
    files, size = sum(each.files for each in candidates), sum(each.bytes for each in candidates)
    document = {"deleted": delete, "candidates": plain(candidates), "files": files, "bytes": size}
    if not candidates:
        return Outcome(document, "nothing was removed" if delete else "nothing to remove")
    rows = [(size_text(each.bytes), each.path, each.why) for each in candidates]
    listed = table(("size", "path", "reason"), rows, (0,))
    left = "removed" if delete else "are unused: nothing has been removed, run mcvrp gc --delete"
    text = "\n\n".join((listed, f"{files:,} files, {size_text(size)} {left}"))
    return Outcome(document, text)


def list_models(common: Common, name: str | None = None) -> Outcome:
    """Describe the versions of a model, or of all."""
    store = reading(common)
    names = [each for each in (store.folders("models") if name is None else [name]) if versions(store, each)]
    if not names:
        what = "no models" if name is None else f"no model {name!r}"
        raise McvrpError(f"there is {what} in {store.url()}: run mcvrp train")
    models = {each: model_versions(store, each) for each in names}
    text = "\n\n".join(f"{each}\n{model.text}" for each, model in models.items())
    return Outcome({each: model.document for each, model in models.items()}, text)


def model_versions(store: Store, name: str) -> Outcome:
    """Describe the versions of the model ``name``: aliases, metrics, and the champion's history."""
    cards = [model_card(store, name, version) for version in versions(store, name)]
    pointers = {alias: pointer(store, name, alias) for alias in ALIASES}
    aliases = {alias: target.version for alias, target in pointers.items()}
    titles = "version", "alias", "run", "dataset", *_METRICS, "city", "mcvrp"
    rows = [
        (
            card.version,
            ", ".join(alias for alias, version in aliases.items() if version == card.version),
            card.run,
            card.dataset,
            *("" if (value := card.metrics.get(figure)) is None else f"{value:.3f}" for figure in _METRICS),
            card.city or card.city_id,
            card.provenance.makers[-1].release if card.provenance else "",
        )
        for card in cards
    ]
    moves = pointers["champion"].history
    history = [f"champion {move}{' (rolled back)' if move.back else ''}" for move in moves[-_MOVES:]]
    document = {"versions": plain(cards), "aliases": aliases, "history": plain(moves)}
    return Outcome(document, "\n".join([table(titles, rows, (0, 4, 5)), *history]))


def export_model(common: Common, model: str, folder: str, city: str | None) -> Outcome:
    """Write NAME[@VERSION] to a folder."""
    name, _, version = model.partition("@")
    store = reading(common)
    card, output = named_version(store, name, version or _CHAMPION), Store.open(folder)
    export_folder(store, card, output, city)
    files = output.list("")
    text = f"{name} version {card.version} in {output.url()}: {', '.join(files)}"
    return Outcome({"model": name, "version": card.version, "folder": output.url(), "files": files}, text)


def publish_folder(common: Common, folder: str, name: str | None) -> Outcome:
    """Publish the model in a folder as the next version of its name, or of another one."""
    store = writing(common)
    card = import_folder(open_folder(folder), store, name)
    alias = next((a for a in ALIASES if pointer(store, card.name, a).version == card.version), None)
    text = f"{card.name} version {card.version} in {store.url()}" + (f", its {alias}" if alias else "")
    return Outcome({"model": card.name, "version": card.version, "alias": alias}, text)


def promote_version(store: Store, name: str, wanted: str, why: str | None) -> Outcome:
    """Make version ``wanted`` of the model ``name``, a number or "challenger", its champion."""
    champion, version = pointer(store, name, _CHAMPION), named_version(store, name, wanted).version
    if version == champion.version:
        raise McvrpError(f"version {version} is already the champion of model {name!r}: give another version")
    move_champion(store, name, version, champion, why or "")
    return _moved(name, champion.version, version)


def roll_back_champion(common: Common, model: str | None, why: str | None) -> Outcome:
    """Restore the previous champion of a model, by default the preset's."""
    name = model or preset_of(common)[1].train.model
    return _moved(name, *roll_back(writing(common), name, why or ""))


def _moved(name: str, was: int | None, now: int | None) -> Outcome:
    before = "there was none before" if was is None else f"it was version {was}"
    text = f"champion of {name} is version {now}, {before}"
    return Outcome({"model": name, "was": was, "champion": now}, text)
