"""Labelling with real Ray and real HGS: complete, exact, resumable, extensible, and safe from bad input."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc
import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, infeasibility
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset, load_labels
from mcvrp.storage.labels.label_files import LabelFile, read_table, write_labels, write_table
from mcvrp.storage.labels.schema import table_labels
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import plan
from mcvrp.tasks.label.solving import solver_seed
from mcvrp.tasks.label.stage import LabelSpec, label_missing, labels_missing
from mcvrp.tasks.label.work import Unit
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.support import progress
from mcvrp.tasks.support.machine import processor
from mcvrp.tasks.support.progress import ProgressReport, listening
from tests.support.datasets import CITY, everything, label_spec as spec
from tests.support.faults import LabelCommand, start_family
from tests.support.labels import poison, unit_receipt
from tests.support.shared import until


def stage(store: Store, wanted: LabelSpec, n: int, start: int, stop: int) -> LabelFile:
    """Stage rows ``start`` to ``stop`` as a worker does."""
    receipt = unit_receipt(store, CITY, wanted.recipe(CITY), Unit(n, start, stop))
    assert receipt.chunk is not None
    return receipt.chunk


def rows_of(store: Store, dataset: str = "d") -> dict[tuple[int, int], object]:
    """Every label of the dataset by (n, i), as plain values."""
    shards = [*Dataset.open(store, dataset).shards()]
    tables = {shard: read_table(store, shard.path).drop_columns(["runtime"]) for shard in shards}
    rows = {(shard.footer.n, row["index"]): row for shard in shards for row in tables[shard].to_pylist()}
    assert len(rows) == sum(shard.footer.rows for shard in shards)
    return rows


def test_a_dataset_is_what_its_spec_says(store: Store) -> None:
    summary = label_missing(store, CITY, spec())
    assert (summary.rows, summary.new, summary.workers) == (20, 20, 2)
    footers = [shard.footer for shard in Dataset.open(store, "d").shards()]
    rows = [(footer.n, footer.row_start, footer.row_stop) for footer in footers]
    assert rows == [(20, 0, 6), (20, 6, 10), (21, 0, 6), (21, 6, 10)]
    for n in (20, 21):
        paths = [layout.label_shard("d", n, k) for k in (0, 1)]
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
    assert store.list(layout.staging_dir("d")) == []
    assert store.get_json(layout.manifest("d"))["rows"] == 20
    assert len(load_labels(store, "d", 21)) == 10


def test_progress_counts_labels_inside_units(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts never exceed the total and end at it; a run that resumes counts no label twice."""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(plan, "_SHORTEST_UNIT", 60.0)
    for before, count in ((0, 30), (30, 60)):
        reports: list[ProgressReport] = []
        wanted = spec(smallest=20, largest=20, count=count, shard_rows=60, iterations=700, dataset="counted")
        with listening(reports.append):
            label_missing(store, CITY, wanted)
        labels = [report for report in reports if report.unit == "labels"]
        assert all(before <= (report.saved or before) <= report.done <= count for report in labels)
        assert (labels[0].done, labels[-1].done, labels[-1].saved) == (before, count, count)
        assert {report.done for report in labels} - {0, 30, 60}  # within a unit


def test_presence_means_done(store: Store) -> None:
    label_missing(store, CITY, spec())
    before, rows = everything(store), rows_of(store)
    assert label_missing(store, CITY, spec()).new == 0
    assert everything(store) == before
    store.delete(layout.label_shard("d", 20, 1))
    assert label_missing(store, CITY, spec()).new == 4
    assert rows_of(store) == rows
    assert label_missing(store, CITY, spec(count=3)).new == 0
    assert rows_of(store) == rows


def test_extending_only_adds(store: Store) -> None:
    """More rows and sizes later: what is there is kept, to the second it took, and not solved again."""
    label_missing(store, CITY, spec(count=4, largest=20))
    first = read_table(store, layout.label_shard("d", 20, 0))
    summary = label_missing(store, CITY, spec(count=9))
    assert summary.new == 5 + 9
    assert read_table(store, layout.label_shard("d", 20, 0)).slice(0, 4).equals(first)
    assert store.get_json(layout.label_spec("d"))["count"] == 9
    label_missing(store, CITY, spec(dataset="at-once", count=9))
    assert Dataset.open(store, "d").fingerprint() == Dataset.open(store, "at-once").fingerprint()


