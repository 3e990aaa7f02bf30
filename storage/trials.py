"""Trials of a new champion, by night or round: the costs that were compared, a record written last."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pandas as pd
import pyarrow as pa

from mcvrp.storage import layout
from mcvrp.storage.documents import read_document
from mcvrp.storage.parquet import read_parquet, write_parquet
from mcvrp.storage.store.store import Store


@dataclass(frozen=True)
class TrialRecord:
    """Decision of one night, or of one round of improving.

    Parameters
    ----------
    name
        A hash of what went in, behind "night-" or "improve-".
    number
        Nights of a model are counted from 1, and so are the rounds of a loop.
    champion, challenger
        The versions that were compared.
    old
        The dataset that old labels were drawn from.
    promote
        Whether the challenger was to be promoted, ``reasons`` why or why not.
    days
        The days that a night learned from, each with the checksum of its file.
    loop
        Which loop a round belongs to.
    applied
        Whether the alias was moved, where it was to be.
    """

    name: str
    number: int
    champion: int
    challenger: int
    old: str
    promote: bool
    reasons: tuple[str, ...]
    days: tuple[str, ...] = ()
    loop: str = ""
    applied: bool = False

    @property
    def now(self) -> int:
        """The version that was champion afterwards."""
        return self.challenger if self.applied else self.champion


def trial_records(store: Store, model: str, kind: str) -> list[TrialRecord]:
    """Return the records of all trials of ``model`` whose names begin with ``kind``, by number and name."""
    folder = layout.rounds_dir(model) if kind == layout.ROUND else layout.nights_dir(model)
    names = [name for name in store.folders(folder) if name.startswith(kind)]
    paths = [layout.trial_record(model, name) for name in names]
    records = [
        read_document(store, path, TrialRecord, named="record of a night or round", hint="remove it")
        for path in paths
        if store.exists(path)
    ]
    return sorted(records, key=lambda record: (record.number, record.name))


def write_record(store: Store, model: str, record: TrialRecord) -> TrialRecord:
    """Write what a trial decided, and return it."""
    store.put_json(layout.trial_record(model, record.name), asdict(record))
    return record


def write_pairs(store: Store, model: str, name: str, pairs: pd.DataFrame) -> None:
    """Write the costs of champion and challenger, a row an instance."""
    write_parquet(store, layout.trial_pairs(model, name), pa.Table.from_pandas(pairs, preserve_index=False))


def read_pairs(store: Store, model: str, name: str) -> pd.DataFrame | None:
    """Return the costs that were compared, None where they were not yet; McvrpError if they are corrupt."""
    path = layout.trial_pairs(model, name)
    if not store.exists(path):
        return None
    frame: pd.DataFrame = read_parquet(store, path).to_pandas()
    return frame
