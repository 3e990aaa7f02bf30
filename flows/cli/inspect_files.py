"""Descriptions of files by their extensions, and of folders by their contents."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from mcvrp.flows.cli.output import Outcome, markdown_text, plain
from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage.markdown import without_metadata
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.storage.store.store import Store

_LISTED = 200  # files of a folder; more are counted
_HEAD = 5  # first rows of a table
_DOCUMENTS = 3  # JSON documents of a folder without README.md; of more, only the names are shown
_WIDTH, _CELL = 110, 28  # characters of a line, of a cell
_README = "README.md"
_REMEDY = "remove it, and run the command that writes it again"
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


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
    frame = pd.read_csv(io.BytesIO(store.get(path)), dtype="string", sep=None, engine="python")
    first = frame.head(_HEAD)
    columns = [str(name) for name in frame.columns]
    text = [f"{len(frame):,} rows", *(f"  {name}" for name in columns), *_rows(first)]
    return Outcome({"rows": len(frame), "columns": columns, "first": _records(first)}, "\n".join(text))


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
