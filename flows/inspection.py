"""What lies in the store: a listing, and for one file what is in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from model.errors import McvrpError
from storage.store import Store

_LISTED = 200  # files; more are counted


@dataclass(frozen=True)
class Found:
    """What there is at a path: for a program, for a person."""

    document: Any
    text: str


def inspect(store: Store, path: str) -> Found:
    """Describe the file or the folder ``path`` of ``store``.

    Raises
    ------
    McvrpError
        If there is nothing.
    """
    path = path.strip("/")
    if path and _is_file(store, path):
        return _file(store, path)
    files = store.list(path)
    if not files:
        raise McvrpError(f"there is nothing at {store.url(path)}")
    sizes = {file: store.size(file) for file in files[:_LISTED]}
    lines = [f"{size:>13,}  {file}" for file, size in sizes.items()]
    if len(files) > _LISTED:
        lines.append(f"... and {len(files) - _LISTED:,} more files")
    return Found({"store": store.uri, "files": len(files), "bytes": sizes}, "\n".join(lines))


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
