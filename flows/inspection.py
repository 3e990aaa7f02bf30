"""What lies in the store: a listing, a file's content, a dataset's card and routes, a model's versions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from flows.summary import aligned, aligned_table, plain
from model.errors import McvrpError
from storage import layout
from storage.cities import has_city
from storage.store import Store

if TYPE_CHECKING:
    from storage.attention_models import AttentionCard

_LISTED = 200  # files; more are counted
_MOVES = 10  # of an alias that are shown
_TOTALS = ("rows", "absent", "bytes", "shards")  # of a manifest


@dataclass(frozen=True)
class Found:
    """What there is at a path: for a program, for a person."""

    document: Any
    text: str


def inspect(store: Store, path: str) -> Found:
    """Describe the file, dataset (NAME or labels/NAME), models/, cities/, solutions/NAME or folder ``path``.

    Attention models are named as attention/NAME.

    Raises
    ------
    McvrpError
        If there is nothing.
    """
    path = path.rstrip("/")
    if path and _is_file(store, path):
        return _file(store, path)
    if dataset := dataset_of(store, path):
        return _dataset(store, dataset)
    if model := _model_of(store, path):
        return model_versions(store, model)
    if cards := _attention_of(store, path):
        return _attention(store, cards)
    if city := _city_of(store, path):
        return _city(store, city)
    if path.startswith("solutions/") and _is_file(store, f"{path}/summary.json"):
        return _solution(store, path)
    files = store.list(path)
    if not files:
        raise McvrpError(f"there is nothing at {store.url(path)}")
    sizes = {file: store.size(file) for file in files[:_LISTED]}
    lines = [f"{size:>13,}  {file}" for file, size in sizes.items()]
    if len(files) > _LISTED:
        lines.append(f"... and {len(files) - _LISTED:,} more files")
    return Found({"store": store.uri, "files": len(files), "bytes": sizes}, "\n".join(lines))


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


def draw(store: Store, path: str, n: int, i: int, out: Path | None) -> Found:
    """Draw instance (``n``, ``i``) of the dataset ``path`` with its routes into a PNG file.

    Parameters
    ----------
    out
        The file, by default one here that says what it shows.

    Raises
    ------
    McvrpError
        If there is no such dataset or instance, or the file cannot be written.
    """
    from storage.cities import find_city
    from storage.label_lookup import load_label
    from tasks.example_figures import Panel, solutions
    from tasks.figures import png

    dataset = dataset_of(store, path)
    if dataset is None:
        raise McvrpError(f"there is no dataset {path!r} in {store.url('labels')} to draw from")
    label = load_label(store, dataset, n, i)
    city = find_city(store, label.instance.city_id)
    target = out or Path(f"{dataset}-n{n:03d}-i{i}.png")
    title = f"{dataset}: {n} customers, instance {i}, by {label.solver}"
    try:
        target.write_bytes(png(solutions(city, label.instance, [Panel(title, label.solution)])))
    except OSError as error:
        raise McvrpError(f"cannot write {target} ({error.strerror}): give another --out") from error
    text = (
        f"{target}: instance (n={n}, i={i}) of {dataset!r}, capacity {label.instance.capacity}, "
        f"{len(label.solution.routes)} routes, cost {label.cost:.6g}, by {label.solver} ({label.budget}) "
        f"in {label.runtime:.3g} s"
    )
    return Found({"file": str(target), **plain(label)}, text)


def _dataset(store: Store, dataset: str) -> Found:
    from storage.manifest import read_manifest
    from storage.statistics import read_statistics
    from storage.verdict import read_verdict

    document = {
        "manifest": read_manifest(store, dataset),
        "sizes": plain(read_statistics(store, dataset)),
        "verdict": plain(read_verdict(store, dataset)),
    }
    card = layout.card(dataset)
    if not store.exists(card):
        size = {key: f"{value:,}" for key, value in (document["manifest"] or {}).items() if key in _TOTALS}
        text = f"dataset {dataset!r} has no card so far: mcvrp label writes it at its end"
        return Found(document, f"{text}\n{aligned(size)}".strip())
    blocks = store.get(card).decode(errors="replace").strip().split("\n\n")
    text = "\n\n".join(aligned_table(block) for block in blocks)
    return Found(document, f"{text}\n\n{store.url(card)}, with its pictures beside it")


def _model_of(store: Store, path: str) -> str | None:
    """Return the model that ``path`` names as models/NAME, None when it names none."""
    from storage.models import versions

    folder, _, name = path.partition("/")
    return name if folder == "models" and name and "/" not in name and versions(store, name) else None


def model_versions(store: Store, name: str) -> Found:
    """Describe the versions of the model ``name``: aliases, figures, and how the champion came to be."""
    from storage.models import model_card, versions
    from storage.registry import ALIASES, pointer

    cards = [model_card(store, name, version) for version in versions(store, name)]
    pointers = {alias: pointer(store, name, alias) for alias in ALIASES}
    aliases = {alias: there.version for alias, there in pointers.items()}
    titles = "version", "alias", "run", "dataset", "sizes", "solution loss", "greedy gap (%)", "city"
    lines = [f"| {' | '.join(titles)} |", "|--:|---|---|---|---|--:|--:|---|"]
    for card in cards:
        cells = (
            str(card.version),
            ", ".join(alias for alias, version in aliases.items() if version == card.version),
            card.run,
            card.dataset,
            "" if card.smallest is None else f"{card.smallest}–{card.largest}",
            *(_rounded(card.metrics.get(figure)) for figure in ("solution_loss", "greedy_gap")),
            card.city_id,
        )
        lines.append(f"| {' | '.join(cells)} |")
    table, latest = aligned_table("\n".join(lines)), store.url(cards[-1].folder)
    moves = pointers["champion"].history
    history = "\n".join(f"champion {move}{' (rolled back)' if move.back else ''}" for move in moves[-_MOVES:])
    text = "\n\n".join(part for part in (table, history, f"{latest}/README.md describes the latest") if part)
    return Found({"versions": plain(cards), "aliases": aliases, "history": plain(moves)}, text)


def _attention_of(store: Store, path: str) -> list[AttentionCard]:
    """Return the attention models that ``path`` names as attention/NAME, none when it names none."""
    from storage.attention_models import attention_models

    folder, _, name = path.partition("/")
    return attention_models(store, name) if folder == "attention" and name and "/" not in name else []


def _attention(store: Store, cards: list[AttentionCard]) -> Found:
    lines = ["| n | steps | epochs | greedy | took (s) | diverged | city |", "|--:|--:|--:|--:|--:|---|---|"]
    for card in cards:
        greedy = _rounded(card.epochs[-1].greedy if card.epochs and card.diverged is None else None)
        cells = f"{card.n} | {card.steps:,} | {len(card.epochs)} | {greedy} | {card.seconds:,.0f}"
        lines.append(f"| {cells} | {card.diverged or ''} | {card.city_id} |")
    return Found({"models": plain(cards)}, aligned_table("\n".join(lines)))


def _city_of(store: Store, path: str) -> str | None:
    """Return the city that ``path`` names as cities/NAME, None when it names none."""
    folder, _, name = path.partition("/")
    return name if folder == "cities" and name and "/" not in name and has_city(store, name) else None


def _city(store: Store, name: str) -> Found:
    document, readme = store.get_json(layout.city_card(name)), layout.city_readme(name)
    if not store.exists(readme):  # of an older version
        return Found(document, aligned({key: str(value) for key, value in document.items()}))
    return Found(document, f"{_aligned_file(store, readme)}\n\n{store.url(readme)}, with its map beside it")


def _solution(store: Store, path: str) -> Found:
    text = _aligned_file(store, f"{path}/README.md")
    return Found(store.get_json(f"{path}/summary.json"), f"{text}\n\n{store.url(path)}")


def _aligned_file(store: Store, path: str) -> str:
    """Return a Markdown file with its tables aligned."""
    blocks = store.get(path).decode(errors="replace").strip().split("\n\n")
    return "\n\n".join(aligned_table(block) for block in blocks)


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _is_file(store: Store, path: str) -> bool:
    try:
        store.size(path)
    except McvrpError:
        return False
    return True


def _file(store: Store, path: str) -> Found:
    if path.endswith(".json"):
        document = store.get_json(path)
        return Found(document, json.dumps(document, indent=2, ensure_ascii=False))
    if path.endswith(".parquet"):
        with store.open_input(path) as stream:
            try:
                parquet = pq.ParquetFile(stream)
                rows, schema = parquet.metadata.num_rows, parquet.schema_arrow
            except Exception as error:
                raise McvrpError(f"{store.url(path)} is no Parquet file: {error}") from error
        footer = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
        columns = {field.name: str(field.type) for field in schema}
        text = [f"{rows:,} rows", *(f"  {name}: {kind}" for name, kind in columns.items())]
        text += [f"{key} = {value}" for key, value in footer.items()]
        return Found({"rows": rows, "columns": columns, "footer": footer}, "\n".join(text))
    return Found({"bytes": store.size(path)}, f"{store.size(path):,} bytes")
