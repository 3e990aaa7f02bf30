"""Verification of one label file from its bytes: every row against the spec, the city and the footer.

Whatever the bytes are, the result is the footer, or a sentence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage import layout
from mcvrp.storage.labels.arrays import LabelArrays, content_hash
from mcvrp.storage.labels.checks import row_faults
from mcvrp.storage.labels.dataset import other_name
from mcvrp.storage.labels.label_files import hint, parse_footer, parse_table
from mcvrp.storage.labels.manifest import listed_sha256
from mcvrp.storage.labels.schema import Footer, OtherSchema
from mcvrp.tasks.label.spec import Source

_MOST_CHARACTERS = 160  # of a message of a library


class Misplaced(str):
    """What is wrong with a whole file of another dataset or version: its labels are good, so it is kept."""


def verify_file(
    data: bytes, path: str, source: Source, manifest: Mapping[str, Any] | None = None
) -> Footer | str:
    """Return the footer of the label file with bytes ``data``, or what is wrong: a sentence without subject,
    `Misplaced` if the file is whole.

    ``path`` is its path in the store, which determines its rows, and the ``manifest`` may have its checksum.
    """
    try:
        footer, table = parse_footer(data, "it"), parse_table(data, "it")
        fault = _misplaced(path, footer, source) or _fault(footer, table, source)
    except OtherSchema as error:
        return Misplaced(str(error).removeprefix("it "))
    except McvrpError as error:
        return str(error).removeprefix("it ").removesuffix(f": {hint('it')}")[:_MOST_CHARACTERS]
    except Exception as error:  # corrupt bytes raise errors of any kind
        return f"cannot be read ({reason(error)[:_MOST_CHARACTERS]})"
    listed, sha256 = listed_sha256(manifest, path, footer), hashlib.sha256(data).hexdigest()
    if not fault and listed not in ("", sha256):
        fault = f"has SHA-256 {sha256[:12]}…, the manifest {listed[:12]}…"
    return fault or footer


def _fault(footer: Footer, table: pa.Table, source: Source) -> str:
    """Return what is wrong with the first bad row, "" if all are good."""
    labels = LabelArrays.of(table, footer.n)
    index = np.arange(footer.row_start, footer.row_stop)
    expected = np.setdiff1d(index, np.array([*footer.absent], dtype=np.int64))
    if not np.array_equal(labels.index, expected):
        return (
            f"has not the rows that its footer declares, {footer.row_start} to {footer.row_stop} (excluded)"
        )
    for fault in row_faults(source.city, labels):
        return f"has {fault.what}, at i={fault.i} of n={footer.n}"
    for row, i in enumerate(labels.index.tolist()):
        instance = source.stream(footer.n, i)
        same = np.array_equal(instance.ids, labels.ids[row]) and instance.capacity == labels.capacities[row]
        if not same or not np.array_equal(instance.demands, labels.demands[row]):
            return f"has another instance than that of the spec, at i={i} of n={footer.n}"
    return "" if content_hash(labels) == footer.content else "has other rows than its footer declares"


def _misplaced(path: str, footer: Footer, source: Source) -> Misplaced | None:
    """Return why a file with ``footer`` does not belong at ``path``, None if it does."""
    spec, recipe = source.spec, source.recipe
    if footer.city_id != source.city.city_id:
        fault = (
            f"has labels of city {footer.city_id}, the dataset is of city {source.city.city_id}: move it away"
        )
    elif footer.spec_hash != recipe.spec_hash:
        fault = f"was made from spec {footer.spec_hash}, the dataset from {recipe.spec_hash}: move it away"
    elif path != (own := layout.label_file(spec.dataset, footer.n, footer.row_start, footer.row_stop)):
        fault = other_name(own)
    elif footer.n not in spec.sizes or footer.row_stop > spec.count:
        fault = (
            f"has rows {footer.row_start} to {footer.row_stop} (excluded) of n={footer.n}, the spec "
            f"n={spec.smallest} to {spec.largest}, {spec.count} rows each"
        )
    else:
        return None
    return Misplaced(fault)
