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


def is_file(store: Store, path: str) -> bool:
    """Return whether ``path`` is a file, and not a folder."""
    try:
        store.size(path)
    except McvrpError:
        return False
    return True


def describe_file(store: Store, path: str) -> Outcome:
    """Describe a file: text and JSON completely, tables by columns and first rows, others by their size.

    Raises
    ------
    McvrpError
        If its contents do not match its extension.
    """
    return _BY_EXTENSION.get(PurePosixPath(path).suffix, _bytes)(store, path)


def describe_folder(store: Store, path: str) -> Outcome:
    """Describe a folder by its README.md, otherwise by its files, and by its JSON documents.

    Raises
    ------
    McvrpError
        If it is empty.
    """
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
        try:
            parquet = pq.ParquetFile(stream)
            rows, schema = parquet.metadata.num_rows, parquet.schema_arrow
            batch = next(parquet.iter_batches(batch_size=_HEAD), None)
        except UNREADABLE as error:
            raise McvrpError(
                f"{store.url(path)} is not a readable Parquet file ({reason(error)}): {_REMEDY}"
            ) from error
    first = pd.DataFrame() if batch is None else batch.to_pandas()
    footer = {key.decode(): value.decode(errors="replace") for key, value in (schema.metadata or {}).items()}
    columns = {field.name: str(field.type) for field in schema}
    text = [f"{rows:,} rows", *(f"  {name}: {kind}" for name, kind in columns.items())]
    text += [f"{key} = {value}" for key, value in footer.items() if key != "pandas"]
    document = {"rows": rows, "columns": columns, "footer": footer, "first": _records(first)}
    return Outcome(document, "\n".join([*text, *_rows(first)]))


def _csv(store: Store, path: str) -> Outcome:
    try:
        frame = pd.read_csv(io.BytesIO(store.get(path)), dtype="string", sep=None, engine="python")
    except (ValueError, UnicodeError) as error:
        raise McvrpError(
            f"{store.url(path)} is not a readable CSV file ({reason(error)}): {_REMEDY}"
        ) from error
    first = frame.head(_HEAD)
    columns = [str(name) for name in frame.columns]
    text = [f"{len(frame):,} rows", *(f"  {name}" for name in columns), *_rows(first)]
    return Outcome({"rows": len(frame), "columns": columns, "first": _records(first)}, "\n".join(text))


def _records(frame: pd.DataFrame) -> Any:
    return plain(
        [
            {str(k): None if v is pd.NA or v is pd.NaT else v for k, v in row.items()}
            for row in frame.to_dict("records")
        ]
    )


def _rows(frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    shown = frame.to_string(index=False, max_colwidth=_CELL, line_width=_WIDTH)
    return ["", f"first {len(frame)} rows:" if len(frame) > 1 else "first row:", shown]


def _tensors(store: Store, path: str) -> Outcome:
    with store.open_input(path) as stream:
        length = int.from_bytes(stream.read(8), "little")
        try:
            if length > store.size(path):
                raise ValueError("its header is longer than the file")
            header: dict[str, Any] = json.loads(stream.read(length))
            header.pop("__metadata__", None)
            shapes = {name: (tensor["dtype"], tensor["shape"]) for name, tensor in header.items()}
        except (ValueError, KeyError, TypeError) as error:
            raise McvrpError(
                f"{store.url(path)} is not a safetensors file ({reason(error)}): {_REMEDY}"
            ) from error
    lines = [f"  {name}: {kind} {' x '.join(map(str, shape))}" for name, (kind, shape) in shapes.items()]
    document = {"bytes": store.size(path), "tensors": {name: shape for name, (_, shape) in shapes.items()}}
    return Outcome(document, "\n".join([f"{len(shapes):,} arrays, {store.size(path):,} bytes", *lines]))


def _bytes(store: Store, path: str) -> Outcome:
    return Outcome({"bytes": store.size(path)}, f"{store.size(path):,} bytes: {store.url(path)}")


_BY_EXTENSION: Mapping[str, Callable[[Store, str], Outcome]] = {
    ".json": _json,
    ".md": _markdown,
    ".tex": _text,
    ".txt": _text,
    ".parquet": _parquet,
    ".pq": _parquet,
    ".csv": _csv,
    ".safetensors": _tensors,
}
