"""The card of a dataset: its figures are those of the labels, and only what has changed is read again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import read_table, write_labels
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.labels.schema import table_labels
from mcvrp.storage.labels.shards import Shard, ShardList
from mcvrp.storage.labels.statistics import (
    ShardFigures,
    SizeStatistics,
    Spread,
    read_statistics,
    write_statistics,
)
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import statistics as label_statistics
from mcvrp.tasks.label.card import figure_path, selection, size_tables, spread_figure, write_card
from mcvrp.tasks.label.statistics import current_statistics
from tests.support.datasets import CITY, everything, label_spec, make_dataset


@pytest.fixture
def store(store: Store) -> Store:
    make_dataset(store, label_spec())
    return store


def update_statistics(
    store: Store, dataset: str, known: Mapping[str, ShardFigures] | None = None
) -> list[SizeStatistics]:
    statistics = current_statistics(store, dataset, read_statistics(store, dataset), known)
    write_statistics(store, dataset, statistics)
    return statistics


def test_statistics_are_those_of_the_labels(store: Store) -> None:
    statistics = update_statistics(store, "d")
    counts = [(size.n, size.rows, size.files, size.absent) for size in statistics]
    assert counts == [(20, 10, 2, 0), (21, 10, 2, 0)]
    tables = [read_table(store, shard.path) for shard in Dataset.open(store, "d").shards(20)]
    costs = np.concatenate([table["cost"].to_numpy() for table in tables])
    routes = [len(row) for table in tables for row in table["routes"].to_pylist()]
    first = statistics[0]
    assert first.cost.mean == pytest.approx(costs.mean())
    assert first.cost.std == pytest.approx(costs.std(ddof=1))
    assert (first.cost.p10, first.cost.p90) == pytest.approx(tuple(np.percentile(costs, [10, 90])))
    assert (first.cost.min, first.cost.max) == (costs.min(), costs.max())
    assert first.routes.mean == pytest.approx(np.mean(routes))
    assert sum(first.routes.counts) == sum(first.runtime.counts) == 10
    assert first.bytes == sum(store.size(shard.path) for shard in Dataset.open(store, "d").shards(20))
    assert [(maker.solver, maker.cpu, maker.rows) for maker in first.makers] == [("sweep", "abacus", 10)]
    assert read_statistics(store, "d") == statistics
    assert "cost_mean" in pq.read_schema(Path(store.uri, layout.label_statistics("d"))).names


def test_only_what_has_changed_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed shard costs its size, if its writer has not told its figures; a lost file costs all."""
    read: list[int] = []
    really = label_statistics._read_figures

    def counted(store: Store, shard: Shard) -> ShardFigures:
        read.append(shard.footer.n)
        return really(store, shard)

    monkeypatch.setattr(label_statistics, "_read_figures", counted)
    whole = update_statistics(store, "d")
    update_statistics(store, "d")
    assert read == [20, 20, 21, 21]
    figures = {shard.sha256: really(store, shard) for shard in ShardList(store, "d")}
    store.delete(layout.label_statistics("d"))
    assert update_statistics(store, "d", figures) == whole
    read.clear()
    path = layout.label_shard("d", 21, 1)
    spec_hash = next(Dataset.open(store, "d").shards(21)).footer.spec_hash
    labels = table_labels(read_table(store, path), CITY.city_id)
    slower = [dataclasses.replace(label, runtime=9.0) for label in labels]
    write_labels(store, path, CITY, spec_hash, slower)
    rebuild_manifest(store, "d", Dataset.open(store, "d"))
    assert update_statistics(store, "d")[1].runtime.max == 9.0
    assert read == [21, 21]
    store.put(layout.label_statistics("d"), b"garbage")
    update_statistics(store, "d")
    assert read == [21, 21, 20, 20, 21, 21]
    store.delete(layout.size_dir("d", 21))
    rebuild_manifest(store, "d")
    assert [size.n for size in update_statistics(store, "d")] == [20]
    assert [size.n for size in read_statistics(store, "d")] == [20]


