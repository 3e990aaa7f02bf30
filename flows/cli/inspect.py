"""`mcvrp inspect`: the card of an artifact, the content of a file, by name or path."""

from __future__ import annotations

import difflib
import json
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow.parquet as pq

from mcvrp.flows.cli.app import Common, Outcome
from mcvrp.flows.cli.models import model_versions
from mcvrp.flows.cli.output import markdown_text, plain, reading, table
from mcvrp.model.errors import McvrpError, brief, reason
from mcvrp.storage import layout
from mcvrp.storage.markdown import without_metadata
from mcvrp.storage.models.models import named_version, versions
from mcvrp.storage.store.errors import UNREADABLE
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.tabular import read_tabular
from mcvrp.tasks.support.text import listed

FOLDERS = (
    *("cities", "labels", "training", "models", "attention", "benchmarks", "driven", "nights", "rounds"),
    "solutions",
)
_LISTED, _DOCUMENTS, _HEAD = 200, 3, 5  # files, JSON documents of a folder, rows of a table that are shown
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


def inspect_or_draw(common: Common, path: str, instance: tuple[int, int] | None, out: str | None) -> Outcome:
    """Describe ``path``, write the file there to ``out``, or draw an instance of the dataset."""
    store, target = reading(common), Path(out) if out else None
    if instance:
        return draw(store, path, *instance, target)
    return fetch(store, path, target) if target else inspect(store, path)


def inspect(store: Store, path: str) -> Outcome:
    """Describe the file, folder or artifact at ``path``.

    A path of the store, with or without its address; the name of an artifact, or several of which are listed;
    a version of a model as NAME@3, NAME@champion or NAME@latest; or "" for the whole store.
    """
    places = located(store, path)
    if len(places) > 1:
        text = f"{path!r} is the name of {len(places)} artifacts: {listed(places)}"
        return Outcome({"name": path, "paths": places}, text)
    if not places[0] or places[0] in FOLDERS:
        return _overview(store, places[0])
    folder, _, name = places[0].partition("/")
    if folder == "models" and "/" not in name and versions(store, name):
        return model_versions(store, name)
    return (_file if _is_file(store, places[0]) else _folder)(store, places[0])


def located(store: Store, path: str) -> list[str]:
    """Return the paths in the store of what ``path`` names, see `inspect`; McvrpError if there are none."""
    path = store_path(store, path)
    name, at, version = path.removeprefix("models/").partition("@")
    if at and "/" not in name:
        return [named_version(store, layout.checked_name("model", name), version).folder]
    if not path or store.exists(path) or _is_file(store, path):
        return [path]
    known = [f"{folder}/{name}" for folder in FOLDERS for name in store.folders(folder)]
    trials = [each for each in known if each.startswith(("nights/", "rounds/"))]
    nights = [f"{each}/{name}" for each in trials for name in store.folders(each)]
    if named := [each for each in (*known, *nights) if each.rsplit("/", 1)[-1] == path]:
        return named
    names = {part for each in known for part in (each, each.rsplit("/", 1)[-1])}
    near = difflib.get_close_matches(path, names)
    close = [each for each in known if {each, each.rsplit("/", 1)[-1]} & set(near)]
    hint = f"did you mean {', '.join(close)}?" if close else f"there is {listed(known)}"
    raise McvrpError(f"there is nothing at {store.url(path)}: {hint if known else 'the store is empty'}")


def store_path(store: Store, path: str) -> str:
    """Return ``path``, an address or a path on this machine, as one of the store, or raise McvrpError."""
    path = path.rstrip("/")
    if path == store.uri or path.startswith(f"{store.uri}/"):
        return path.removeprefix(store.uri).strip("/")
    local = "://" not in path and "://" not in store.uri
    absolute = Path(os.path.abspath(Path(path).expanduser()))
    if local and path and absolute.is_relative_to(store.uri) and absolute.exists():
        # a path of the store takes precedence over one on this machine
        inside = "/".join(absolute.relative_to(store.uri).parts)
        return path if Path(store.uri, path).exists() else inside
    if "://" in path or Path(path).is_absolute():
        raise McvrpError(f"{path} is not in the store {store.uri}: give its store with --store")
    return path


def draw(store: Store, path: str, n: int, i: int, out: Path | None) -> Outcome:
    """Draw instance (``n``, ``i``) of the dataset ``path`` with its routes into ``out``, a PNG file.

    The default is a file in the current folder, named after the dataset, n and i.
    """
    from mcvrp.storage.cities import find_city
    from mcvrp.storage.labels.dataset import Dataset
    from mcvrp.tasks.support.pictures import png, solutions

    dataset = store_path(store, path).removeprefix("labels/")
    if "/" in dataset or not store.exists(f"labels/{dataset or '.'}"):
        raise McvrpError(f"there is no dataset {path!r} in {store.url('labels')}: run mcvrp inspect labels")
    label = Dataset.open(store, dataset).label(n, i)
    city = find_city(store, label.instance.city_id)
    title = f"{dataset}: {n} customers, instance {i}, by {label.solver}"
    target = out or Path(f"{dataset}-n{n:03d}-i{i}.png")
    _write(target, png(solutions(city, label.instance, [(title, label.solution)])))
    text = f"{target}: {title}, {len(label.solution.routes)} routes, cost {label.cost:.6g}"
    return Outcome({"file": str(target), **plain(label)}, text)


