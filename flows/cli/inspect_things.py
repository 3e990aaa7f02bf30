"""Things of the store described: a dataset, a model, a city, nights, driven days, each in its own words."""

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

_MOVES = 10  # of an alias that are shown


def describe_dataset(store: Store, dataset: str) -> Outcome:
    """Describe the labels ``dataset``: card, manifest, statistics by size, what verifying found."""
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
        text = f"dataset {dataset!r} has no card so far: mcvrp label writes it at its end"
        return Outcome(document, f"{text}\n{aligned(size)}".strip())
    return Outcome(document, f"{markdown(store, card)}\n\n{store.url(card)}, with its pictures beside it")


def model_versions(store: Store, name: str) -> Outcome:
    """Describe the versions of the model ``name``: aliases, figures, and how the champion came to be."""
    from mcvrp.storage.models.models import model_card, versions
    from mcvrp.storage.models.registry import ALIASES, pointer

    cards = [model_card(store, name, version) for version in versions(store, name)]
    pointers = {alias: pointer(store, name, alias) for alias in ALIASES}
    aliases = {alias: there.version for alias, there in pointers.items()}
    titles = "version", "alias", "run", "dataset", "sizes", "solution loss", "greedy gap (%)", "city"
    rows = [
        (
            card.version,
            ", ".join(alias for alias, version in aliases.items() if version == card.version),
            card.run,
            card.dataset,
            "" if card.smallest is None else f"{card.smallest}–{card.largest}",
            *(_rounded(card.metrics.get(figure)) for figure in ("solution_loss", "greedy_gap")),
            card.city_id,
        )
        for card in cards
    ]
    moves = pointers["champion"].history
    history = "\n".join(f"champion {move}{' (rolled back)' if move.back else ''}" for move in moves[-_MOVES:])
    described = f"{store.url(cards[-1].folder)}/README.md describes the latest"
    text = "\n\n".join(filter(None, (table(titles, rows, (0, 5, 6)), history, described)))
    return Outcome({"versions": plain(cards), "aliases": aliases, "history": plain(moves)}, text)


def describe_model(store: Store, name: str) -> Outcome:
    """Describe the model ``name``; one of which no version is finished by its files."""
    from mcvrp.storage.models.models import versions

    if versions(store, name):
        return model_versions(store, name)
    return describe_folder(store, layout.models_dir(name))


def describe_version(store: Store, name: str, version: str) -> Outcome:
    """Describe one version of the model ``name``: a number, an alias, or "latest".

    Raises
    ------
    McvrpError
        If there is no such model or version.
    """
    from mcvrp.storage.models.models import named_version

    return describe_folder(store, named_version(store, name, version).folder)


def describe_attention(store: Store, name: str) -> Outcome:
    """Describe the attention models ``name``: a row a size that is finished, else their files."""
    cards = attention_models(store, name)
    if not cards:
        return describe_folder(store, layout.attention_dir(name))
    text = f"{markdown_text(attention_table(cards))}\n\n{store.url(layout.attention_dir(name))}"
    return Outcome({"models": plain(cards)}, text)


def describe_city(store: Store, name: str) -> Outcome:
    """Describe the city ``name``."""
    document, readme = store.get_json(layout.city_card(name)), layout.city_readme(name)
    if not isinstance(document, dict):
        raise McvrpError(f"{store.url(layout.city_card(name))} is no city's card: create or import it again")
    if not store.exists(readme):  # of an older version
        return Outcome(document, aligned({key: str(value) for key, value in document.items()}))
    return Outcome(document, f"{markdown(store, readme)}\n\n{store.url(readme)}, with its map beside it")


def describe_trials(store: Store, model: str, *, folder: str, kind: str) -> Outcome:
    """Describe the nights or the rounds of ``model``, a row each in their order."""
    folder = f"{folder}/{model}"
    paths = [path for path in store.list(folder) if path.endswith(f"/{kind}.json")]
    found = sorted(
        ((store.get_json(path), path) for path in paths), key=lambda pair: pair[0].get("number", 0)
    )
    if not found:
        return describe_folder(store, folder)
    rows = [
        (
            record.get("number", ""),
            path.split("/")[-2],
            record.get("champion", ""),
            record.get("challenger", ""),
            "yes" if record.get("applied") else "no",
            "; ".join(record.get("reasons", ())),
        )
        for record, path in found
    ]
    text = table(("#", kind, "champion", "challenger", "promoted", "why"), rows, (0, 2, 3))
    return Outcome({f"{kind}s": [record for record, _ in found]}, f"{text}\n\n{store.url(folder)}")


def describe_driven(store: Store, city: str) -> Outcome:
    """Describe what was driven in the city ``city``: days, and what became of each file of routes."""
    from mcvrp.storage.driven import driven_readme, receipts

    text = markdown_text(driven_readme(store, city))
    document = {"files": plain(receipts(store, city))}
    return Outcome(document, f"{text}\n\n{store.url(layout.driven_dir(city))}")


def describe_solution(store: Store, name: str) -> Outcome:
    """Describe the routes of a day; those that are not all written by their files."""
    folder = layout.solution_dir(name)
    found = describe_folder(store, folder)
    summary = f"{folder}/summary.json"
    return Outcome(store.get_json(summary), found.text) if store.exists(summary) else found


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def dataset_of(store: Store, path: str) -> str | None:
    """Return the dataset that ``path`` names as NAME or labels/NAME, None when it names none."""
    name = path.strip("/").removeprefix("labels/")
    if "/" in name or not name:
        return None
    try:
        there = store.exists(layout.label_spec(name)) or store.exists(layout.manifest(name))
    except McvrpError:  # no name for a dataset
        return None
    return name if there else None


@dataclass(frozen=True)
class Kind:
    """A kind of thing: its folders lie in ``folder``, ``describe`` knows more of one than its files.

    One that is only begun, without the file that ``is_whole`` looks for, is described by its files.
    """

    title: str
    folder: str
    describe: Callable[[Store, str], Outcome] | None = None
    is_whole: Callable[[Store, str], bool] = lambda store, name: True


KINDS = (
    Kind("city", "cities", describe_city, lambda store, name: store.exists(layout.city_card(name))),
    Kind("dataset", "labels", describe_dataset, lambda store, name: dataset_of(store, name) is not None),
    Kind("training run", "training"),
    Kind("model", "models", describe_model),
    Kind("attention models", "attention", describe_attention),
    Kind("benchmark", "benchmarks"),
    Kind("driven days", "driven", describe_driven),
    Kind("nights", "nights", partial(describe_trials, folder="nights", kind="night")),
    Kind("rounds", "rounds", partial(describe_trials, folder="rounds", kind="round")),
    Kind("routes", "solutions", describe_solution),
)
