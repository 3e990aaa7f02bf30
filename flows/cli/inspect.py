"""`mcvrp inspect`: anything in the store by a name or a path of any kind, described by who knows it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcvrp.flows.cli.inspect_files import describe_file, describe_folder, is_file
from mcvrp.flows.cli.inspect_things import KINDS, Kind, dataset_of, describe_version
from mcvrp.flows.cli.output import Outcome, plain, table
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store, StoredFile

_NAMED = 8  # things of a kind that are named; more are counted
_CLOSE = 3  # names that may have been meant


def inspect(store: Store, path: str) -> Outcome:
    """Describe what ``path`` names.

    That is a file or folder of the store (or its whole address), the name of anything in it, or a
    version of a model as NAME@3, NAME@champion or NAME@latest; "" is the whole store. A name of
    several things lists them.

    Raises
    ------
    McvrpError
        If there is nothing.
    """
    path = within(store, path)
    if not path:
        return _overview(store)
    if is_file(store, path):
        return describe_file(store, path)
    name, at, version = path.removeprefix("models/").partition("@")
    if at and "/" not in name:
        return describe_version(store, layout.checked_name("model", name), version)
    if store.exists(path):
        return _folder(store, path)
    places = places_of(store, path)
    if not places:
        hint = _hint(store, path)
        raise McvrpError(f"there is nothing at {store.url(path)}: {hint}")
    if len(places) == 1:
        return _folder(store, next(iter(places)))
    kinds = {kind: place for place, kind in places.items()}
    listed = table(("what", "mcvrp inspect"), list(kinds.items()))
    text = f"{path!r} is the name of {len(places)} things:\n\n{listed}"
    return Outcome({"name": path, "kinds": kinds}, text)


def within(store: Store, path: str) -> str:
    """Return ``path`` as the store names it, where it may be a whole address, or a path from here.

    Raises
    ------
    McvrpError
        If it leads out of the store.
    """
    path = path.rstrip("/")
    if path == store.uri or path.startswith(f"{store.uri}/"):
        return path.removeprefix(store.uri).strip("/")
    outside = "://" in path
    if not outside and "://" not in store.uri:
        place = Path(os.path.abspath(Path(path).expanduser()))
        if place.is_relative_to(store.uri):
            inside = "/".join(place.relative_to(store.uri).parts)
            # a name of the store wins over one from here
            return inside if path and is_there(store, inside) and not is_there(store, path) else path
        outside = Path(path).is_absolute()
    if outside:
        raise McvrpError(f"{path} is not in the store {store.uri}: say which with --store")
    return path


def is_there(store: Store, path: str) -> bool:
    """Return whether ``path`` is a file or folder of the store; what is no name in one is none."""
    try:
        return not path or store.exists(path)
    except McvrpError:
        return False


def places_of(store: Store, name: str) -> dict[str, str]:
    """Return the folders of all things named ``name`` with their kinds; {} where there is none."""
    try:
        layout.checked_name("thing", name)
    except McvrpError:
        return {}
    found = {f"{kind.folder}/{name}": kind.title for kind in KINDS}
    for folder in ("nights", "rounds"):
        found |= {f"{folder}/{model}/{name}": folder.removesuffix("s") for model in store.folders(folder)}
    return {place: kind for place, kind in found.items() if store.exists(place)}


def draw(store: Store, path: str, n: int, i: int, out: Path | None) -> Outcome:
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
    from mcvrp.storage.cities import find_city
    from mcvrp.storage.labels.dataset import Dataset
    from mcvrp.tasks.support.pictures import png
    from mcvrp.tasks.support.routes_picture import Panel, solutions

    dataset = dataset_of(store, within(store, path))
    if dataset is None:
        raise McvrpError(
            f"there is no dataset {path!r} in {store.url('labels')} to draw from: run mcvrp inspect labels"
        )
    label = Dataset.open(store, dataset).label(n, i)
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
    return Outcome({"file": str(target), **plain(label)}, text)


def _folder(store: Store, path: str) -> Outcome:
    folder, _, name = path.partition("/")
    kind = next((kind for kind in KINDS if kind.folder == folder), None)
    if kind and not name:
        return _things(store, kind)
    if kind and kind.describe and "/" not in name and kind.is_whole(store, name):
        return kind.describe(store, name)
    return describe_folder(store, path)


def _things(store: Store, kind: Kind) -> Outcome:
    """Describe all things of a kind, a row each."""
    document = {name: _sum(files) for name, files in _grouped(store.files(kind.folder), 1).items()}
    rows = [(f"{kind.folder}/{name}", *_sum_text(counted)) for name, counted in document.items()]
    return Outcome({kind.folder: document}, table((kind.title, "files", "bytes"), rows, (1, 2)))


def _overview(store: Store) -> Outcome:
    """Describe the whole store, a row a folder."""
    document, rows = dict[str, dict[str, Any]](), []
    for top, files in _grouped(store.files(""), 0).items():
        counted, names = _sum(files), [name for name in _grouped(files, 1) if name]
        document[top] = {**counted, "names": names}
        rows.append((top, *_sum_text(counted), _some(names)))
    if not document:
        return Outcome({"store": store.uri, "folders": {}}, f"there is nothing in {store.uri} yet")
    text = table(("folder", "files", "bytes", "holds"), rows, (1, 2))
    return Outcome({"store": store.uri, "folders": document}, f"{text}\n\n{store.uri}")


def _grouped(files: Sequence[StoredFile], depth: int) -> dict[str, list[StoredFile]]:
    """Return ``files`` by the part of their paths at ``depth``, "" where a path is shorter."""
    groups: dict[str, list[StoredFile]] = {}
    for file in files:
        groups.setdefault("".join(file.path.split("/")[depth : depth + 1]), []).append(file)
    return groups


def _sum(files: Sequence[StoredFile]) -> dict[str, int]:
    return {"files": len(files), "bytes": sum(file.size for file in files)}


def _sum_text(counted: Mapping[str, int]) -> list[str]:
    return [f"{count:,}" for count in counted.values()]


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _hint(store: Store, path: str) -> str:
    """Return what may have been meant, else what there is."""
    things = [f"{kind.folder}/{name}" for kind in KINDS for name in store.folders(kind.folder)]
    close = difflib.get_close_matches(path, things, _CLOSE)
    name = path.rsplit("/", 1)[-1]
    near = difflib.get_close_matches(name, {thing.split("/")[1] for thing in things}, _CLOSE)
    close += [thing for thing in things if thing.split("/")[1] in near and thing not in close]
    if close:
        return f"did you mean {', '.join(close[: 2 * _CLOSE])}?"
    return f"there is {_some(things)}" if things else "the store is empty, run mcvrp city create or import"
