"""Repair of a dataset: files that are corrupt are taken out, their good rows kept.

Nothing is thrown away: a file goes below `_corrupt` as it is, its good rows are staged, and what
is missing then is labelled like anything else that is missing.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.files import write_table
from mcvrp.storage.labels.verification import clear_faults, corrupt_files
from mcvrp.storage.store.parsing import parse_json
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import Source
from mcvrp.tasks.label.verify_file import verify_file
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.ray_window import windowed

logger = logging.getLogger(__name__)

_SAID = 10  # files that are named one by one
_GROWING = ("smallest", "largest", "count")  # of a spec: what later runs add to


@dataclass(frozen=True)
class _RepairContext:
    """Context of every worker; a file that is only ``suspected`` is left where its rows are all right."""

    store: Store
    source: Source
    suspected: bool = False


def repair_dataset(dataset: Dataset, source: Source) -> int:
    """Take out of ``dataset`` what is corrupt, or found so by `mcvrp verify`; return the files.

    To be called by whoever holds the dataset's lease. A label that proves right is kept, with the
    time that it took.
    """
    store, spec = dataset.store, source.spec
    corrupt = set(still_corrupt(store, spec.dataset))
    if spec_corrupt(store, spec.dataset):
        corrupt.add(layout.label_spec(spec.dataset))
    paths = sorted({*corrupt, *_without_footer(dataset, corrupt)})
    tables = [path for path in paths if path.endswith(".parquet")]
    repaired: list[str] = []
    for path in paths:
        if path not in tables:
            store.move(path, layout.corrupt(spec.dataset, path))
            repaired.append(f"{path} was corrupt: it is made anew")
    repaired += _repair_tables(_RepairContext(store, source), tables)
    clear_faults(store, spec.dataset, paths)
    return _report(repaired)


def repair_sources(store: Store, source: Source, paths: Collection[str]) -> int:
    """Take out the label files at ``paths`` with a row that is not right; return how many those are.

    For shards that could not be merged of these files; to be called as `repair_dataset`.
    """
    context = _RepairContext(store, source, suspected=True)
    return _report(list(_repair_tables(context, sorted(paths))))


def _repair_tables(context: _RepairContext, paths: Sequence[str]) -> Iterator[str]:
    """Take out the label files at ``paths``, yielding a sentence for each."""
    if not paths:
        return
    with ray_session(context.source.spec.workers) as workers:
        for path, kept in windowed(_take_out, paths, workers, context, context.store):
            if kept is None:
                continue
            rows = kept if isinstance(kept, int) else 0
            if not isinstance(kept, int):  # whoever reads it dies: keep it for people alone
                context.store.move(path, layout.corrupt(context.source.spec.dataset, path))
            yield f"{path} was corrupt: {rows:,} good rows kept, the others are labelled again"


def _report(repaired: Sequence[str]) -> int:
    for sentence in repaired[:_SAID]:
        logger.warning(sentence)
    if len(repaired) > _SAID:
        logger.warning(f"... and so were {len(repaired) - _SAID:,} more files")
    return len(repaired)


def spec_corrupt(store: Store, dataset: str) -> bool:
    """Return whether there is a spec with the dataset that is no JSON object, or has no sizes and count."""
    path = layout.label_spec(dataset)
    if not store.exists(path):
        return False
    try:
        spec = parse_json(store.get(path))
    except ValueError:
        return True
    return not (isinstance(spec, dict) and all(type(spec.get(name)) is int for name in _GROWING))


def still_corrupt(store: Store, dataset: str) -> Iterator[str]:
    """Yield the files that the last report finds corrupt and that are still what it saw."""
    for path, sha256 in corrupt_files(store, dataset).items():
        if store.exists(path) and hashlib.sha256(store.get(path)).hexdigest() == sha256:
            yield path


def _without_footer(dataset: Dataset, corrupt: Collection[str]) -> Iterator[str]:
    """Yield the shards and staged files, besides the ``corrupt``, whose footer cannot be read."""
    store = dataset.store
    for folder in (layout.data_dir(dataset.name), layout.staging_dir(dataset.name)):
        for name in store.folders(folder):
            if (n := layout.size_of(name)) is not None:
                files = [file for file in store.files(f"{folder}/{name}") if file.path.endswith(".parquet")]
                files = [file for file in files if file.path not in corrupt]
                whole = {file.path for file in dataset.label_files(n, files, skip_corrupt=True)}
                yield from (file.path for file in files if file.path not in whole)


def _take_out(path: str, context: _RepairContext) -> int | None:
    """Stage the good rows of the file at ``path``, move it away; return how many rows those are.

    None where it is only suspected, and right, or not there.
    """
    store, source, recipe = context.store, context.source, context.source.recipe
    dataset, city = source.spec.dataset, source.city
    if context.suspected and not store.exists(path):
        return None
    report = verify_file(store.get(path), path, source)
    if context.suspected and report.footer and report.rows == report.footer.rows:
        return None
    kept = 0
    if report.footer and (report.footer.spec_hash, report.footer.city_id) == (recipe.spec_hash, city.city_id):
        n, table = report.footer.n, report.good_rows()
        for run in _runs(table):
            start = run["index"][0].as_py()
            chunk = layout.staged_chunk(dataset, n, start, start + run.num_rows)
            write_table(store, chunk, city, recipe.spec_hash, n, run)
        kept = table.num_rows
    store.move(path, layout.corrupt(dataset, path))
    return kept


def _runs(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the runs of consecutive rows of ``table``."""
    index = table["index"].to_numpy().astype(np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(index) != 1) + 1).tolist(), len(index)]
    for start, stop in pairwise(bounds):
        if start < stop:
            yield table.slice(start, stop - start)
