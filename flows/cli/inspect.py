"""`mcvrp inspect`: anything in the store by a name or a path of any kind, described by who knows it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mcvrp.flows.cli.inspect_files import describe_file, describe_folder, is_file
from mcvrp.flows.cli.inspect_things import (
    describe_attention,
    describe_city,
    describe_dataset,
    describe_driven,
    describe_model,
    describe_nights,
    describe_rounds,
    describe_solution,
    describe_version,
)
from mcvrp.flows.cli.output import Outcome, plain, table
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.store.store import Store

_NAMED = 8  # things of a kind that are named; more are counted
_CLOSE = 3  # names that may have been meant


@dataclass(frozen=True)
class Kind:
    """A kind of thing: its folders lie in ``folder``, ``describe`` says what there is to say about one."""

    title: str
    folder: str
    describe: Callable[[Store, str], Outcome] | None = None


KINDS = (
    Kind("city", "cities", describe_city),
    Kind("dataset", "labels", describe_dataset),
    Kind("training run", "training"),
    Kind("model", "models", describe_model),
    Kind("attention models", "attention", describe_attention),
    Kind("benchmark", "benchmarks"),
    Kind("driven days", "driven", describe_driven),
    Kind("nights", "nights", describe_nights),
    Kind("rounds", "rounds", describe_rounds),
    Kind("routes", "solutions", describe_solution),
)


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
        raise McvrpError(f"there is nothing at {store.url(path)}{_hint(store, path)}")
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
    outside = McvrpError(f"{path} is not in the store {store.uri}: say which with --store")
    if "://" in store.uri:
        if "://" in path:
            raise outside
        return path
    if "://" in path:
        raise outside
    try:
        place = Path(os.path.abspath(Path(path).expanduser())).relative_to(store.uri).as_posix()
    except ValueError:
        if Path(path).is_absolute():
            raise outside from None
        return path
    place = "" if place == "." else place
    return place if path and is_there(store, place) and not is_there(store, path) else path


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
        raise McvrpError(f"there is no dataset {path!r} in {store.url('labels')} to draw from")
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
    if kind and kind.describe and "/" not in name and _is_whole(store, kind, name):
        return kind.describe(store, name)
    return describe_folder(store, path)


def _is_whole(store: Store, kind: Kind, name: str) -> bool:
    """Whether the folder ``name`` is what its kind says: one that is only begun is described by its files."""
    if kind.folder == "cities":
        return store.exists(layout.city_card(name))
    return kind.folder != "labels" or dataset_of(store, name) is not None


def _things(store: Store, kind: Kind) -> Outcome:
    """Describe all things of a kind, a row each."""
    files: dict[str, list[int]] = {}
    for file in store.files(kind.folder):
        files.setdefault(file.path.split("/")[1], []).append(file.size)
    document = {name: {"files": len(sizes), "bytes": sum(sizes)} for name, sizes in files.items()}
    rows = [(f"{kind.folder}/{name}", f"{len(s):,}", f"{sum(s):,}") for name, s in files.items()]
    return Outcome({kind.folder: document}, table((kind.title, "files", "bytes"), rows, (1, 2)))


def _overview(store: Store) -> Outcome:
    """Describe the whole store, a row a folder."""
    folders: dict[str, dict[str, list[int]]] = {}
    for file in store.files(""):
        top, _, rest = file.path.partition("/")
        folders.setdefault(top, {}).setdefault(rest.split("/")[0], []).append(file.size)
    document, rows = {}, []
    for top, things in folders.items():
        sizes = [size for each in things.values() for size in each]
        document[top] = {"files": len(sizes), "bytes": sum(sizes), "names": [name for name in things if name]}
        rows.append((top, f"{len(sizes):,}", f"{sum(sizes):,}", _some(things)))
    if not folders:
        return Outcome({"store": store.uri, "folders": {}}, f"there is nothing in {store.uri} yet")
    text = table(("folder", "files", "bytes", "holds"), rows, (1, 2))
    return Outcome({"store": store.uri, "folders": document}, f"{text}\n\n{store.uri}")


def _some(names: Mapping[str, object]) -> str:
    shown = [name for name in names if name][:_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if shown and more > 0 else "")


def _hint(store: Store, path: str) -> str:
    """Return what may have been meant, else what there is."""
    things = [f"{kind.folder}/{name}" for kind in KINDS for name in store.folders(kind.folder)]
    close = difflib.get_close_matches(path, things, _CLOSE)
    name = path.rsplit("/", 1)[-1]
    near = difflib.get_close_matches(name, {thing.split("/")[1] for thing in things}, _CLOSE)
    close += [thing for thing in things if thing.split("/")[1] in near and thing not in close]
    if close:
        return f"; did you mean {', '.join(close[: 2 * _CLOSE])}?"
    if things:
        more = f" and {len(things) - _NAMED:,} more" if len(things) > _NAMED else ""
        return f": there is {', '.join(things[:_NAMED])}{more}"
    return ": the store is empty"
