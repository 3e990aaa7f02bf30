"""`mcvrp inspect`: the card of an artifact, the content of a file or folder."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mcvrp.flows.cli.app import Outcome
from mcvrp.flows.cli.models import model_versions
from mcvrp.flows.cli.output import aligned, markdown_text, plain, table
from mcvrp.model.errors import McvrpError, brief, reason
from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import parse_table
from mcvrp.storage.models.models import model_card
from mcvrp.storage.nights import NightRecord, night_records
from mcvrp.storage.parquet import UNREADABLE
from mcvrp.storage.store.store import Store
from mcvrp.tasks.support.text import counted

_LISTED = 200  # files of a folder that are shown
_HEAD = 5  # rows of a table that are shown


def inspect(store: Store, path: str) -> Outcome:
    """Describe the file or folder at ``path``, "": the whole store, or a version of a model, m@champion."""
    path = _in_store(store, path)
    kind, _, name = path.rpartition("/")
    if "@" in name and kind in ("", "models"):
        name, _, version = name.partition("@")
        path = model_card(store, layout.checked_name("model", name), version).folder
    elif kind == "models" and (described := model_versions(store, name)):
        return described
    elif kind == "nights" and (nights := night_records(store, name)):
        return _nights(store, name, nights)
    if path and store.stat(path):
        return _file(store, path)
    files = {file.path: file.size for file in store.files(path)}
    if path and not files:
        raise McvrpError(f"there is nothing at {store.url(path)}: mcvrp inspect lists the store")
    return (_folder if "/" in path else _overview)(store, path, files)


def _in_store(store: Store, path: str) -> str:
    """Return ``path``, with or without the address of ``store``, as one of the store."""
    path = path.rstrip("/")
    return path.removeprefix(store.uri).strip("/") if f"{path}/".startswith(f"{store.uri}/") else path


def _nights(store: Store, model: str, nights: Sequence[NightRecord]) -> Outcome:
    """Describe the ``nights`` of a model: costs before and after, decisions, and the last week."""
    from mcvrp.tasks.retrain.card import nights_table, read_metrics
    from mcvrp.tasks.retrain.week import week_figures, week_of

    tables = nights_table([(night, read_metrics(store, model, night.name)) for night in nights])
    reasons = [f"{layout.night_dir(model, night.name)}: {'; '.join(night.reasons)}" for night in nights]
    week = week_figures(week_of(store, model, datetime.datetime.now(datetime.UTC)))
    text = "\n".join([markdown_text(tables), "", *reasons, "", aligned(week)])
    return Outcome({"nights": plain(nights), "week": week}, text)


def _overview(store: Store, folder: str, files: dict[str, int]) -> Outcome:
    """List the artifacts in ``folder``, "": in the whole store, with their files and bytes."""
    sums: dict[str, list[int]] = {}
    for path, size in files.items():
        count, total = sums.get(part := "/".join(path.split("/")[:2]), (0, 0))
        sums[part] = [count + 1, total + size]
    rows = [(part, f"{count:,}", f"{size:,}") for part, (count, size) in sums.items()]
    text = table(("artifact", "files", "bytes"), rows, (1, 2)) if rows else "it is empty"
    return Outcome({"store": store.uri, "artifacts": sums}, f"{text}\n\n{store.url(folder)}")


def _folder(store: Store, path: str, files: dict[str, int]) -> Outcome:
    """Describe a folder by its card, README.md, if it has one, otherwise by its files."""
    lines = [f"{size:>13,}  {file}" for file, size in list(files.items())[:_LISTED]]
    if (card := f"{path}/README.md") in files:
        lines = [_markdown(store, card), ""]
    text = "\n".join([*lines, f"{store.url(path)}: {counted(len(files), 'file')}"])
    return Outcome({"folder": store.url(path), "files": files}, text)


def _file(store: Store, path: str) -> Outcome:
    """Describe a file: Parquet by its schema and first rows, text completely, others by their size."""
    kind = PurePosixPath(path).suffix
    try:
        if kind == ".parquet":
            return _parquet(store, path)
        if kind == ".json":
            document = store.get_json(path)
            return Outcome(document, _pretty(document))
        if kind in (".csv", ".md", ".tex", ".txt"):
            text = _markdown(store, path) if kind == ".md" else store.get(path).decode(errors="replace")
            return Outcome({"text": text}, text)
    except UNREADABLE as error:
        raise McvrpError(f"{store.url(path)} is not a {kind} file: {reason(error)}") from error
    return Outcome({"bytes": store.size(path)}, f"{store.size(path):,} bytes: {store.url(path)}")


def _parquet(store: Store, path: str) -> Outcome:
    data = store.get(path)
    if layout.rows_of(path) and "/data/" in path:
        parse_table(data, store.url(path))  # every checksum: names a damaged file with its remedy
    parquet = pq.ParquetFile(pa.BufferReader(data))
    rows, schema = parquet.metadata.num_rows, parquet.schema_arrow
    batch = next(parquet.iter_batches(batch_size=_HEAD), None)
    footer = {key.decode(): value.decode(errors="replace") for key, value in (schema.metadata or {}).items()}
    columns = {field.name: str(field.type) for field in schema}
    lines = [counted(rows, "row"), *(f"  {name}: {kind}" for name, kind in columns.items())]
    lines += [f"{key} = {brief(value)}" for key, value in footer.items() if key != "pandas"]
    document = {
        "rows": rows,
        "columns": columns,
        "footer": footer,
        "first": plain(batch.to_pylist()) if batch else [],
    }
    lines += [json.dumps(row, ensure_ascii=False) for row in document["first"]]
    return Outcome(document, "\n".join(lines))


def _markdown(store: Store, path: str) -> str:
    return markdown_text(store.get(path).decode(errors="replace"))


def _pretty(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)
