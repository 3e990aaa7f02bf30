"""Files and folders of the store as they look from outside: by their endings, whoever has written them."""

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

_LISTED = 200  # files; more are counted
_FIRST = 5  # rows of a table
_WRITTEN = 3  # JSON documents of a folder without README.md; of more there are the names
_WIDTH, _CELL = 110, 28  # letters of a line, of a cell
_README = "README.md"
_AGAIN = "remove it, and run what has made it again"
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
_PNG = b"\x89PNG\r\n\x1a\n"


def is_file(store: Store, path: str) -> bool:
    """Return whether there is a file at ``path``: folders are none."""
    try:
        store.size(path)
    except McvrpError:
        return False
    return True


def describe_file(store: Store, path: str) -> Outcome:
    """Describe a file: text and JSON as they are, tables by columns and first rows, others by what they are.

    Raises
    ------
    McvrpError
        If it is not what its ending says.
    """
    return _BY_ENDING.get(PurePosixPath(path).suffix, _bytes)(store, path)


def describe_folder(store: Store, path: str) -> Outcome:
    """Describe a folder: its README.md where it has one, else its files; its JSON documents either way.

    Raises
    ------
    McvrpError
        If there is nothing.
    """
    files = {file.path: file.size for file in store.files(path)}
    if not files:
        raise McvrpError(f"there is nothing at {store.url(path)}: check the name")
    names = [file.removeprefix(f"{path}/") for file in files]
    written = [name for name in names if "/" not in name and name.endswith(".json")]
    documents = {name: store.get_json(f"{path}/{name}") for name in written}
    readme, sizes = f"{path}/{_README}", dict[str, int]()
    if readme in files:
        text = f"{markdown(store, readme)}\n\n{store.url(path)}: {len(files):,} files"
    else:
        sizes = dict(islice(files.items(), _LISTED))
        lines = [f"{size:>13,}  {file}" for file, size in sizes.items()]
        lines += [f"... and {more:,} more files"] if (more := len(files) - len(sizes)) else []
        if len(documents) <= _WRITTEN:
            lines += [f"\n{name}\n{_pretty(document)}" for name, document in documents.items()]
        text = "\n".join(lines)
    document = {"folder": store.url(path), "files": len(files), "bytes": sizes, "documents": documents}
    return Outcome(document, text)


def markdown(store: Store, path: str) -> str:
    """Return a Markdown file as a terminal shows it best: tables aligned, pictures by their addresses."""
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
            batch = next(parquet.iter_batches(batch_size=_FIRST), None)
        except UNREADABLE as error:
            raise McvrpError(
                f"{store.url(path)} is no readable Parquet file ({reason(error)}): {_AGAIN}"
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
        raise McvrpError(f"{store.url(path)} is no readable CSV file ({reason(error)}): {_AGAIN}") from error
    first = frame.head(_FIRST)
    columns = [str(name) for name in frame.columns]
    text = [f"{len(frame):,} rows", *(f"  {name}" for name in columns), *_rows(first)]
    return Outcome({"rows": len(frame), "columns": columns, "first": _records(first)}, "\n".join(text))


def _records(frame: pd.DataFrame) -> Any:
    return plain([{str(k): _known(v) for k, v in row.items()} for row in frame.to_dict("records")])


def _known(value: Any) -> Any:
    """Return ``value``, None for what stands for no value."""
    return None if value is pd.NA or value is pd.NaT else value


def _rows(frame: pd.DataFrame) -> list[str]:
    if frame.empty:
        return []
    shown = frame.to_string(index=False, max_colwidth=_CELL, line_width=_WIDTH)
    return ["", f"the first {len(frame)}:" if len(frame) > 1 else "the first:", shown]


def _picture(store: Store, path: str) -> Outcome:
    data = store.get(path)
    if not data.startswith(_PNG):
        raise McvrpError(f"{store.url(path)} is no PNG file: {_AGAIN}")
    width, height = (int.from_bytes(data[k : k + 4], "big") for k in (16, 20))
    text = f"a picture of {width} by {height} pixels, {len(data):,} bytes: {store.url(path)}"
    return Outcome({"width": width, "height": height, "bytes": len(data), "file": store.url(path)}, text)


def _page(store: Store, path: str) -> Outcome:
    size = store.size(path)
    return Outcome({"bytes": size}, f"a page for a browser, {size:,} bytes: {store.url(path)}")


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
                f"{store.url(path)} is no safetensors file ({reason(error)}): {_AGAIN}"
            ) from error
    lines = [f"  {name}: {kind} {' x '.join(map(str, shape))}" for name, (kind, shape) in shapes.items()]
    document = {"bytes": store.size(path), "tensors": {name: shape for name, (_, shape) in shapes.items()}}
    return Outcome(document, "\n".join([f"{len(shapes):,} arrays, {store.size(path):,} bytes", *lines]))


def _bytes(store: Store, path: str) -> Outcome:
    return Outcome({"bytes": store.size(path)}, f"{store.size(path):,} bytes: {store.url(path)}")


_BY_ENDING: Mapping[str, Callable[[Store, str], Outcome]] = {
    ".json": _json,
    ".md": _markdown,
    ".tex": _text,
    ".txt": _text,
    ".parquet": _parquet,
    ".pq": _parquet,
    ".csv": _csv,
    ".png": _picture,
    ".html": _page,
    ".safetensors": _tensors,
}
