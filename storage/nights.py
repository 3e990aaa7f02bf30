"""Nights of a model: paired costs of champion and challenger, and a record that is written last."""

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
class NightRecord:
    """Decision of one night, on versions ``champion`` and ``challenger``."""

    name: str  # "night-", and a hash of the inputs
    number: int  # of the night of its model, from 1
    champion: int
    challenger: int
    old: str  # dataset of the old labels
    promote: bool
    reasons: tuple[str, ...]
    days: tuple[str, ...]  # of the training data, each with the checksum of its file
    applied: bool = False  # whether the promotion was carried out
    provenance: Provenance | None = None

    @property
    def now(self) -> int:
        """Champion after the night."""
        return self.challenger if self.applied else self.champion


def night_records(store: Store, model: str) -> list[NightRecord]:
    """Return the records of all nights of ``model``, by number and name; McvrpError if one is corrupt."""
    names = [name for name in store.folders(layout.nights_dir(model)) if name.startswith(layout.NIGHT)]
    paths = [layout.night_record(model, name) for name in names]
    records = [
        as_document(data, NightRecord, store.url(path), named="record of a night", hint="remove its folder")
        for path, data in zip(paths, in_parallel(store.find, paths), strict=True)
        if data is not None  # otherwise it is not decided
    ]
    return sorted(records, key=lambda record: (record.number, record.name))


def write_record(store: Store, model: str, record: NightRecord) -> NightRecord:
    store.put_json(layout.night_record(model, record.name), asdict(record))
    return record


def write_pairs(store: Store, model: str, name: str, pairs: pd.DataFrame) -> None:
    """Write the costs of champion and challenger, one row per instance."""
    write_parquet(store, layout.night_pairs(model, name), pa.Table.from_pandas(pairs, preserve_index=False))


def read_pairs(store: Store, model: str, name: str) -> pd.DataFrame | None:
    """Return the paired costs, None before the comparison; McvrpError if they are corrupt."""
    path = layout.night_pairs(model, name)
    if not store.exists(path):
        return None
    frame: pd.DataFrame = read_parquet(store, path).to_pandas()
    return frame
