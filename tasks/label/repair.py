"""Repair of a dataset: corrupt files are moved below `_corrupt` as they are, and their good rows staged."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from ray.exceptions import WorkerCrashedError

from mcvrp.model.errors import IncompleteError
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import files_by_size
from mcvrp.storage.labels.label_files import write_table
from mcvrp.storage.labels.verification import clear_faults, corrupt_files
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.plan import LabelDataset
from mcvrp.tasks.label.spec import Source
from mcvrp.tasks.label.verify_file import verify_file
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.support.ray_window import windowed

logger = logging.getLogger(__name__)

_MOST_NAMED = 10  # files in the log


@dataclass(frozen=True)
class _RepairContext:
    """Context of every worker; a file that is only ``suspected`` stays if all its rows are good."""

    store: Store
    source: Source
    suspected: bool = False


def repair_dataset(dataset: LabelDataset) -> None:
    """Move the corrupt files of ``dataset`` away, also those that `mcvrp verify` found."""
    store, name = dataset.store, dataset.spec.dataset
    corrupt = set(still_corrupt(dataset))
    if dataset.document.corrupt:
        corrupt.add(layout.label_spec(name))
    paths = sorted({*corrupt, *_without_footer(dataset, corrupt)})
    documents = [path for path in paths if not path.endswith(".parquet")]
    for path in documents:
        _moved(store, path, layout.corrupt(name, path))
        dataset.document = replace(dataset.document, corrupt=True)  # written again, also if it was readable
    repaired = [f"{path} was corrupt: it is recreated" for path in documents]
    repaired += _repair_tables(dataset, [path for path in paths if path not in documents])
    # After the files: a run that is killed before this finds them gone, and takes no other file for them.
    clear_faults(store, name, paths)
    _report(repaired)


def repair_sources(dataset: LabelDataset, paths: Collection[str]) -> int:
    """Move those of ``paths``, sources of unmerged shards, that have a wrong row away; return how many."""
    repaired = list(_repair_tables(dataset, sorted(paths), suspected=True))
    _report(repaired)
    return len(repaired)


def _repair_tables(dataset: LabelDataset, paths: Sequence[str], *, suspected: bool = False) -> Iterator[str]:
    """Move the label files at ``paths`` away, yielding a sentence for each."""
    if not paths:
        return
    context = _RepairContext(dataset.store, dataset.source, suspected)
    # In workers, not here: a corrupt file may crash the process that reads it, and must not take the driver.
    with ray_session(dataset.spec.workers) as workers:
        for path, kept in windowed(_move_away, paths, workers, context, context.store):
            if isinstance(kept, Exception):
                if not isinstance(kept, WorkerCrashedError):
                    why = type(kept).__name__
                    raise IncompleteError(f"{path} could not be checked ({why}): run the command again")
                # its readers crash: no row can be kept
                _moved(context.store, path, layout.corrupt(dataset.spec.dataset, path))
                kept = 0
            if kept is not None:
                yield f"{path} was corrupt: {kept:,} good rows kept, the others are labelled again"


def _report(repaired: Sequence[str]) -> None:
    for sentence in repaired[:_MOST_NAMED]:
        logger.warning(sentence)
    if len(repaired) > _MOST_NAMED:
        logger.warning(f"... and so were {len(repaired) - _MOST_NAMED:,} more files")


def still_corrupt(dataset: LabelDataset) -> Iterator[str]:
    """Yield the files that the last verification found corrupt and that have not changed since."""
    store = dataset.store
    for path, sha256 in corrupt_files(store, dataset.spec.dataset).items():
        data = store.find(path)
        if data is not None and hashlib.sha256(data).hexdigest() == sha256:
            yield path


def _without_footer(dataset: LabelDataset, corrupt: Collection[str]) -> Iterator[str]:
    """Yield the shards and staged files, except the ``corrupt``, whose footer cannot be read."""
    store, name = dataset.store, dataset.spec.dataset
    for folder in (layout.data_dir(name), layout.staging_dir(name)):
        for n, files in files_by_size(store, folder).items():
            files = [file for file in files if file.path.endswith(".parquet") and file.path not in corrupt]
            whole = {file.path for file in dataset.labels.label_files(n, files, skip_corrupt=True)}
            yield from (file.path for file in files if file.path not in whole)


def _move_away(path: str, context: _RepairContext) -> int | None:
    """Stage the good rows of a file, move it away, and return their number; None if it is good or gone."""
    store, source, recipe = context.store, context.source, context.source.recipe
    dataset, city = source.spec.dataset, source.city
    data = store.find(path)
    if data is None:  # also if a worker has died after the move
        return None
    report = verify_file(data, path, source)
    if context.suspected and report.footer and report.rows == report.footer.rows:
        return None
    kept = 0
    # Rows of another spec or city may be feasible and yet no labels of this dataset: none is kept.
    if report.footer and (report.footer.spec_hash, report.footer.city_id) == (recipe.spec_hash, city.city_id):
        n, table = report.footer.n, report.good_rows()
        for run in _runs(table):
            start = run["index"][0].as_py()
            chunk = layout.staged_chunk(dataset, n, start, start + run.num_rows)
            write_table(store, chunk, city, recipe.spec_hash, n, run)
        kept = table.num_rows
    # Last: a kill before this leaves the rows twice, which the merge resolves; after it, none would be left.
    _moved(store, path, layout.corrupt(dataset, path))
    return kept


def _moved(store: Store, path: str, to: str) -> None:
    if (data := store.find(path)) is not None:
        store.put(to, data)
        store.delete(path)


def _runs(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the runs of consecutive rows of ``table``."""
    index = table["index"].to_numpy().astype(np.int64)
    breaks = (np.flatnonzero(np.diff(index) != 1) + 1).tolist()
    for start, stop in pairwise([0, *breaks, len(index)]):
        if start < stop:
            yield table.slice(start, stop - start)
