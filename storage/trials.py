"""Trials of a new champion (nights and rounds): paired costs, and a record that is written last."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pandas as pd
import pyarrow as pa

from mcvrp.storage import layout
from mcvrp.storage.documents import as_document
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.provenance import Provenance
from mcvrp.storage.store.store import Store


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
    provenance: Provenance | None = None

    @property
    def now(self) -> int:
        """Champion after the trial."""
        return self.challenger if self.applied else self.champion


def trial_records(store: Store, model: str, kind: str) -> list[TrialRecord]:
    """Return the records of all trials of ``model`` whose names begin with ``kind``, by number and name."""
    folder = layout.rounds_dir(model) if kind == layout.ROUND else layout.nights_dir(model)
    paths = [layout.trial_record(model, name) for name in store.folders(folder) if name.startswith(kind)]
    records = [
        _record(data, store.url(path))
        for path, data in zip(paths, in_parallel(store.find, paths), strict=True)
        if data is not None  # otherwise it is not decided
    ]
    return sorted(records, key=lambda record: (record.number, record.name))


def trial_record(store: Store, model: str, name: str) -> TrialRecord:
    """Return the record of the trial ``name``; McvrpError if there is none, or it is corrupt."""
    path = layout.trial_record(model, name)
    return _record(store.get(path), store.url(path))


def _record(data: bytes, where: str) -> TrialRecord:
    named, hint = "record of a night or round", "remove its folder"  # names come from folders
    return as_document(data, TrialRecord, where, named=named, hint=hint)


def write_record(store: Store, model: str, record: TrialRecord) -> TrialRecord:
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
