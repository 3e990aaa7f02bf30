"""Labelling with real Ray and real HGS: complete, exact, resumable, extensible, and safe from bad input."""

from __future__ import annotations

import numpy as np
import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, infeasibility
from mcvrp.storage import layout
from mcvrp.storage.cities import save_city
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.labels.label_files import read_table
from mcvrp.storage.labels.schema import table_labels
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.solving import solver_seed
from mcvrp.tasks.label.stage import label_missing, labels_missing
from mcvrp.tasks.label.verify import verify_dataset
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.support.machine import processor
from tests.support.datasets import CITY, everything, flipped, label_path, label_spec as spec


def rows_of(store: Store, dataset: str = "d") -> dict[tuple[int, int], object]:
    """Every label of the dataset by (n, i), as plain values."""
    labels = Dataset.open(store, dataset)
    tables = [(n, table.drop_columns(["runtime"])) for n in labels.sizes() for table in labels.read_rows(n)]
    rows = {(n, row["index"]): row for n, table in tables for row in table.to_pylist()}
    assert len(rows) == sum(table.num_rows for _, table in tables)
    return rows


def test_a_dataset_is_what_its_spec_says(store: Store) -> None:
    summary = label_missing(store, CITY, spec())
    assert (summary.rows, summary.new) == (20, 20)
    footers = [file.footer for file in Dataset.open(store, "d").label_files]
    rows = [(footer.n, footer.row_start, footer.row_stop) for footer in footers]
    assert rows == [(20, 0, 6), (20, 6, 10), (21, 0, 6), (21, 6, 10)]
    for n in (20, 21):
        paths = [label_path(k, n) for k in (0, 1)]
        made = [label for path in paths for label in table_labels(read_table(store, path), CITY.city_id)]
        assert [label.index for label in made] == list(range(10))
        for label in made:
            instance = InstanceStream(CITY, 1, "train")(n, label.index)
            seed = solver_seed(1, n, label.index)
            (answer,) = HGS(iterations=5).solve(CITY, [instance], samples=1, seed=seed)
            assert label.instance.ids.tolist() == instance.ids.tolist()
            assert label.instance.demands.tolist() == instance.demands.tolist()
            assert label.instance.capacity == instance.capacity
            assert infeasibility(instance, label.solution) is None
            assert label.solution == answer.solution == canonical(CITY, label.solution)
            assert (label.source, label.solver, label.seed) == ("solver", "HGS", seed)
            assert label.version.startswith("hybgensea ")
            assert (label.budget, label.cpu) == ("5 iterations", processor())
    assert store.get_json(layout.manifest("d"))["rows"] == 20
    assert len(load_labels(store, "d", 21)) == 10


def test_presence_means_done(store: Store) -> None:
    label_missing(store, CITY, spec())
    before, rows = everything(store), rows_of(store)
    assert label_missing(store, CITY, spec()).new == 0
    assert everything(store) == before
    store.delete(label_path(1))
    assert label_missing(store, CITY, spec()).new == 4
    assert rows_of(store) == rows
    assert label_missing(store, CITY, spec(count=3)).new == 0
    assert rows_of(store) == rows


def test_extending_only_adds(store: Store) -> None:
    """More rows and sizes later: what is there is kept, to the second it took, and not solved again."""
    label_missing(store, CITY, spec(count=4, largest=20))
    before = everything(store, layout.data_dir("d"))
    summary = label_missing(store, CITY, spec(count=9))
    assert summary.new == 5 + 9
    assert everything(store, layout.data_dir("d")).items() >= before.items()
    assert store.get_json(layout.label_spec("d"))["count"] == 9
    label_missing(store, CITY, spec(dataset="at-once", count=9))
    assert Dataset.open(store, "d").fingerprint() == Dataset.open(store, "at-once").fingerprint()