def fetch(store: Store, path: str, out: Path) -> Outcome:
    """Write the file at ``path``, such as a picture in a bucket, to ``out``, a local file or folder."""
    path = store_path(store, path)
    if not path or not _is_file(store, path):
        raise McvrpError(f"{store.url(path)} is not a file: give --out and the path of one, or --draw N I")
    target = out / path.rsplit("/", 1)[-1] if out.is_dir() else out
    _write(target, store.get(path))
    return Outcome({"file": str(target)}, f"{target}: a copy of {store.url(path)}")


def _write(target: Path, data: bytes) -> None:
    try:
        target.write_bytes(data)
    except OSError as error:
        raise McvrpError(f"cannot write {target} ({error.strerror}): give another --out") from error


def _is_file(store: Store, path: str) -> bool:
    try:
        return store.size(path) >= 0
    except McvrpError:
        return False


def _overview(store: Store, folder: str) -> Outcome:
    """List what is in ``folder``, "": in the whole store, with its files and bytes."""
    sums: dict[str, list[int]] = {}
    for file in store.files(folder):
        part = "/".join(file.path.split("/")[:2])
        files, size = sums.get(part, (0, 0))
        sums[part] = [files + 1, size + file.size]
    rows = [(part, f"{files:,}", f"{size:,}") for part, (files, size) in sums.items()]
    text = table(("artifact", "files", "bytes"), rows, (1, 2)) if rows else "it is empty"
    return Outcome({"store": store.uri, "artifacts": sums}, f"{text}\n\n{store.url(folder)}")


def _folder(store: Store, path: str) -> Outcome:
    """Describe a folder by its card, README.md, otherwise by its files and JSON documents."""
    files = {file.path: file.size for file in store.files(path)}
    names = [file for file in files if file.endswith(".json") and file.count("/") <= path.count("/") + 2]
    documents = {name.removeprefix(f"{path}/"): store.get_json(name) for name in names[:_DOCUMENTS]}
    if f"{path}/README.md" in files:
        lines = [_markdown(store, f"{path}/README.md"), ""]
    else:
        lines = [f"{size:>13,}  {file}" for file, size in list(files.items())[:_LISTED]]
        lines += [f"\n{name}\n{_pretty(document)}" for name, document in documents.items()]
    text = "\n".join([*lines, f"{store.url(path)}: {len(files):,} files"])
    return Outcome({"folder": store.url(path), "files": files, "documents": documents}, text)


def _file(store: Store, path: str) -> Outcome:
    """Describe a file: Parquet by its schema and first rows, text completely, others by their size."""
    kind = PurePosixPath(path).suffix
    try:
        if kind in (".parquet", ".pq"):
            return _parquet(store, path)
        if kind == ".csv":
            content = read_tabular(PurePosixPath(path).name, store.get(path))
            first = content.frame.head(_HEAD).rename(columns=content.titles)
            document = {"rows": len(content), "first": plain(first.to_dict("records"))}
            return Outcome(document, f"{len(content):,} rows\n{first.to_string(index=False)}")
        if kind == ".json":
            document = store.get_json(path)
            return Outcome(document, _pretty(document))
        if kind in (".md", ".tex", ".txt"):
            text = _markdown(store, path) if kind == ".md" else store.get(path).decode(errors="replace")
            return Outcome({"text": text}, text)
    except UNREADABLE as error:
        raise McvrpError(f"{store.url(path)} is not a {kind} file: {reason(error)}") from error
    return Outcome({"bytes": store.size(path)}, f"{store.size(path):,} bytes: {store.url(path)}")


def _parquet(store: Store, path: str) -> Outcome:
    with store.open_input(path) as stream:
        parquet = pq.ParquetFile(stream)
        rows, schema = parquet.metadata.num_rows, parquet.schema_arrow
        batch = next(parquet.iter_batches(batch_size=_HEAD), None)
    footer = {key.decode(): value.decode(errors="replace") for key, value in (schema.metadata or {}).items()}
    columns = {field.name: str(field.type) for field in schema}
    lines = [f"{rows:,} rows", *(f"  {name}: {kind}" for name, kind in columns.items())]
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
    """Return a Markdown file for the terminal: tables aligned, pictures by their addresses."""
    folder = path.rpartition("/")[0]
    text = markdown_text(without_metadata(store.get(path).decode(errors="replace")))
    return _PICTURE.sub(lambda match: f"{match[1]}: {store.url(f'{folder}/{match[2]}'.lstrip('/'))}", text)


def _pretty(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)
