"""Labels that a challenger is tuned on: drawn from old ones, at their best known, with fresh days among them.

The dataset is a pure function of what goes in: written again, it is the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from mcvrp.model.problem import City, Instance
from mcvrp.model.random import philox_key, philox_order
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import read_footer, read_table, write_labels
from mcvrp.storage.labels.schema import Label, table_labels
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord

_SPEC = "nightly"  # what stands in the footers where a dataset of solvers has the hash of its spec

Key = tuple[bytes, bytes, int]  # of an instance: customers, demands, capacity


@dataclass(frozen=True)
class Mix:
    """Make-up of a trial's dataset: ``rows`` of each size, ``fresh`` of them all, each day ``times`` over."""

    dataset: str
    rows: dict[int, int]
    fresh: int = 0
    times: int = 0


def repeats(days: int, replay: int, share: float, most: int) -> int:
    """Return how often each of ``days`` stands among ``replay`` old labels to make up ``share`` of all."""
    wanted = share / (1 - share) * replay
    return max(1, min(most, round(wanted / days))) if days else 0  # capped: too often is by heart


def write_mix(
    store: Store, city: City, dataset: str, old: Sequence[Label], days: Sequence[Label] = (), times: int = 0
) -> Mix:
    """Write the labels of a trial as ``dataset``, one shard a size, and return what it is made of.

    Parameters
    ----------
    days
        What was driven on the days to learn from, each to be there ``times``.
    old
        The labels to go with them.

    Raises
    ------
    McvrpError
        If a label is none of this city.
    """
    by_size: dict[int, list[Label]] = {}
    for label in [*old, *(day for day in days for _ in range(times))]:
        by_size.setdefault(label.instance.n, []).append(label)
    for n, labels in sorted(by_size.items()):
        path = layout.label_shard(dataset, n, 0)
        if not store.exists(path):  # an earlier try of the same trial wrote the same
            write_labels(store, path, city, _SPEC, numbered(labels))
    rows = {n: len(labels) for n, labels in sorted(by_size.items())}
    return Mix(dataset, rows, times * len(days), times)


def numbered(labels: Iterable[Label]) -> list[Label]:
    """Return ``labels`` as rows 0, 1, 2, ..."""
    return [replace(label, index=i) for i, label in enumerate(labels)]


def drawn(
    store: Store, dataset: str, count: int, stream: tuple[str, ...], known: Mapping[Key, Label]
) -> Iterator[Label]:
    """Yield about ``count`` random labels of ``dataset``, equally many of each size that has enough.

    Parameters
    ----------
    stream
        Names the draw: the same labels for the same names.
    known
        Better labels of some of the instances, to be taken in place of the dataset's.

    Raises
    ------
    McvrpError
        If a shard is corrupt.
    """
    old = Dataset.open(store, dataset)
    there = old.sizes()
    key = philox_key("replay", *stream)
    for place, n in enumerate(there):
        wanted = count * (place + 1) // len(there) - count * place // len(there)  # these add up to count
        files = list(old.shards(n))
        tables: list[pa.Table] = []
        for k in philox_order(key, (n, 0), len(files)):  # whole shards, so that few of many are read
            if sum(len(table) for table in tables) >= wanted:
                break
            tables.append(read_table(store, files[k].path, files[k].footer))
        if tables and wanted:
            table = pa.concat_tables(tables)
            rows = philox_order(key, (n, 1), len(table))[:wanted]
            for label in table_labels(table.take(rows), files[0].footer.city_id):
                yield known.get(key_of(label.instance), label)


def best_known(store: Store, model: str, rounds: Iterable[TrialRecord]) -> dict[Key, Label]:
    """Return the labels that ``model`` has beaten in ``rounds``, by instance, at the best of them.

    Raises
    ------
    McvrpError
        If a file of them is corrupt.
    """
    best: dict[Key, Label] = {}
    for each in rounds:
        for path in store.list(layout.improved_dir(model, each.name)):
            city_id = read_footer(store, path).city_id
            for label in table_labels(read_table(store, path), city_id):
                key = key_of(label.instance)
                if key not in best or label.cost < best[key].cost:
                    best[key] = label
    return best


def key_of(instance: Instance) -> Key:
    """Return what only equal orders share, be they of a city or of one that extends it."""
    return instance.ids.tobytes(), instance.demands.tobytes(), instance.capacity