def test_many_files_of_a_size_are_merged(store: Store) -> None:
    """With the labels that one file would have; a run that adds rows begins from the merged file."""
    save_city(store, "c", CITY)
    label_missing(store, CITY, spec(count=6, largest=20, shard_rows=1))
    label_missing(store, CITY, spec(count=20, largest=20, shard_rows=1))
    assert store.list(layout.data_dir("d")) == [layout.label_file("d", 20, 0, 20)]
    label_missing(store, CITY, spec(dataset="whole", count=20, largest=20, shard_rows=25))
    assert rows_of(store) == rows_of(store, "whole")
    assert Dataset.open(store, "d").fingerprint() == Dataset.open(store, "whole").fingerprint()
    assert label_missing(store, CITY, spec(count=22, largest=20, shard_rows=1)).new == 2
    assert verify_dataset(store, "d").good


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 2}, "seed is 1, requested 2"),
        ({"solver": "pyvrp", "split": "test"}, "split is 'train', .*; solver is 'hgs', requested 'pyvrp'"),
    ],
)
def test_a_contradiction_is_refused(store: Store, changes: dict[str, object], named: str) -> None:
    """Fields that differ are named and nothing is changed; a city also if the spec is lost."""
    label_missing(store, CITY, spec(count=2, largest=20))
    before, other = everything(store), City.uniform(60, seed=4)
    with pytest.raises(McvrpError, match=named):
        label_missing(store, CITY, spec(**changes))
    with pytest.raises(
        McvrpError, match=rf"is of city .*{CITY.city_id}.*, not of .*{other.city_id}.*: name that city"
    ):
        label_missing(store, other, spec())
    assert everything(store) == before
    store.delete(layout.label_spec("d"))
    with pytest.raises(McvrpError, match=f"city {CITY.city_id}, .*{other.city_id}"):
        label_missing(store, other, spec())


def test_instances_without_an_answer_are_absent(store: Store) -> None:
    """Three vehicles cannot serve some: these are named with the reason, all others are labelled."""
    save_city(store, "c", CITY)
    wanted = spec(largest=20, count=12, fleet=3)
    stream = InstanceStream(CITY, 1, "train")
    needed = [-(-int(x.demands.sum()) // x.capacity) for x in (stream(20, i) for i in range(12))]
    hopeless = [i for i, vehicles in enumerate(needed) if vehicles > 3]
    assert 0 < len(hopeless) < 12
    for run in (1, 2):
        summary = label_missing(store, CITY, wanted)
        footers = [file.footer for file in Dataset.open(store, "d").label_files]
        absent = {i: why for footer in footers for i, why in footer.absent.items()}
        assert set(hopeless) <= set(absent) < set(range(12))
        assert all(absent.values())
        assert (
            f"lacks {len(absent)} of 12 labels: no attempt has solved {len(absent)} (first: " in summary.lacks
        )
        assert len(summary.lacks) < 300
        assert (summary.rows, summary.absent) == (12 - len(absent), len(absent))
        assert summary.new == (summary.rows if run == 1 else 0)
        assert labels_missing(store, CITY, wanted) == 0
        assert len(load_labels(store, "d", 20)) == 12 - len(absent)
    report = verify_dataset(store, "d")
    assert (report.good, report.faults, report.missing, report.absent) == (False, (), (), len(absent))


def test_a_run_without_any_label_is_incomplete(store: Store) -> None:
    with pytest.raises(IncompleteError, match="lacks 4 of 4 labels"):
        label_missing(store, CITY, spec(largest=20, count=4, fleet=1))
    assert store.list(layout.data_dir("d")) == []


def test_a_label_that_is_corrupt_ends_a_merge_in_a_sentence(store: Store) -> None:
    """It names the file and the command that removes it; then the same command makes it again."""
    save_city(store, "c", CITY)
    label_missing(store, CITY, spec(count=8, largest=20, shard_rows=1))
    path = layout.label_file("d", 20, 3, 4)
    store.put(path, flipped(store.get(path)))
    wanted = spec(count=10, largest=20, shard_rows=1)
    with pytest.raises(IncompleteError, match=rf"{path} is corrupt .*mcvrp verify d --delete"):
        label_missing(store, CITY, wanted)
    report = verify_dataset(store, "d", delete=True)
    assert ([fault.path for fault in report.faults], report.missing) == ([path], ((20, 3, 4),))
    assert label_missing(store, CITY, wanted).new == 1
    assert verify_dataset(store, "d").good


def test_a_solver_of_straight_lines_does_not_label_one_way_costs(store: Store) -> None:
    matrix = CITY.costs(np.arange(61))
    city = City(CITY.xy, matrix + np.triu(np.ones_like(matrix), 1))
    wanted = spec(largest=20, count=3)
    with pytest.raises(McvrpError, match="use hgs or pyvrp"):
        label_missing(store, city, wanted.model_copy(update={"solver": "lkh3"}))
    assert label_missing(store, city, wanted).new == 3
    assert load_labels(store, "d", 20).costs.min() > 0
