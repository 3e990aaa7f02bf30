"""Training mix of a challenger: sampled old labels at their best known cost, and repeated fresh days.

The dataset is a pure function of its inputs: written again, it has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from mcvrp.model.problem import City, Instance
from mcvrp.model.random import philox_key, philox_order
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import parse_footer, parse_table, read_table, write_labels
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.labels.schema import Label, table_labels
from mcvrp.storage.nights import NightRecord
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.provenance import Parent, made
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.spec import MOST_ROWS, SpecDocument

_SPEC = "nightly"  # in the footers, in place of the spec hash of a labelled dataset

Key = tuple[bytes, bytes, int]  # customers, demands, capacity of an instance


@dataclass(frozen=True)
class Mix:
    """Composition of a night's dataset: ``rows`` per size, ``fresh`` ones in all, repetitions of a day."""

    dataset: str
    rows: dict[int, int]
    fresh: int
    times: int


def repeats(days: int, replay: int, share: float, most: int) -> int:
    """Return the repetitions of ``days`` that give them ``share`` of a mix with ``replay`` others."""
    # at most ``most``, against overfitting to a few days
    wanted = share / (1 - share) * replay
    return max(1, min(most, round(wanted / days)))


def write_mix(
    store: Store,
    city: City,
    dataset: str,
    parents: Sequence[Parent],
    old: Sequence[Label],
    days: Sequence[Label],
    times: int,
) -> Mix:
    """Write ``old`` labels and ``days``, each ``times`` over, one file per size; return the composition.

    The manifest records the ``parents`` of both.
    """
    by_size: dict[int, list[Label]] = {}
    for label in [*old, *(day for day in days for _ in range(times))]:
        by_size.setdefault(label.instance.n, []).append(label)
    for n, labels in sorted(by_size.items()):
        path = layout.label_file(dataset, n, 0, len(labels))
        if not store.exists(path):  # otherwise an earlier attempt has written the same bytes
            write_labels(store, path, city, _SPEC, numbered(labels))
    if not store.exists(layout.manifest(dataset)):
        rebuild_manifest(Dataset.listed(store, dataset), provenance=made(parents))
    rows = {n: len(labels) for n, labels in sorted(by_size.items())}
    return Mix(dataset, rows, times * len(days), times)


def numbered(labels: Iterable[Label], first: int = 0) -> list[Label]:
    return [replace(label, index=i) for i, label in enumerate(labels, first)]


def drawn(
    store: Store, dataset: str, count: int, night: str, improved: Mapping[Key, Label]
) -> Iterator[Label]:
    """Yield about ``count`` random labels of ``dataset``, evenly distributed over its sizes.

    Equal names of a ``night`` give equal labels. ``improved`` labels of some instances replace
    those of the dataset. Raises McvrpError if a file is corrupt.
    """
    old = Dataset.listed(store, dataset)
    # Blocks of rows, of which few are read: the same ones after files were merged.
    block = SpecDocument.read(store, dataset).fields.get("shard_rows", MOST_ROWS)
    sizes = old.sizes()
    key = philox_key("replay", night)
    for k, n in enumerate(sizes):
        wanted = count * (k + 1) // len(sizes) - count * k // len(sizes)  # these add up to count
        files, tables, found = old.files[n], dict[str, pa.Table](), list[pa.Table]()
        for start in block * philox_order(key, (n, 0), -(-files[-1].stop // block)):
            if sum(map(len, found)) >= wanted:
                break
            for file in files:
                if file.start < start + block and start < file.stop:
                    if file.path not in tables:
                        tables[file.path] = read_table(store, file.path)
                    index = tables[file.path]["index"].to_numpy()
                    found.append(
                        tables[file.path].filter(pa.array((index >= start) & (index < start + block)))
                    )
        if found and wanted:
            table = pa.concat_tables(found)
            rows = philox_order(key, (n, 1), len(table))[:wanted]
            for label in table_labels(table.take(rows), found[0].schema.metadata[b"city_id"].decode()):
                yield improved.get(key_of(label.instance), label)


def best_known(store: Store, model: str, nights: Iterable[NightRecord]) -> dict[Key, Label]:
    """Return the best label of each instance that ``nights`` improved; McvrpError if a file is corrupt."""
    best: dict[Key, Label] = {}
    folders = tuple(f"{layout.improved_dir(model, record.name)}/" for record in nights)
    paths = [path for path in store.list(layout.nights_dir(model)) if path.startswith(folders)]
    for path, data in zip(paths, in_parallel(store.get, paths), strict=True):
        url = store.url(path)
        for label in table_labels(parse_table(data, url), parse_footer(data, url).city_id):
            key = key_of(label.instance)
            if key not in best or label.cost < best[key].cost:
                best[key] = label
    return best


def key_of(instance: Instance) -> Key:
    """Return a key that equal orders share, also in a city and in one that extends it."""
    return instance.ids.tobytes(), instance.demands.tobytes(), instance.capacity
