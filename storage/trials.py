"""Trials of a new champion (nights and rounds): paired costs, and a record that is written last."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import pandas as pd
import pyarrow as pa

from mcvrp.storage import layout
from mcvrp.storage.documents import as_document
from mcvrp.storage.packs import NAMED, Pack
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.store.parallel import in_parallel
from mcvrp.storage.store.store import Store, StoredFile

_NAMED = "record of a night or round"


@dataclass(frozen=True)
class TrialRecord:
    """Decision of one night or improvement round, on versions ``champion`` and ``challenger``."""

    name: str  # "night-" or "improve-", and a hash of the inputs
    number: int  # of the night of its model, or of the round of its loop, from 1
    champion: int
    challenger: int
    old: str  # dataset of the old labels
    promote: bool
    reasons: tuple[str, ...]
    days: tuple[str, ...] = ()  # nights: days of the training data, each with the checksum of its file
    loop: str = ""  # rounds: name of the loop
    applied: bool = False  # whether the promotion was carried out

    @property
    def now(self) -> int:
        """Champion after the trial."""
        return self.challenger if self.applied else self.champion


def trial_records(
    store: Store, model: str, kind: str, settle: Callable[[TrialRecord], TrialRecord] | None = None
) -> list[TrialRecord]:
    """Return the records of all trials of ``model`` whose names begin with ``kind``, by number and name.

    The holder of the lease gives ``settle``, which completes a trial and returns its final record: a pack
    then has those records, without their days, and later calls with ``settle`` read only new ones.
    """
    folder = layout.rounds_dir(model) if kind == layout.ROUND else layout.nights_dir(model)
    names = [name for name in store.folders(folder) if name.startswith(kind)]
    files = {name: StoredFile(layout.trial_record(model, name), 0, NAMED) for name in names}
    pack = Pack(store, layout.trial_pack(model, kind.strip("-"))) if settle else None
    packed = {name: content for name, file in files.items() if pack and (content := pack.get(file))}
    new = [name for name in names if name not in packed]
    contents = dict(zip(new, in_parallel(lambda name: store.find(files[name].path), new), strict=True))
    records = [
        as_document(content, TrialRecord, store.url(files[name].path), named=_NAMED, hint="remove it")
        for name, content in {**packed, **contents}.items()
        if content is not None
    ]
    records.sort(key=lambda record: (record.number, record.name))
    if pack and settle and any(content is not None for content in contents.values()):
        records = [record if record.name in packed else settle(record) for record in records]
        final = {files[record.name]: asdict(replace(record, days=())) for record in records}
        pack.save({file: json.dumps(record).encode() for file, record in final.items()})
    return records


def trial_record(store: Store, model: str, name: str) -> TrialRecord:
    """Return the record of the trial ``name``; McvrpError if there is none, or it is corrupt."""
    path = layout.trial_record(model, name)
    return as_document(store.get(path), TrialRecord, store.url(path), named=_NAMED, hint="remove it")


def write_record(store: Store, model: str, record: TrialRecord) -> TrialRecord:
    """Write the record of a trial, and return it."""
    store.put_json(layout.trial_record(model, record.name), asdict(record))
    return record


def write_pairs(store: Store, model: str, name: str, pairs: pd.DataFrame) -> None:
    """Write the costs of champion and challenger, one row per instance."""
    write_parquet(store, layout.trial_pairs(model, name), pa.Table.from_pandas(pairs, preserve_index=False))


def read_pairs(store: Store, model: str, name: str) -> pd.DataFrame | None:
    """Return the paired costs, None before the comparison; McvrpError if they are corrupt."""
    path = layout.trial_pairs(model, name)
    if not store.exists(path):
        return None
    frame: pd.DataFrame = read_parquet(store, path).to_pandas()
    return frame