def test_staged_rows_are_used(store: Store) -> None:
    """Rows staged by an earlier run, in any cut and overlapping, are merged and not solved again."""
    wanted = spec(largest=20, count=6)
    recipe = wanted.recipe(CITY)
    for start, stop, seconds in ((1, 4, 111.0), (3, 5, 222.0)):
        path = stage(store, wanted, 20, start, stop).path
        staged = list(table_labels(read_table(store, path), CITY.city_id))
        marked = [dataclasses.replace(label, runtime=seconds) for label in staged]
        write_labels(store, path, CITY, recipe.spec_hash, marked)
    assert label_missing(store, CITY, wanted).new == 2
    runtimes = read_table(store, layout.label_shard("d", 20, 0))["runtime"].to_pylist()
    assert runtimes[1:5] == [111.0, 111.0, 111.0, 222.0]
    assert max(runtimes[0], runtimes[5]) < 111.0
    assert store.list(layout.staging_dir("d")) == []
    label_missing(store, CITY, spec(dataset="fresh", largest=20, count=6))
    assert Dataset.open(store, "d").fingerprint() == Dataset.open(store, "fresh").fingerprint()


def test_a_chunk_that_has_begun_is_continued(store: Store) -> None:
    """Its rows are kept, and the file of a killed worker is no more than a start: nothing is left of it."""
    wanted = spec(largest=20, count=6)
    path = stage(store, wanted, 20, 0, 6).path
    begun = read_table(store, path).slice(0, 4)
    store.delete(path)
    write_table(store, path, CITY, wanted.recipe(CITY).spec_hash, 20, begun)
    assert label_missing(store, CITY, wanted).new == 2
    assert read_table(store, layout.label_shard("d", 20, 0)).slice(0, 4).equals(begun)
    assert store.list(layout.staging_dir("d")) == []


