"""The documents of the store that have a version of their schema, and what is done with another one.

| document | where | version | older ones |
|---|---|---|---|
| city's card | cities/NAME/city.json | 2 | 1 had neither names nor ranges: it is a synthetic city |
| label file | labels/NAME/data/n=020/*.parquet, its footer | 2 | 1 was never published: label again |
| manifest of a dataset | labels/NAME/manifest.json | 2 | made anew from the shards |
| checkpoint | training/RUN/PHASE/step-*/state.json | 1 | there are none |
| metrics | training/RUN/PHASE/metrics.parquet | 1 | columns that came later are filled in |
| model's card | models/NAME/0001/model.json | 1 | fields that came later are filled in |
| attention model's card | attention/NAME/n=020/model.json | 1 | there are none |
| alias of a model | models/NAME/champion.json | 2 | 1 had no history: read, the next move writes 2 |
| benchmark's parts and results | benchmarks/NAME/**.parquet | 1 | columns that came later are filled in |

A document without a version is of version 1. A newer one is never guessed at: the sentence says so. Nor is
a dataset or training run gone on with in which an earlier version gave a name: see `refuse_earlier`.
The copies of labels that training reads have a version of their own: of another one they are made anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mcvrp.model.errors import McvrpError, shown
from mcvrp.storage.store.store import Store

_RENAMED = {  # by top folder: the name of before, the name of today
    "labels": {
        "verdict.json": "verification.json",
        "_condemned": "_corrupt",
        "shards.parquet": "shards.pq",
        "statistics.parquet": "statistics.pq",
    },
    "training": {"outlived.json": "models_removed.json"},
}
_SIZE = re.compile(r"n=\d{3,}")  # a size's folder, which lay beside the card
_KEY = b"mcvrp_schema_version"


class TooNew(McvrpError):
    """A document was written by a newer version of this program."""


@dataclass(frozen=True)
class Schema:
    """A kind of document: its name for people, the version that is written, the field that holds it."""

    document: str
    version: int
    field: str = "schema_version"


CITY = Schema("a city's card", 2)
LABEL = Schema("a file of labels", 2)
MANIFEST = Schema("a dataset's manifest", 2, "manifest_version")
CHECKPOINT = Schema("a checkpoint", 1, "format")
METRICS = Schema("training metrics", 1)
MODEL = Schema("a model's card", 1, "format")
ATTENTION = Schema("an attention model's card", 1, "format")
ALIAS = Schema("an alias of a model", 2)
BENCHMARK = Schema("benchmark results", 1)


def refuse_newer(schema: Schema, found: int, where: str) -> None:
    """Raise TooNew if the document at the address ``where`` is of version ``found``, and that is to come."""
    if found > schema.version:
        raise TooNew(
            f"{where} is {schema.document} of schema version {found}, written by a newer version of mcvrp, "
            f"this one reads {schema.version}: update mcvrp"
        )


def refuse_earlier(store: Store, folder: str) -> None:
    """Raise McvrpError if a name in ``folder``, a dataset's or a training run's, is of an earlier version."""
    top = folder.split("/")[0]
    if top == "labels" and any(_SIZE.fullmatch(name) for name in store.folders(folder)):
        raise McvrpError(
            f"{store.url(folder)} was written by an earlier version of mcvrp: make a folder 'data' there, "
            "move the folders n=* into it, and remove shards.parquet, statistics.parquet and README.md, "
            "which mcvrp label makes anew"
        )
    for before, today in _RENAMED[top].items():
        if store.exists(path := f"{folder}/{before}"):
            raise McvrpError(
                f"{store.url(path)} was written by an earlier version of mcvrp, this one calls it {today}: "
                "rename it, or remove it"
            )


def require_readable(schema: Schema, document: Mapping[str, Any], where: str) -> int:
    """Return the version of ``document``, 1 where it names none.

    Raises
    ------
    TooNew
        If it is newer than what this program knows.
    ValueError
        If it is no version.
    """
    found = document.get(schema.field, 1)
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise ValueError(f"{schema.field} {shown(found)} is no version")
    refuse_newer(schema, found, where)
    return found


def stamped(table: pa.Table, schema: Schema) -> pa.Table:
    """Return ``table`` with the version of ``schema`` in its footer."""
    there = table.schema.metadata or {}
    return table.replace_schema_metadata({**there, _KEY: str(schema.version).encode()})


def require_readable_table(schema: Schema, table: pa.Table, where: str) -> pa.Table:
    """Return ``table`` without the version in its footer; TooNew, ValueError as in `require_readable`."""
    there = dict(table.schema.metadata or {})
    found = int(there.pop(_KEY, b"1"))
    refuse_newer(schema, found, where)
    return table.replace_schema_metadata(there or None)
