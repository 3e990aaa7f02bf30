"""Schema versions of the documents in the store, and how documents of other versions are handled.

| document | path | version | older versions |
|---|---|---|---|
| city card | cities/NAME/city.json | 2 | 1 had neither names nor ranges: read as a synthetic city |
| label file | labels/NAME/data/n=020/*.parquet, in its footer | 2 | 1 was never published: label again |
| manifest of a dataset | labels/NAME/manifest.json | 2 | rebuilt from the shards |
| checkpoint | training/RUN/PHASE/step-*/state.json | 1 | none |
| metrics | training/RUN/PHASE/metrics.parquet | 1 | none |
| model card | models/NAME/0001/model.json | 1 | fields added later get their defaults |
| attention model card | attention/NAME/n=020/model.json | 1 | none |
| alias of a model | models/NAME/champion.json | 2 | 1 was never published |
| benchmark parts and results | benchmarks/NAME/**.parquet | 1 | columns added later get their defaults |

A document without a version is of version 1. A newer document is refused, never interpreted.
The local cache of labels has a version of its own: a cache of another version is rebuilt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mcvrp.model.errors import McvrpError, shown

_KEY = b"mcvrp_schema_version"


class TooNew(McvrpError):
    """A document was written by a newer version of mcvrp."""


@dataclass(frozen=True)
class Schema:
    """A kind of document: its name in messages, its current version, and the field that holds the version."""

    document: str
    version: int
    field: str = "schema_version"


CITY = Schema("a city card", 2)
LABEL = Schema("a label file", 2)
MANIFEST = Schema("a dataset manifest", 2, "manifest_version")
CHECKPOINT = Schema("a checkpoint", 1, "format")
METRICS = Schema("a table of training metrics", 1)
MODEL = Schema("a model card", 1, "format")
ATTENTION = Schema("an attention model card", 1, "format")
ALIAS = Schema("an alias of a model", 2)
BENCHMARK = Schema("a table of benchmark results", 1)


def refuse_newer(schema: Schema, version: int, url: str) -> None:
    """Raise TooNew if ``version`` of the document at ``url`` is newer than the current one."""
    if version > schema.version:
        raise TooNew(
            f"{url} is {schema.document} of schema version {version}, written by a newer version of mcvrp "
            f"(this version reads up to {schema.version}): update mcvrp"
        )


def require_readable(schema: Schema, document: Mapping[str, Any], url: str) -> int:
    """Return the version of ``document``, 1 if it has none.

    Raises
    ------
    TooNew
        If the version is newer than the current one.
    ValueError
        If the version is not a positive integer.
    """
    version = document.get(schema.field, 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ValueError(f"{schema.field} is {shown(version)}, expected a positive integer")
    refuse_newer(schema, version, url)
    return version


def stamped(table: pa.Table, schema: Schema) -> pa.Table:
    """Return ``table`` with the version of ``schema`` in its Parquet metadata."""
    metadata = table.schema.metadata or {}
    return table.replace_schema_metadata({**metadata, _KEY: str(schema.version).encode()})


def require_readable_table(schema: Schema, table: pa.Table, url: str) -> pa.Table:
    """Return ``table`` without the version in its metadata; raises as `require_readable` does."""
    metadata = dict(table.schema.metadata or {})
    refuse_newer(schema, int(metadata.pop(_KEY, b"1")), url)
    return table.replace_schema_metadata(metadata or None)
