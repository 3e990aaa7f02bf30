"""Descriptions of the kinds of artifacts: datasets, models, cities, nights, driven days."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mcvrp.flows.cli.inspect_files import describe_folder, markdown
from mcvrp.flows.cli.output import Outcome, aligned, markdown_text, plain, table
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.attention import attention_models, attention_table
from mcvrp.storage.store.store import Store

_METRICS = ("solution_loss", "greedy_gap")
_MOVES = 10  # latest changes of an alias to show


def _dataset(store: Store, dataset: str) -> Outcome:
    from mcvrp.storage.labels.manifest import TOTALS, read_manifest
    from mcvrp.storage.labels.statistics import read_statistics
    from mcvrp.storage.labels.verification import read_verification

    document = {
        "manifest": read_manifest(store, dataset),
        "sizes": plain(read_statistics(store, dataset)),
        "report": plain(read_verification(store, dataset)),
    }
    card = layout.card(dataset)
    if not store.exists(card):
        size = {key: f"{value:,}" for key, value in (document["manifest"] or {}).items() if key in TOTALS}
        text = f"dataset {dataset!r} has no card yet: mcvrp label writes it when it is done"
        return Outcome(document, f"{text}\n{aligned(size)}".strip())
    return Outcome(document, f"{markdown(store, card)}\n\n{store.url(card)}, pictures in the same folder")


def model_versions(store: Store, name: str) -> Outcome:
    """Describe the versions of the model ``name``: aliases, metrics, and the champion's history.

    Without a finished version its files are described.
    """
    from mcvrp.storage.models.models import model_card, versions
    from mcvrp.storage.models.registry import ALIASES, pointer

    cards = [model_card(store, name, version) for version in versions(store, name)]
    if not cards:
        return describe_folder(store, layout.models_dir(name))
    pointers = {alias: pointer(store, name, alias) for alias in ALIASES}
    aliases = {alias: target.version for alias, target in pointers.items()}
    titles = (
        *("version", "alias", "run", "dataset", "sizes", "solution loss", "greedy gap (%)", "city"),
        "commit",
    )
    rows = [
        (
            card.version,
            ", ".join(alias for alias, version in aliases.items() if version == card.version),
            card.run,
            card.dataset,
            "" if card.smallest is None else f"{card.smallest}–{card.largest}",
            *("" if (value := card.metrics.get(figure)) is None else f"{value:.3f}" for figure in _METRICS),
            card.city or card.city_id,
            card.provenance.commits if card.provenance else "",
        )
        for card in cards
    ]
    moves = pointers["champion"].history
    history = "\n".join(f"champion {move}{' (rolled back)' if move.back else ''}" for move in moves[-_MOVES:])
    described = f"{store.url(cards[-1].folder)}/README.md describes the latest"
    text = "\n\n".join(filter(None, (table(titles, rows, (0, 5, 6)), history, described)))
    return Outcome({"versions": plain(cards), "aliases": aliases, "history": plain(moves)}, text)


def _attention(store: Store, name: str) -> Outcome:
    cards = attention_models(store, name)
    if not cards:
        return describe_folder(store, layout.attention_dir(name))
    text = f"{markdown_text(attention_table(cards))}\n\n{store.url(layout.attention_dir(name))}"
    return Outcome({"models": plain(cards)}, text)


def _city(store: Store, name: str) -> Outcome:
    document, readme = store.get_json(layout.city_card(name)), layout.city_readme(name)
    if not isinstance(document, dict):
        raise McvrpError(
            f"{store.url(layout.city_card(name))} is not the card of a city: create or import the city again"
        )
    return Outcome(document, f"{markdown(store, readme)}\n\n{store.url(readme)}, map in the same folder")


def _trials(store: Store, model: str, *, folder: str, kind: str) -> Outcome:
    folder = f"{folder}/{model}"
    paths = [path for path in store.list(folder) if path.endswith(f"/{kind}.json")]
    if not paths:
        return describe_folder(store, folder)
    documents = {path: store.get_json(path) for path in paths}
    records = dict(sorted(documents.items(), key=lambda item: item[1].get("number", 0)))
    rows = [
        (
            record.get("number", ""),
            path.split("/")[-2],
            record.get("champion", ""),
            record.get("challenger", ""),
            "yes" if record.get("applied") else "no",
            "; ".join(record.get("reasons", ())),
        )
        for path, record in records.items()
    ]
    text = table(("#", kind, "champion", "challenger", "promoted", "why"), rows, (0, 2, 3))
    return Outcome({f"{kind}s": list(records.values())}, f"{text}\n\n{store.url(folder)}")


def _driven(store: Store, city: str) -> Outcome:
    from mcvrp.storage.driven import driven_readme, receipts

    files = receipts(store, city)
    text, document = markdown_text(driven_readme(city, files)), {"files": plain(files)}
    return Outcome(document, f"{text}\n\n{store.url(layout.driven_dir(city))}")


def _solution(store: Store, name: str) -> Outcome:
    folder = layout.solution_dir(name)
    outcome = describe_folder(store, folder)
    summary = f"{folder}/summary.json"
    return Outcome(store.get_json(summary), outcome.text) if store.exists(summary) else outcome


def dataset_of(store: Store, path: str) -> str | None:
    """Return the name of the dataset at ``path``, NAME or labels/NAME; None for other paths."""
    name = path.strip("/").removeprefix("labels/")
    if "/" in name or not name:
        return None
    try:
        exists = store.exists(layout.label_spec(name)) or store.exists(layout.manifest(name))
    except McvrpError:  # an invalid name
        return None
    return name if exists else None


@dataclass(frozen=True)
class Kind:
    """A kind of artifact, stored in ``folder``; without ``describe`` or incomplete, its files are listed."""

    title: str
    folder: str
    describe: Callable[[Store, str], Outcome] | None = None
    is_complete: Callable[[Store, str], bool] = lambda store, name: True


KINDS = (
    Kind("city", "cities", _city, lambda store, name: store.exists(layout.city_readme(name))),
    Kind("dataset", "labels", _dataset, lambda store, name: dataset_of(store, name) is not None),
    Kind("training run", "training"),
    Kind("model", "models", model_versions),
    Kind("attention models", "attention", _attention),
    Kind("benchmark", "benchmarks"),
    Kind("driven days", "driven", _driven),
    Kind("nights", "nights", partial(_trials, folder="nights", kind="night")),
    Kind("rounds", "rounds", partial(_trials, folder="rounds", kind="round")),
    Kind("routes", "solutions", _solution),
)
