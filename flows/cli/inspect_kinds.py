"""Descriptions of artifacts by their kinds, of files by their extensions, of folders by their contents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from mcvrp.flows.cli.output import Outcome, aligned, markdown_text, plain, table
from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage import layout
from mcvrp.storage.markdown import without_metadata
from mcvrp.storage.models.attention import attention_models, attention_table
from mcvrp.storage.provenance import provenance_in, provenance_line
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import trial_records
from mcvrp.tasks.files.tabular import read_tabular

_METRICS = ("solution_loss", "greedy_gap")
_MOVES = 10  # latest changes of an alias to show
_LISTED = 200  # files of a folder; more are counted
_HEAD = 5  # first rows of a table
_DOCUMENTS = 3  # JSON documents of a folder without README.md; of more, only the names are shown
_WIDTH, _CELL = 110, 28  # characters of a line, of a cell
_README = "README.md"
_REMEDY = "remove it, and run the command that writes it again"
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


def _dataset(store: Store, dataset: str) -> Outcome:
    from mcvrp.storage.labels.manifest import TOTALS, read_manifest
    from mcvrp.storage.labels.statistics import read_statistics
    from mcvrp.storage.labels.verification import read_verification
    from mcvrp.tasks.label.spec import of_trial

    document = {
        "manifest": read_manifest(store, dataset),
        "sizes": plain(read_statistics(store, dataset)),
        "report": plain(read_verification(store, dataset)),
    }
    card = layout.card(dataset)
    if not store.exists(card):
        size = {key: f"{value:,}" for key, value in (document["manifest"] or {}).items() if key in TOTALS}
        text = f"dataset {dataset!r} has no card yet: mcvrp label writes it when it is done"
        if of_trial(store, dataset):
            made = provenance_line(provenance_in(document["manifest"]), "")
            text = f"dataset {dataset!r} belongs to a night or round. {made}"
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
    titles = "version", "alias", "run", "dataset", "sizes", "solution loss", "greedy gap (%)", "city", "mcvrp"
    rows = [
        (
            card.version,
            ", ".join(alias for alias, version in aliases.items() if version == card.version),
            card.run,
            card.dataset,
            "" if card.smallest is None else f"{card.smallest}–{card.largest}",
            *("" if (value := card.metrics.get(figure)) is None else f"{value:.3f}" for figure in _METRICS),
            card.city or card.city_id,
            card.provenance.makers[-1].release if card.provenance else "",
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


def _trials(store: Store, model: str, *, kind: str, prefix: str) -> Outcome:
    folders, records = f"{kind}s", trial_records(store, model, prefix)
    folder = f"{folders}/{model}"
    if not records:
        return describe_folder(store, folder)
    rows = [
        (
            record.number,
            record.name,
            record.champion,
            record.challenger,
            "yes" if record.applied else "no",
            "; ".join(record.reasons),
        )
        for record in records
    ]
    text = table(("#", kind, "champion", "challenger", "promoted", "why"), rows, (0, 2, 3))
    return Outcome({folders: plain(records)}, f"{text}\n\n{store.url(folder)}")


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
    Kind("nights", "nights", partial(_trials, kind="night", prefix=layout.NIGHT)),
    Kind("rounds", "rounds", partial(_trials, kind="round", prefix=layout.ROUND)),
    Kind("routes", "solutions", _solution),
)


def describe_file(store: Store, path: str) -> Outcome:
    """Describe a file: text and JSON completely, tables by columns and first rows, others by their size."""
    extension = PurePosixPath(path).suffix
    if extension not in _BY_EXTENSION:
        return Outcome({"bytes": store.size(path)}, f"{store.size(path):,} bytes: {store.url(path)}")
    kind, describe = _BY_EXTENSION[extension]
    try:
        return describe(store, path)
    except (*UNREADABLE, KeyError, TypeError) as error:
        raise McvrpError(f"{store.url(path)} is not a {kind} ({reason(error)}): {_REMEDY}") from error


def describe_folder(store: Store, path: str) -> Outcome:
    """Describe a folder by its README.md, otherwise by its files and JSON documents; McvrpError if empty."""
    files = {file.path: file.size for file in store.files(path)}
    if not files:
        raise McvrpError(f"there is nothing at {store.url(path)}: check the name")
    names = [file.removeprefix(f"{path}/") for file in files]
    json_names = [name for name in names if "/" not in name and name.endswith(".json")]
    documents = {name: store.get_json(f"{path}/{name}") for name in json_names}
    readme, sizes = f"{path}/{_README}", dict[str, int]()
    if readme in files:
        text = f"{markdown(store, readme)}\n\n{store.url(path)}: {len(files):,} files"
    else:
        sizes = dict(islice(files.items(), _LISTED))
        lines = [f"{size:>13,}  {file}" for file, size in sizes.items()]
        lines += [f"... and {more:,} more files"] if (more := len(files) - len(sizes)) else []
        if len(documents) <= _DOCUMENTS:
            lines += [f"\n{name}\n{_pretty(document)}" for name, document in documents.items()]
        text = "\n".join(lines)
    document = {"folder": store.url(path), "files": len(files), "bytes": sizes, "documents": documents}
    return Outcome(document, text)


def markdown(store: Store, path: str) -> str:
    """Return a Markdown file for the terminal: tables aligned, pictures by their addresses."""
    folder = path.rpartition("/")[0]
    text = markdown_text(without_metadata(store.get(path).decode(errors="replace")))
    return _PICTURE.sub(lambda match: f"{match[1]}: {store.url(f'{folder}/{match[2]}'.lstrip('/'))}", text)


def _pretty(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _json(store: Store, path: str) -> Outcome:
    document = store.get_json(path)
    return Outcome(document, _pretty(document))


def _markdown(store: Store, path: str) -> Outcome:
    return Outcome({"text": store.get(path).decode(errors="replace")}, markdown(store, path))


def _text(store: Store, path: str) -> Outcome:
    text = store.get(path).decode(errors="replace")
    return Outcome({"text": text}, text)


def _parquet(store: Store, path: str) -> Outcome:
    with store.open_input(path) as stream:
        parquet = pq.ParquetFile(stream)
        rows, schema = parquet.metadata.num_rows, parquet.schema_arrow
        batch = next(parquet.iter_batches(batch_size=_HEAD), None)
    first = pd.DataFrame() if batch is None else batch.to_pandas()
    footer = {key.decode(): value.decode(errors="replace") for key, value in (schema.metadata or {}).items()}
    columns = {field.name: str(field.type) for field in schema}
    text = [f"{rows:,} rows", *(f"  {name}: {kind}" for name, kind in columns.items())]
    text += [f"{key} = {value}" for key, value in footer.items() if key != "pandas"]
    document = {"rows": rows, "columns": columns, "footer": footer, "first": _records(first)}
    return Outcome(document, "\n".join([*text, *_rows(first)]))


def _csv(store: Store, path: str) -> Outcome:
    content = read_tabular(PurePosixPath(path).name, store.get(path))
    first = content.frame.head(_HEAD).rename(columns=content.titles)
    columns = list(first.columns)
    text = [f"{len(content):,} rows", *(f"  {name}" for name in columns), *content.notes, *_rows(first)]
    return Outcome({"rows": len(content), "columns": columns, "first": _records(first)}, "\n".join(text))


def _records(frame: pd.DataFrame) -> Any:
    rows = frame.to_dict("records")
    return plain([{str(k): None if v is pd.NA or v is pd.NaT else v for k, v in row.items()} for row in rows])


def _rows(frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    shown = frame.to_string(index=False, max_colwidth=_CELL, line_width=_WIDTH)
    return ["", f"first {len(frame)} rows:" if len(frame) > 1 else "first row:", shown]


def _tensors(store: Store, path: str) -> Outcome:
    size = store.size(path)
    with store.open_input(path) as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > size:
            raise ValueError("its header is longer than the file")
        header: dict[str, Any] = json.loads(stream.read(length))
    header.pop("__metadata__", None)
    shapes = {name: (tensor["dtype"], tensor["shape"]) for name, tensor in header.items()}
    lines = [f"  {name}: {kind} {' x '.join(map(str, shape))}" for name, (kind, shape) in shapes.items()]
    document = {"bytes": size, "tensors": {name: shape for name, (_, shape) in shapes.items()}}
    return Outcome(document, "\n".join([f"{len(shapes):,} arrays, {size:,} bytes", *lines]))


_BY_EXTENSION: Mapping[str, tuple[str, Callable[[Store, str], Outcome]]] = {
    ".json": ("JSON document", _json),
    ".md": ("text", _markdown),
    ".tex": ("text", _text),
    ".txt": ("text", _text),
    ".parquet": ("readable Parquet file", _parquet),
    ".pq": ("readable Parquet file", _parquet),
    ".csv": ("readable CSV file", _csv),
    ".safetensors": ("safetensors file", _tensors),
}
