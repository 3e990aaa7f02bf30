"""Verification of a dataset from its bytes: every file on Ray, then the properties of all files together.

Changes nothing, unless bad files are to be deleted: `mcvrp label` makes them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mcvrp.model.errors import McvrpError, alternatives, reason
from mcvrp.storage import layout
from mcvrp.storage.cities import find_city
from mcvrp.storage.labels.dataset import RowFile, list_files, without_merged
from mcvrp.storage.labels.manifest import read_manifest
from mcvrp.storage.labels.overlap import dataset_keys, other_datasets
from mcvrp.storage.labels.schema import Footer
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.lease import active_owner
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.plan import gaps
from mcvrp.tasks.label.spec import LabelSpec, Source, of_trial, stored_spec
from mcvrp.tasks.label.verify_file import verify_file
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.ray_window import windowed

_MOST_SHARED = 10  # instances per size that two datasets share; more are counted


@dataclass(frozen=True)
class FileFault:
    """A bad file: ``what`` is wrong with it, as a sentence without its subject."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


@dataclass(frozen=True)
class VerificationReport:
    """Findings on a dataset with ``rows`` labels in good ``files``."""

    dataset: str
    rows: int
    files: int
    faults: tuple[FileFault, ...] = ()
    # rows of the spec in no good file: size, first, last (excluded)
    missing: tuple[tuple[int, int, int], ...] = ()
    absent: int = 0  # rows in good files without a label
    shared: tuple[str, ...] = ()  # instances that a dataset of another split has, too, a sentence each
    unchecked: tuple[str, ...] = ()  # checks that could not be made, one sentence each
    deleted: bool = False  # the bad files were removed

    @property
    def good(self) -> bool:
        return not (self.faults or self.missing or self.absent or self.shared)

    @property
    def missing_rows(self) -> int:
        return sum(stop - start for _, start, stop in self.missing)


@dataclass(frozen=True)
class _VerifyContext:
    """Context of every worker: the store, the spec and city, the datasets of other splits, the manifest."""

    store: Store
    source: Source
    others: tuple[str, ...]
    manifest: dict[str, Any] | None


def verify_dataset(
    store: Store, dataset: str, *, workers: int | None = None, delete: bool = False
) -> VerificationReport:
    """Verify every label of ``dataset``, and ``delete`` the files that are bad, or only report them.

    ``workers`` is the number of cores (default: all). Raises McvrpError if there is no such dataset, its spec
    is missing or corrupt, a night or round made it, or its city is not in the store.
    """
    if not store.list(layout.label_dir(dataset)):
        others = alternatives(dataset, store.folders("labels"))
        where = store.url("labels")
        raise McvrpError(f"there is no dataset {dataset!r} in {where}{others}: run mcvrp label")
    if of_trial(store, dataset):
        raise McvrpError(
            f"dataset {dataset!r} belongs to a night or round and has no spec to verify it by: verify the "
            f"datasets that it was made from, as mcvrp inspect {layout.label_dir(dataset)} shows them"
        )
    spec, city_id = stored_spec(store, dataset)
    source = Source(spec, find_city(store, city_id))
    with ray_session(workers) as cores:
        return _verify(store, source, cores, delete=delete)


