"""Versions of models: what `mcvrp inspect` shows of them, `mcvrp promote` and `rollback`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mcvrp.flows.cli.app import Common, Outcome, Text, app, arg, command, opt
from mcvrp.model.errors import McvrpError

if TYPE_CHECKING:
    from mcvrp.storage.store.store import Store

_METRICS = ("solution_loss", "greedy_gap")
_MOVES = 10  # latest changes of the champion to show
_Model = Annotated[str, arg("MODEL", "name of the model")]
_Why = Annotated[Text, opt("TEXT", "reason, kept in the model's history")]


def model_versions(store: Store, name: str) -> Outcome | None:
    """Describe the versions of a model: aliases, metrics, the champion's history; None without any."""
    from mcvrp.flows.cli.output import plain, table
    from mcvrp.storage.models.models import model_card, versions
    from mcvrp.storage.models.registry import ALIASES, pointer

    if not (cards := [model_card(store, name, version) for version in versions(store, name)]):
        return None
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
            card.provenance.makers[-1].version if card.provenance else "",
        )
        for card in cards
    ]
    moves = pointers["champion"].history
    history = [f"champion {move}{' (rolled back)' if move.back else ''}" for move in moves[-_MOVES:]]
    document = {"versions": plain(cards), "aliases": aliases, "history": plain(moves)}
    return Outcome(document, "\n".join([table(titles, rows, (0, 4, 5)), *history]))


@command(app, "make a version the champion of its model")
def promote(
    common: Common,
    model: _Model,
    version: Annotated[str, arg("VERSION", "version number, or challenger")],
    why: _Why = None,
) -> Outcome:
    from mcvrp.flows.cli.output import writing

    return promote_version(writing(common), model, version, why)


def promote_version(store: Store, name: str, wanted: str, why: str | None) -> Outcome:
    """Make version ``wanted`` of the model ``name``, a number or "challenger", its champion."""
    from mcvrp.storage.models.models import model_card
    from mcvrp.storage.models.registry import move_champion, pointer

    champion, version = pointer(store, name, "champion"), model_card(store, name, wanted).version
    if version == champion.version:
        raise McvrpError(f"version {version} is already the champion of model {name!r}: give another version")
    move_champion(store, name, version, champion, why or "")
    return _moved(name, champion.version, version)


@command(app, "restore the previous champion")
def rollback(common: Common, model: _Model, why: _Why = None) -> Outcome:
    from mcvrp.flows.cli.output import writing
    from mcvrp.storage.models.models import chosen_model
    from mcvrp.storage.models.registry import roll_back

    store = writing(common)
    chosen_model(store, model, None)  # there has to be one
    return _moved(model, *roll_back(store, model, why or ""))


def _moved(name: str, was: int | None, now: int | None) -> Outcome:
    before = "there was none before" if was is None else f"it was version {was}"
    text = f"champion of {name} is version {now}, {before}"
    return Outcome({"model": name, "was": was, "champion": now}, text)
