"""What became of each night: the comparison as a table, and a record of what was decided, written last."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass, replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from model.errors import McvrpError, reason
from storage import layout
from storage.store import Store
from storage.store_errors import SPOILT

_RECORD, _PAIRS = "night.json", "comparison.parquet"


@dataclass(frozen=True)
class NightRecord:
    """What one night decided.

    Parameters
    ----------
    night
        Its name, a hash of what went in.
    number
        Nights of this model are counted from 1.
    champion, challenger
        The versions that were compared.
    days
        The days that were learned from, each with the checksum of its file.
    old
        The dataset that old labels were drawn from.
    promote
        Whether the challenger was to be promoted, ``reasons`` why or why not.
    applied
        Whether the alias was moved, where it was to be.
    """

    night: str
    number: int
    champion: int
    challenger: int
    days: tuple[str, ...]
    old: str
    promote: bool
    reasons: tuple[str, ...]
    applied: bool = False


def last_night(store: Store, model: str) -> NightRecord | None:
    """Return the record of the last night of ``model``, None before the first."""
    paths = [path for path in store.list(layout.nights_dir(model)) if path.endswith(f"/{_RECORD}")]
    return max((_record(store, path) for path in paths), key=lambda record: record.number, default=None)


def write_record(store: Store, model: str, record: NightRecord) -> NightRecord:
    """Write what a night decided, and return it."""
    store.put_json(f"{layout.night_dir(model, record.night)}/{_RECORD}", asdict(record))
    return record


def mark_applied(store: Store, model: str, record: NightRecord) -> NightRecord:
    """Write down that the alias was moved, and return the record that says so."""
    return write_record(store, model, replace(record, applied=True))


def _record(store: Store, path: str) -> NightRecord:
    document = store.get_json(path)
    try:
        lists = {name: tuple(document[name]) for name in ("days", "reasons")}
        return NightRecord(**{**document, **lists})
    except (KeyError, TypeError) as error:
        raise McvrpError(f"{store.url(path)} is no record of a night ({error}): remove it") from error


def write_pairs(store: Store, model: str, night: str, pairs: pd.DataFrame) -> None:
    """Write the costs of champion and challenger, a row an instance."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(pairs, preserve_index=False), buffer, compression="zstd")
    store.put(f"{layout.night_dir(model, night)}/{_PAIRS}", buffer.getvalue())


def read_pairs(store: Store, model: str, night: str) -> pd.DataFrame | None:
    """Return the costs that were compared, None where they were not yet; McvrpError if they are spoilt."""
    path = f"{layout.night_dir(model, night)}/{_PAIRS}"
    if not store.exists(path):
        return None
    try:
        frame: pd.DataFrame = pq.read_table(io.BytesIO(store.get(path))).to_pandas()
    except SPOILT as error:
        raise McvrpError(f"{store.url(path)} cannot be read ({reason(error)}): remove it") from error
    return frame