def test_a_corrupt_shard_is_named(store: Store) -> None:
    path = layout.label_shard("d", 20, 0)
    data = bytearray(store.get(path))
    data[60] ^= 255
    store.put(path, bytes(data[:-200]))
    with pytest.raises(McvrpError, match=r"part-00000\.parquet cannot be read .*: run mcvrp verify"):
        write_card(store, CITY, "d")
    assert not store.exists(layout.card("d"))


def test_the_card_says_what_there_is(store: Store) -> None:
    """Counts, sizes, makers, spec and figures; written twice it is the same, byte for byte."""
    write_card(store, CITY, "d")
    before = everything(store)
    text = before[layout.card("d")].decode()
    makers = ("\n- **20**: solver, sweep, sweep 1, ", "abacus")
    for part in ("20 solved instances", "20 to 21 customers", CITY.city_id, *makers, "mcvrp verify d"):
        assert part in text
    for quantity in ("cost", "routes", "runtime"):
        assert f"(figures/{quantity}.png)" in text
        assert before[figure_path("d", quantity)].startswith(b"\x89PNG")
    write_card(store, CITY, "d")
    assert everything(store) == before


def test_a_dataset_has_the_nodes_of_its_labels(store: Store) -> None:
    """Coordinates and ids by node number, and no other column of the addresses."""
    city = dataclasses.replace(CITY, address_ids=tuple(f"C{node}" for node in range(len(CITY.xy))))
    write_card(store, city, "d")
    nodes = pq.read_table(Path(store.uri, layout.label_city("d"))).to_pandas()
    assert nodes.columns.tolist() == ["x", "y", "id"]
    np.testing.assert_array_equal(nodes[["x", "y"]], CITY.xy)
    assert tuple(nodes["id"]) == city.address_ids
    assert "rows of `city.parquet`" in store.get(layout.card("d")).decode()


def some_statistics(count: int) -> list[SizeStatistics]:
    rng = np.random.default_rng(0)
    return [
        SizeStatistics(
            n=n,
            rows=50,
            absent=0,
            files=1,
            bytes=1000,
            content="",
            cost=Spread.of(rng.normal(n / 4, 1, 50)),
            routes=Spread.of(rng.integers(n // 6, n // 5 + 2, 50)),
            runtime=Spread.of(rng.gamma(3, n / 1000, 50)),
            makers=(),
        )
        for n in range(20, 20 + count)
    ]


@pytest.mark.parametrize(("count", "quantity"), [(1, "cost"), (3, "runtime"), (7, "routes"), (60, "cost")])
def test_any_number_of_sizes_is_drawn_and_listed(count: int, quantity: str) -> None:
    """One size has one panel; many have a selection and their course; the table stays readable."""
    statistics = some_statistics(count)
    assert spread_figure(statistics, quantity, "m").startswith(b"\x89PNG")
    labels, solutions = (table.splitlines() for table in size_tables(statistics).split("\n\n"))
    assert len(labels) - 1 == len(solutions) <= 2 + 40
    assert f"{50 * count:,}" in labels[-1]


def test_a_selection_has_both_ends() -> None:
    statistics = some_statistics(50)
    chosen = [size.n for size in selection(statistics, 6)]
    assert (chosen[0], chosen[-1], len(set(chosen))) == (20, 69, 6)
    assert selection(statistics[:2], 6) == statistics[:2]


@pytest.mark.parametrize("values", [[3], [4, 4, 4], list(range(500)), [0.25], [0.0, 1e-9]])
def test_any_values_have_a_histogram(values: list[float]) -> None:
    spread = Spread.of(np.array(values))
    assert sum(spread.counts) == len(values)
    assert len(spread.edges) == len(spread.counts) + 1 <= 60
    assert spread.min == min(values)