def test_rows_staged_for_later_are_kept(store: Store) -> None:
    """A smaller run leaves what a larger, interrupted one has staged, and takes away what is done."""
    later = stage(store, spec(), 21, 0, 3)
    label_missing(store, CITY, spec(largest=20))
    assert store.list(layout.staging_dir("d")) == [later.path]
    done = stage(store, spec(), 20, 0, 3)  # as if killed between publishing and cleaning
    assert label_missing(store, CITY, spec(largest=20)).new == 0
    assert not store.exists(done.path)
    assert label_missing(store, CITY, spec()).new == 10 - 3


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 2}, "seed is 1, requested 2"),
        ({"iterations": 6}, "iterations is 5, requested 6"),
        ({"solver": "pyvrp", "split": "test"}, "split is 'train', .*; solver is 'hgs', requested 'pyvrp'"),
        ({"shard_rows": 7}, "shard_rows is 6, requested 7"),
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"largest": 61}, "largest = 61: the city has 60 customers"),
        ({"smallest": 19}, "no capacity rule for 19 customers"),
        ({"demand": (1, 31)}, "may hold 30 at n=20, a customer may want 31: give capacity"),
        ({"workers": 10_000}, "10000 workers were requested"),
    ],
)
def test_what_cannot_be_done_is_refused_before_work(
    store: Store, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(McvrpError, match=message):
        label_missing(store, CITY, spec(**changes))
    assert store.list("") == []


def test_instances_without_an_answer_are_quarantined(store: Store) -> None:
    """Three vehicles cannot serve some: each run retries these, with other seeds, and labels all others."""
    wanted = spec(largest=20, count=12, fleet=3)
    stream = InstanceStream(CITY, 1, "train")
    needed = [-(-int(x.demands.sum()) // x.capacity) for x in (stream(20, i) for i in range(12))]
    hopeless = [i for i, vehicles in enumerate(needed) if vehicles > 3]
    assert 0 < len(hopeless) < 12
    for run in (1, 2):
        summary = label_missing(store, CITY, wanted)
        entries = store.get_json(layout.quarantine("d"))["instances"]
        quarantined = [entry["i"] for entry in entries]
        why = f"lacks {len(quarantined)} of 12 labels: quarantined {len(quarantined)} (first: "
        assert why in summary.lacks
        assert "label.solver=pyvrp may have all" in summary.lacks
        assert len(summary.lacks) < 300
        assert summary.rows == 12 - len(quarantined)
        assert set(hopeless) <= set(quarantined) < set(range(12))
        assert [entry["attempts"] for entry in entries] == [3 * run] * len(entries)
        last = [solver_seed(wanted.seed, 20, i) + 3 * run - 1 for i in quarantined]
        assert [entry["seed"] for entry in entries] == last
        assert all(entry["reason"] for entry in entries)
        absent = [row for shard in Dataset.open(store, "d").shards() for row in shard.footer.absent]
        assert absent == quarantined
        assert labels_missing(store, CITY, wanted) == len(quarantined)
        assert len(load_labels(store, "d", 20)) == 12 - len(quarantined)
        assert store.list(layout.staging_dir("d")) == []


def test_a_run_without_any_label_is_incomplete(store: Store) -> None:
    with pytest.raises(IncompleteError, match="lacks 4 of 4 labels"):
        label_missing(store, CITY, spec(largest=20, count=4, fleet=1))


def test_a_solved_instance_leaves_the_quarantine(store: Store) -> None:
    label_missing(store, CITY, spec(count=6, largest=20, dataset="whole"))
    recipe, path = spec().recipe(CITY), layout.label_shard("d", 20, 0)
    table = read_table(store, layout.label_shard("whole", 20, 0))
    some = table.filter((pc.field("index") != 3) & (pc.field("index") != 4))
    write_table(store, path, CITY, recipe.spec_hash, 20, some, [3, 4])
    assert label_missing(store, CITY, spec(count=6, largest=20)).new == 2
    assert Dataset.open(store, "d").fingerprint() == Dataset.open(store, "whole").fingerprint()
    assert not store.exists(layout.quarantine("d"))


def test_one_way_costs_are_labelled_by_pyvrp(store: Store) -> None:
    matrix = CITY.costs(np.arange(61))
    city = City(CITY.xy, matrix + np.triu(np.ones_like(matrix), 1))
    wanted = spec(largest=20, count=3)
    with pytest.raises(McvrpError, match="use solver pyvrp"):
        label_missing(store, city, wanted)
    assert label_missing(store, city, wanted.model_copy(update={"solver": "pyvrp"})).new == 3
    assert load_labels(store, "d", 20).costs.min() > 0


SCRIPT = """
import sys
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label import plan
from mcvrp.tasks.label.stage import LabelSpec, label_missing
plan._SHORTEST_UNIT = 0.1  # seconds: some rows
label_missing(Store.open(sys.argv[1]), City.uniform(60, seed=3), LabelSpec.model_validate_json(sys.argv[2]))
"""
COUNT = 60
WANTED = spec(largest=20, count=COUNT, shard_rows=COUNT)


@pytest.fixture
def at_work(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelCommand]:
    """A driver that has staged rows, and comes to no end: a worker of its sleeps at the last instance."""
    asleep = tmp_path_factory.mktemp("asleep")
    poison(asleep, CITY, 20, COUNT - 1, "time.sleep(60)")
    command = [sys.executable, "-c", SCRIPT, store.uri, WANTED.model_dump_json(exclude_none=True)]
    path = os.pathsep.join([str(asleep), os.environ["PYTHONPATH"]])
    driver = LabelCommand(*start_family(command, asleep / "log", PYTHONPATH=path), asleep / "log")
    try:
        until("rows", 120, lambda: not driver.running or store.list(layout.staging_dir("d")), 0.05)
        yield driver
    finally:
        driver.family.kill()
        driver.process.wait()


@pytest.mark.slow
def test_ctrl_c_stops_everything_and_loses_nothing(store: Store, at_work: LabelCommand) -> None:
    """Interrupted as a terminal does it, no process stays and the next run uses what was staged."""
    assert len(at_work.family.members()) > 1
    os.killpg(at_work.process.pid, signal.SIGINT)
    assert at_work.process.wait(60) != 0
    assert "Check failed" not in at_work.output  # of Ray, which then leaves processes behind
    until("the end of all processes", 120, lambda: not at_work.family.members(), 0.05)
    staged = [rows for p in store.list(layout.staging_dir("d")) if (rows := layout.staged_rows(p))]
    kept = sum(stop - start for start, stop in staged)
    assert 0 < kept < COUNT
    assert label_missing(store, CITY, WANTED).new == COUNT - kept
    assert len(load_labels(store, "d", 20)) == COUNT


@pytest.mark.slow
def test_a_killed_driver_is_followed(
    store: Store, at_work: LabelCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After SIGKILL the same command takes over, whatever the dead one's workers still do."""
    monkeypatch.setattr("mcvrp.storage.store.lease.TTL_SECONDS", 3.0)
    with pytest.raises(McvrpError, match=rf"is being labelled by process {at_work.process.pid}"):
        label_missing(store, CITY, WANTED)
    at_work.process.kill()
    at_work.process.wait()
    assert label_missing(store, CITY, WANTED).new < COUNT
    assert len(rows_of(store)) == COUNT
    label_missing(store, CITY, WANTED.model_copy(update={"dataset": "fresh"}))
    assert Dataset.open(store, "d").fingerprint() == Dataset.open(store, "fresh").fingerprint()
