"""Verification of a dataset from its bytes: every file on Ray, then whether rows are missing or twice there.

Changes nothing, unless bad files are to be deleted: `mcvrp label` makes them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mcvrp.model.errors import McvrpError, alternatives
from mcvrp.storage import layout
from mcvrp.storage.cities import find_city
from mcvrp.storage.labels.dataset import RowFile, list_files, misnamed, without_merged
from mcvrp.storage.labels.manifest import read_manifest
from mcvrp.storage.labels.schema import Footer
from mcvrp.storage.store.errors import StoreError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.plan import gaps
from mcvrp.tasks.label.spec import LabelSpec, Source, of_trial, stored_spec
from mcvrp.tasks.label.verify_file import Misplaced, verify_file
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.support.ray_session import ray_session, windowed
from mcvrp.tasks.support.text import counted


@dataclass(frozen=True)
class FileFault:
    """A bad file: ``what`` is wrong with it, as a sentence without its subject."""

    path: str
    what: str
    misnamed: bool = False  # whole but of another name or version, or no label file: never removed

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
    deleted: bool = False  # the bad files were removed
    manifest: bool = True  # there is one, with whose checksums files were compared
    settings: str = ""  # of the preset for the whole dataset, as options of `mcvrp label`

    @property
    def good(self) -> bool:
        return not (self.faults or self.missing or self.absent)

    @property
    def missing_rows(self) -> int:
        return sum(stop - start for _, start, stop in self.missing)


@dataclass(frozen=True)
class _VerifyContext:
    """Context of every worker: the store, the spec and city, the manifest."""

    store: Store
    source: Source
    manifest: dict[str, Any] | None


def verify_dataset(
    store: Store, dataset: str, *, workers: int | None = None, delete: bool = False
) -> VerificationReport:
    """Verify every label of ``dataset``, and ``delete`` the files that are bad, or only report them.

    ``workers`` is the number of cores (default: all). Raises McvrpError if there is no such dataset, its spec
    is missing or corrupt, a night or round made it, or its city is not in the store; StoreError if a file
    cannot be read, which may be good.
    """
    if not store.list(layout.label_dir(dataset)):
        others = alternatives(dataset, store.folders("labels"))
        raise McvrpError(
            f"there is no dataset {dataset!r} in {store.url('labels')}{others}: run mcvrp label with its "
            "preset"
        )
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
    dataset, foreign = source.spec.dataset, list[str]()
    files = list_files(store, dataset, foreign=foreign)
    faults = [FileFault(path, misnamed(store, dataset, path), misnamed=True) for path in foreign]
    context = _VerifyContext(store, source, _manifest(store, dataset, faults))
    results = dict(_verified(context, files, cores))
    for path, result in results.items():
        if isinstance(result, str):
            faults.append(FileFault(path, result, misnamed=isinstance(result, Misplaced)))
    bad = {fault.path for fault in faults}
    good = {n: without_merged([f for f in files[n] if f.path not in bad]) for n in files}
    for before, file in (pair for n in good for pair in pairwise(good[n])):
        if file.start < before.stop:  # of two drivers at once: `mcvrp label` fills the gap
            faults.append(FileFault(file.path, f"has rows of {before.path}, too"))
    if delete:
        store.delete_files(sorted(fault.path for fault in faults if not fault.misnamed))
    kept = [results[file.path] for n in good for file in good[n]]
    footers = [result for result in kept if isinstance(result, Footer)]
    return VerificationReport(
        dataset,
        rows=sum(footer.rows for footer in footers),
        files=len(footers),
        faults=tuple(sorted(faults, key=lambda fault: fault.path)),
        missing=tuple(_missing(source.spec, good)),
        absent=sum(len(footer.absent) for footer in footers),
        deleted=delete and any(not fault.misnamed for fault in faults),
        manifest=context.manifest is not None,
        settings=_settings(source.spec),
    )


def _settings(spec: LabelSpec) -> str:
    count = "held_out" if spec.split == "valid" and spec.dataset.endswith("-held-out") else "count"
    values = {"smallest": spec.smallest, "largest": spec.largest, count: spec.count}
    return " ".join(f"--set label.{name}={value}" for name, value in values.items())


def _missing(spec: LabelSpec, files: dict[int, list[RowFile]]) -> Iterator[tuple[int, int, int]]:
    yield from ((n, *gap) for n in spec.sizes for gap in gaps(files.get(n, []), 0, spec.count))


def _manifest(store: Store, dataset: str, faults: list[FileFault]) -> dict[str, Any] | None:
    """Return the manifest with the checksums of files, if there is one; one that is corrupt is a fault."""
    try:
        return read_manifest(store, dataset)
    except StoreError:
        raise
    except McvrpError as error:
        path = layout.manifest(dataset)
        faults.append(FileFault(path, str(error).removeprefix(f"{store.url(path)} ")))
        return None


def _verified(
    context: _VerifyContext, files: dict[int, list[RowFile]], cores: int
) -> Iterator[tuple[str, Footer | str | None]]:
    """Yield each path with the result of `_verify_one`, a sentence if its reader crashes."""
    rows = bad = 0
    paths = [file.path for n in files for file in files[n]]
    with Progress(f"verify {context.source.spec.dataset}", len(paths), "files") as progress:
        for path, result in windowed(_verify_one, paths, cores, context):
            if isinstance(result, Exception):
                result = f"crashes its readers ({type(result).__name__})"
            rows += result.rows if isinstance(result, Footer) else 0
            bad += isinstance(result, str) and not isinstance(result, Misplaced)
            faulty = f", {counted(bad, 'bad file')}" if bad else ""
            progress.advance(note=f"{counted(rows, 'label')} verified{faulty}")
            yield path, result


def _verify_one(path: str, context: _VerifyContext) -> Footer | str | None:
    """Return the result of `verify_file`, None if the file is gone."""
    data = context.store.find(path)
    return None if data is None else verify_file(data, path, context.source, context.manifest)
