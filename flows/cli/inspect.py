"""`mcvrp inspect`: what is in the store, by name or path."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcvrp.flows.cli.inspect_kinds import KINDS, Kind, dataset_of, describe_file, describe_folder
from mcvrp.flows.cli.output import Outcome, plain, reading, table
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store, StoredFile
from mcvrp.tasks.support.text import listed

_LISTED = 8  # names in a list; more are counted
_CLOSE = 3  # suggested names


def inspect_or_draw(options: argparse.Namespace) -> Outcome:
    """Describe the path of ``options``, or draw an instance of the dataset."""
    store, path = reading(options), options.path or ""
    if options.draw:
        n, i = options.draw
        return draw(store, path, n, i, Path(options.out) if options.out else None)
    if options.out:
        return fetch(store, path, Path(options.out))
    return inspect(store, path)


def inspect(store: Store, path: str) -> Outcome:
    """Describe the file, folder or artifact at ``path``.

    A path of the store, with or without its address; the name of an artifact, or several of which are listed;
    a version of a model as NAME@3, NAME@champion or NAME@latest; or "" for the whole store.
    """
    found = located(store, path)
    if isinstance(found, Outcome):
        return found
    if not found:
        return _overview(store)
    return describe_file(store, found) if _is_file(store, found) else _folder(store, found)


def located(store: Store, path: str) -> str | Outcome:
    """Return the path in the store of what ``path`` names, see `inspect`; a list if several have the name."""
    path = store_path(store, path)
    if not path or _is_file(store, path):
        return path
    name, at, version = path.removeprefix("models/").partition("@")
    if at and "/" not in name:
        from mcvrp.storage.models.models import named_version

        return named_version(store, layout.checked_name("model", name), version).folder
    if store.exists(path):
        return path
    folders = _folders_named(store, path)
    if not folders:
        raise McvrpError(f"there is nothing at {store.url(path)}: {_suggestion(store, path)}")
    if len(folders) == 1:
        return next(iter(folders))
    kinds = {kind: folder for folder, kind in folders.items()}
    text = f"{path!r} is the name of {len(folders)} artifacts:\n\n"
    text += table(("kind", "mcvrp inspect"), list(kinds.items()))
    return Outcome({"name": path, "kinds": kinds}, text)


def store_path(store: Store, path: str) -> str:
    """Return ``path``, an address or a path on this machine, as one of the store, or raise McvrpError."""
    path = path.rstrip("/")
    if path == store.uri or path.startswith(f"{store.uri}/"):
        return path.removeprefix(store.uri).strip("/")
    outside = "://" in path
    if not outside and "://" not in store.uri:
        absolute = Path(os.path.abspath(Path(path).expanduser()))
        if absolute.is_relative_to(store.uri):
            inside = "/".join(absolute.relative_to(store.uri).parts)
            # a path of the store takes precedence over one on this machine
            return inside if path and _exists(store, inside) and not _exists(store, path) else path
        outside = Path(path).is_absolute()
    if outside:
        raise McvrpError(f"{path} is not in the store {store.uri}: give its store with --store")
    return path


def _exists(store: Store, path: str) -> bool:
    try:
        return not path or store.exists(path)
    except McvrpError:  # an invalid path
        return False


def _is_file(store: Store, path: str) -> bool:
    try:
        store.size(path)
    except McvrpError:
        return False
    return True


def _folders_named(store: Store, name: str) -> dict[str, str]:
    try:
        layout.checked_name("artifact", name)
    except McvrpError:
        return {}
    folders = {f"{kind.folder}/{name}": kind.title for kind in KINDS}
    for folder in ("nights", "rounds"):
        folders |= {f"{folder}/{model}/{name}": folder.removesuffix("s") for model in store.folders(folder)}
    return {folder: kind for folder, kind in folders.items() if store.exists(folder)}


def draw(store: Store, path: str, n: int, i: int, out: Path | None) -> Outcome:
    """Draw instance (``n``, ``i``) of the dataset ``path`` with its routes into ``out``, a PNG file.

    The default is a file in the current folder, named after the dataset, n and i.
    """
    from mcvrp.storage.cities import find_city
    from mcvrp.storage.labels.dataset import Dataset
    from mcvrp.tasks.support.pictures import png, solutions

    dataset = dataset_of(store, store_path(store, path))
    if dataset is None:
        raise McvrpError(
            f"there is no dataset {path!r} in {store.url('labels')}: run mcvrp inspect labels for a list"
        )
    label = Dataset.open(store, dataset).label(n, i)
    city = find_city(store, label.instance.city_id)
    target = out or Path(f"{dataset}-n{n:03d}-i{i}.png")
    title = f"{dataset}: {n} customers, instance {i}, by {label.solver}"
    write_local(target, png(solutions(city, label.instance, [(title, label.solution)])))
    text = (
        f"{target}: instance (n={n}, i={i}) of {dataset!r}, capacity {label.instance.capacity}, "
        f"{len(label.solution.routes)} routes, cost {label.cost:.6g}, by {label.solver} ({label.budget}) "
        f"in {label.runtime:.3g} s"
    )
    return Outcome({"file": str(target), **plain(label)}, text)


def fetch(store: Store, path: str, out: Path) -> Outcome:
    """Write the file at ``path``, such as a picture in a bucket, to ``out``, a local file or folder."""
    path = store_path(store, path)
    if not path or not _is_file(store, path):
        pictures = [file for file in store.list(path) if file.endswith(".png")] if path else []
        raise McvrpError(
            f"{store.url(path)} is not a file: give --out and the path of one, such as "
            f"{(pictures or ['cities/CITY/map.png'])[0]}, or --draw N I"
        )
    target, data = out / path.rsplit("/", 1)[-1] if out.is_dir() else out, store.get(path)
    write_local(target, data)
    document = {"file": str(target), "bytes": len(data)}
    return Outcome(document, f"{target}: {len(data):,} bytes, a copy of {store.url(path)}")


def write_local(target: Path, data: bytes) -> None:
    """Write a file on this machine; McvrpError if that fails."""
    try:
        target.write_bytes(data)
    except OSError as error:
        raise McvrpError(f"cannot write {target} ({error.strerror}): give another --out") from error


def _folder(store: Store, path: str) -> Outcome:
    folder, _, name = path.partition("/")
    kind = next((kind for kind in KINDS if kind.folder == folder), None)
    if kind and not name:
        return _all_of(store, kind)
    if kind and kind.describe and "/" not in name and kind.is_complete(store, name):
        return kind.describe(store, name)
    return describe_folder(store, path)


def _all_of(store: Store, kind: Kind) -> Outcome:
    sums = _sums(store.files(kind.folder), 1)
    rows = [
        (f"{kind.folder}/{name}", *(f"{count:,}" for count in total.values())) for name, total in sums.items()
    ]
    return Outcome({kind.folder: sums}, table((kind.title, "files", "bytes"), rows, (1, 2)))


def _overview(store: Store) -> Outcome:
    files, document, rows = store.files(""), dict[str, dict[str, Any]](), []
    for top, total in _sums(files, 0).items():
        names = [name for name in _sums([f for f in files if f.path.split("/")[0] == top], 1) if name]
        document[top] = {**total, "names": names}
        rows.append((top, *(f"{count:,}" for count in total.values()), listed(names, _LISTED)))
    if not document:
        return Outcome({"store": store.uri, "folders": {}}, f"the store {store.uri} is empty")
    text = table(("folder", "files", "bytes", "contents"), rows, (1, 2))
    return Outcome({"store": store.uri, "folders": document}, f"{text}\n\n{store.uri}")


def _sums(files: Sequence[StoredFile], depth: int) -> dict[str, dict[str, int]]:
    """Return number and bytes of ``files`` by the part of their paths at ``depth``, "" for shorter paths."""
    sums: dict[str, dict[str, int]] = {}
    for file in files:
        part = "".join(file.path.split("/")[depth : depth + 1])
        total = sums.setdefault(part, {"files": 0, "bytes": 0})
        total["files"] += 1
        total["bytes"] += file.size
    return sums


def _suggestion(store: Store, path: str) -> str:
    paths = [f"{kind.folder}/{name}" for kind in KINDS for name in store.folders(kind.folder)]
    close = difflib.get_close_matches(path, paths, _CLOSE)
    name = path.rsplit("/", 1)[-1]
    names = difflib.get_close_matches(name, {path.split("/")[1] for path in paths}, _CLOSE)
    close += [path for path in paths if path.split("/")[1] in names and path not in close]
    if close:
        return f"did you mean {', '.join(close[: 2 * _CLOSE])}?"
    if not paths:
        return "the store is empty, run mcvrp city create or import"
    return f"there is {listed(paths, _LISTED)}"
