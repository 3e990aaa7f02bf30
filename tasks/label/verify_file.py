"""Verification of one label file from its bytes: every row against the spec, the city and the footer.

Whatever the bytes are, the result is the footer, or a sentence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from mcvrp.model.errors import McvrpError, reason
from mcvrp.storage import layout
from mcvrp.storage.labels.arrays import LabelArrays, content_hash
from mcvrp.storage.labels.checks import row_faults
from mcvrp.storage.labels.label_files import HINT, parse_footer, parse_table
from mcvrp.storage.labels.manifest import listed_sha256
from mcvrp.storage.labels.schema import Footer
from mcvrp.tasks.label.spec import Source

_MOST_CHARACTERS = 160  # of a message of a library


def verify_file(
    data: bytes, path: str, source: Source, manifest: Mapping[str, Any] | None = None
) -> Footer | str:
    """Return the footer of the label file with bytes ``data``, or what is wrong: a sentence without subject.

    ``path`` is its path in the store, which determines its rows, and the ``manifest`` may have its checksum.
    """
    try:
        footer = parse_footer(data, "it")
        faults = list(misplaced(path, footer, source))
        faults = faults or list(_faults(footer, parse_table(data, "it"), source))
    except McvrpError as error:
        return str(error).removeprefix("it ").removesuffix(f": {HINT}")[:_MOST_CHARACTERS]
    except Exception as error:  # corrupt bytes raise errors of any kind
        return f"cannot be read ({reason(error)[:_MOST_CHARACTERS]})"
    if not faults:
        listed, sha256 = listed_sha256(manifest, path, footer), hashlib.sha256(data).hexdigest()
        return (
            f"has SHA-256 {sha256[:12]}…, the manifest {listed[:12]}…"
            if listed not in ("", sha256)
            else footer
        )
    return faults[0] + (f" (and {len(faults) - 1:,} more faults)" if len(faults) > 1 else "")


def _faults(footer: Footer, table: pa.Table, source: Source) -> Iterator[str]:
    labels = LabelArrays.of(table, footer.n)
    index = np.arange(footer.row_start, footer.row_stop)
    expected = np.setdiff1d(index, np.array([*footer.absent], dtype=np.int64))
    if not np.array_equal(labels.index, expected):
        yield f"has not the rows that its footer declares, {footer.row_start} to {footer.row_stop}"
        return
    faults = {fault.row: f"has {fault.what}" for fault in row_faults(source.city, labels)}
    for row, what in _other_instances(labels, source, footer.n):
        faults.setdefault(row, what)
    for row, what in sorted(faults.items()):
        yield f"row {row}, instance (n={footer.n}, i={labels.index[row]}), {what}"
    if not faults and content_hash(labels) != footer.content:
        yield "has valid rows, but not those of its footer: another hash"


def misplaced(path: str, footer: Footer, source: Source) -> Iterator[str]:
    """Yield the reasons why a file with ``footer`` does not belong at ``path``."""
    spec, recipe = source.spec, source.recipe
    if footer.city_id != source.city.city_id:
        yield f"has labels of city {footer.city_id}, the dataset is of city {source.city.city_id}"
    if footer.spec_hash != recipe.spec_hash:
        yield f"was made from spec {footer.spec_hash}, the dataset from {recipe.spec_hash}"
    if path != layout.label_file(spec.dataset, footer.n, footer.row_start, footer.row_stop):
        yield f"has rows {footer.row_start} to {footer.row_stop} of n={footer.n}, not those of its name"
    elif footer.n not in spec.sizes or footer.row_stop > spec.count:
        extent = f"n={spec.smallest} to {spec.largest}, {spec.count} rows each"
        yield f"has rows {footer.row_start} to {footer.row_stop} of n={footer.n}, the spec has {extent}"


def _other_instances(labels: LabelArrays, source: Source, n: int) -> Iterator[tuple[int, str]]:
    """Yield the rows whose instance differs from that of the spec."""
    stream = source.stream
    for row, i in enumerate(labels.index.tolist()):
        instance = stream(n, i)
        if not np.array_equal(instance.ids, labels.ids[row]):
            yield row, "has other customers than the instance"
        elif not np.array_equal(instance.demands, labels.demands[row]):
            yield row, "has other demands than the instance"
        elif instance.capacity != labels.capacities[row]:
            yield row, f"has capacity {labels.capacities[row]}, the instance {instance.capacity}"