def _verify(store: Store, source: Source, cores: int, *, delete: bool) -> VerificationReport:
    dataset, unchecked = source.spec.dataset, list[str]()
    if owner := active_owner(store, layout.driver_lease(dataset)):
        unchecked.append(f"it is being labelled by {owner}, or was: missing labels may still be made")
    files = list_files(store, dataset)
    manifest = _manifest(store, dataset, unchecked)
    others = other_datasets(store, source.city.city_id, source.spec.split)
    context = _VerifyContext(store, source, tuple(others), manifest)
    results = dict(_verified(context, files, cores))
    faults = [FileFault(path, result) for path, result in results.items() if isinstance(result, str)]
    bad = {fault.path for fault in faults}
    good = {n: without_merged([f for f in files[n] if f.path not in bad]) for n in files}
    for before, file in (pair for n in good for pair in pairwise(good[n])):
        if file.start < before.stop:  # of two drivers at once: `mcvrp label` fills the gap
            faults.append(FileFault(file.path, f"has rows of {before.path}, too"))
    if delete:
        store.delete_files(sorted({fault.path for fault in faults}))
    kept = [results[file.path] for n in good for file in good[n]]
    footers = [result for result in kept if isinstance(result, Footer)]
    shared = list[str]()
    for n, result in _compared(context, [n for n in good if good[n]], cores):
        if isinstance(result, list):
            shared += result
        else:
            unchecked.append(f"n={n} could not be compared with datasets of other splits: {result}")
    return VerificationReport(
        dataset,
        rows=sum(footer.rows for footer in footers),
        files=len(footers),
        faults=tuple(sorted(faults, key=lambda fault: fault.path)),
        missing=tuple(_missing(source.spec, good)),
        absent=sum(len(footer.absent) for footer in footers),
        shared=tuple(shared),
        unchecked=tuple(unchecked),
        deleted=delete and bool(faults),
    )


def _missing(spec: LabelSpec, files: dict[int, list[RowFile]]) -> Iterator[tuple[int, int, int]]:
    yield from ((n, *gap) for n in spec.sizes for gap in gaps(files.get(n, []), 0, spec.count))


def _manifest(store: Store, dataset: str, unchecked: list[str]) -> dict[str, Any] | None:
    """Return the manifest with the checksums of files; without one, add that to ``unchecked``."""
    try:
        if (manifest := read_manifest(store, dataset)) is not None:
            return manifest
        unchecked.append("checksums could not be compared: there is no manifest")
    except StoreError:
        raise
    except McvrpError as error:
        unchecked.append(f"checksums could not be compared: {error}")
    return None


def _verified(
    context: _VerifyContext, files: dict[int, list[RowFile]], cores: int
) -> Iterator[tuple[str, Footer | str | None]]:
    """Yield each path with the result of `verify_file`, None if the file is gone."""
    rows = bad = 0
    paths = [file.path for n in files for file in files[n]]
    with Progress(f"verify {context.source.spec.dataset}", len(paths), "files") as progress:
        for path, result in windowed(_verify_one, paths, cores, context, context.store):
            if isinstance(result, Exception):
                result = f"crashes its readers ({type(result).__name__})"
            rows += result.rows if isinstance(result, Footer) else 0
            bad += isinstance(result, str)
            progress.advance(note=f"{rows:,} labels verified" + (f", {bad:,} bad files" if bad else ""))
            yield path, result


def _verify_one(path: str, context: _VerifyContext) -> Footer | str | None:
    data = context.store.find(path)
    return None if data is None else verify_file(data, path, context.source, context.manifest)


def _compared(
    context: _VerifyContext, sizes: Sequence[int], cores: int
) -> Iterator[tuple[int, str | list[str]]]:
    """Yield each size with the instances that a dataset of another split has, too, or why it is unknown."""
    if not context.others:
        return
    name = f"verify {context.source.spec.dataset}, other splits"
    with Progress(name, len(sizes), "sizes") as progress:
        for n, result in windowed(_shared, sizes, cores, context, context.store):
            progress.advance()
            yield n, result if isinstance(result, list | str) else reason(result)


def _shared(n: int, context: _VerifyContext) -> list[str] | str:
    """Return the instances of size ``n`` that another dataset has, too, and where."""
    shared: list[str] = []
    try:
        ours = dataset_keys(context.store, context.source.spec.dataset, n)
        for other in context.others:
            here, elsewhere = ours.shared(dataset_keys(context.store, other, n))
            pairs = sorted(zip(here.tolist(), elsewhere.tolist(), strict=True))
            what = "instance (n={}, i={}) is instance (n={}, i={}) of dataset {!r}"
            shared += [what.format(n, i, n, j, other) for i, j in pairs]
    except StoreError:
        raise
    except McvrpError as error:  # a corrupt file here has its own fault: the other sizes are still compared
        return str(error)
    if len(shared) > _MOST_SHARED:
        more = f"and {len(shared) - _MOST_SHARED:,} more instances of n={n} are in another split"
        shared = [*shared[:_MOST_SHARED], more]
    return shared
