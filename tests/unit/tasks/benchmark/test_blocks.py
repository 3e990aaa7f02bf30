"""Blocks: more instances cost only what is new, and what determines the answers is in their name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import PartRow, stored_parts, write_results
from mcvrp.storage.models.attention import AttentionCard
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.blocks import Block
from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.part import Task, WorkerContext, solve_part
from mcvrp.tasks.benchmark.prepare import Models, attention_cards, make_block
from mcvrp.tasks.benchmark.run import results_frame
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.report.formats import to_markdown
from mcvrp.tasks.report.tables import benchmark_table
from mcvrp.tasks.solvers.registry import SOLVERS, SolverEntry
from mcvrp.tasks.solvers.solver import Answer, Solver, best_of

METHODS = tuple(all_methods())
CITY = City.uniform(30, seed=5)
SPEC = BenchmarkSpec(run="b", sizes=(20, 22), instances=(5, 3), samples=(1, 4), heuristic_samples=(2,))
WEIGHTS = "63164d6b0e29f82129c66186277f4720a173ed157b4dee78fdef894a7aab4214"


@dataclass
class Sweeper:
    """Solver whose run k does not depend on earlier runs, and that counts its runs."""

    runs: int = 0
    label = version = device = configuration = "any"

    def solve(
        self, city: City, instances: Sequence[Instance], *, samples: int, seed: int
    ) -> Iterator[Answer]:
        for instance in instances:
            yield best_of(self.run, city, instance, samples=samples, seed=seed)

    def run(self, city: City, instance: Instance, seed: int) -> Solution:
        self.runs += 1
        order = np.random.default_rng((seed, instance.n, int(instance.ids[0]))).permutation(instance.ids)
        return canonical(city, Solution.of([[node] for node in order[:-4]] + [order[-4:-2], order[-2:]]))


@dataclass
class Timed(Sweeper):
    """Solver of a plugin whose configuration does not name its time limit."""

    time_limit: float | None = None


def block_of(store: Store, spec: BenchmarkSpec, method: str) -> Block:
    """Return the method's block with its stored answers."""
    block = make_block(store, CITY, spec, method, Models(attention=attention_cards(store, CITY, spec)))
    block.find(stored_parts(store, spec.run))
    return block


def answered(store: Store, spec: BenchmarkSpec, method: str) -> tuple[int, list[PartRow]]:
    """Solve what is missing; return the number of runs and the rows."""
    block, solver = block_of(store, spec, method), Sweeper()
    finish(block, solver)
    assert list(block.missing()) == []
    return solver.runs, list(block.rows())


def finish(block: Block, solver: Solver) -> None:
    for part in block.missing():
        solve_part(Task(part, solver), WorkerContext(block.store, CITY, 1))
        block.take(part)


def changed(**fields: object) -> BenchmarkSpec:
    return SPEC.model_copy(update=fields)


@pytest.mark.parametrize("method", ["hgs", "fm-ns"])
@pytest.mark.parametrize(
    ("change", "runs"),
    [
        ({}, (0, 0)),
        ({"instances": (6, 3)}, (2, 5)),  # one more instance: 2 runs, or 1 + 4 samples
        ({"sizes": (20, 21, 22), "instances": (5, 1, 3)}, (2, 5)),
        # another number starts over: runs are timed at each of them, decoding is repeated for each
        ({"heuristic_samples": (2, 5), "samples": (1, 4, 5)}, (5 * 8, 10 * 8)),
        ({"methods": ("pyvrp", "hgs", "fm-gs", "fm-ns")}, (0, 0)),
        ({"instances": (2, 1)}, (0, 0)),
        ({"seed": 2}, (2 * 8, 5 * 8)),
    ],
)
def test_an_extension_costs_what_is_new_and_equals_one_run(
    store: Store, tmp_path: Path, method: str, change: dict[str, object], runs: tuple[int, int]
) -> None:
    """Existing parts stay; rows are those of a benchmark that requested everything at once."""
    answered(store, SPEC, method)
    before = {path: store.get(path) for path in store.list("benchmarks")}
    took, rows = answered(store, changed(**change), method)
    assert took == runs[method == "fm-ns"]
    assert {path: store.get(path) for path in before} == before
    _, at_once = answered(Store.open(tmp_path / "other"), changed(**change), method)
    one, other = ([(row.n, row.index, row.samples, row.costs) for row in each] for each in (rows, at_once))
    assert one == other
    for row in rows:
        assert len(row.seconds) == len(row.samples)
        assert list(row.seconds) == sorted(row.seconds) or method == "fm-ns"


def test_a_plugin_with_a_time_limit_has_its_row_and_those_at_equal_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers within one limit are not those within another, whatever its configuration says."""
    monkeypatch.setitem(
        SOLVERS._entries, "sweep", SolverEntry("Sweep", f"{__name__}:Timed", takes=("time_limit",))
    )
    spec = BenchmarkSpec(**SPEC.model_dump() | {"methods": ["sweep", "sweep-equal"], "equal_time": [0.5, 2]})
    half, two = all_methods()["sweep-equal"].specs(spec)
    folders = set[str]()
    for each, name in ((spec, "sweep"), (half, "sweep-equal"), (two, "sweep-equal")):
        block = block_of(store, each, name)
        assert isinstance(block.program, Timed)
        finish(block, block.program)
        folders |= {part.block for part in stored_parts(store, SPEC.run)}
    assert len(folders) == 3


def test_runs_are_timed_at_each_number(store: Store) -> None:
    class Slowing(Sweeper):
        def solve(self, *arguments: Any, samples: int, seed: int) -> Iterator[Answer]:
            for answer in super().solve(*arguments, samples=samples, seed=seed):
                elapsed = np.arange(seed, seed + samples, dtype=float).cumsum()  # run k takes its seed
                yield replace(answer, elapsed=elapsed, seconds=float(elapsed[-1]))

    block = block_of(store, changed(heuristic_samples=(1, 2, 4)), "hgs")
    finish(block, Slowing())
    assert {row.seconds for row in block.rows()} == {(1, 3, 10)}


NETWORKS = {"fm-gs", "fm-ns", "fm-bs", "fm-ls"}
SAMPLED = NETWORKS - {"fm-gs", "fm-bs"}


@pytest.mark.parametrize(
    ("change", "methods"),
    [
        ({"seed": 2}, set(METHODS)),
        ({"samples": (1, 9)}, SAMPLED | {"am", "random-ls"}),
        ({"heuristic_samples": (3,)}, set(SOLVERS)),
        ({"demand": (1, 8)}, set(METHODS)),
        ({"p": 0.8}, SAMPLED),
        ({"temperature": 0.5}, SAMPLED),
        ({"polish_temperature": 1.5}, {"fm-ls"}),
        ({"rotations": 7}, SAMPLED),
        ({"beam_width": 3}, {"fm-bs"}),
        ({"equal_time": 1.0}, {"hgs-equal", "hgs-own-equal", "pyvrp-equal"}),
        ({"hgs_iterations": 9}, {"hgs"}),
        ({"hgs_fleet": 99}, {"hgs"}),
        ({"pyvrp_iterations": 9}, {"pyvrp"}),
        ({"workers": 2, "run": "other", "instances": 9}, set()),
    ],
)
def test_a_name_depends_on_what_determines_the_answers_and_nothing_else(
    store: Store, change: dict[str, object], methods: set[str]
) -> None:
    card = ModelCard("m", 1, CITY.city_id, {}, "r", "d", "f", True, {}, 0, WEIGHTS)
    put_attention_model(store, 20)

    def names(spec: BenchmarkSpec, card: ModelCard = card) -> dict[str, str]:
        models = Models(card, attention_cards(store, CITY, spec))
        blocks = {method: make_block(store, CITY, spec, method, models) for method in METHODS}
        return {m: b.identities[20].block(m) for m, b in blocks.items() if 20 in b.identities}

    spec = BenchmarkSpec(sizes=(20,), attention="smoke")
    before, after = names(spec), names(spec.model_copy(update=change))
    assert {method for method in before if before[method] != after[method]} == methods & before.keys()
    other = names(spec, replace(card, weights_sha256="other"))
    assert {method for method in before if before[method] != other[method]} == NETWORKS


def put_attention_model(store: Store, n: int, diverged: str | None = None) -> None:
    sha256 = "" if diverged else "aa"
    card = AttentionCard("smoke", n, CITY.city_id, {}, {}, 1, 0.0, (), 1.0, "", diverged, 0, sha256)
    store.put_json(layout.attention_card("smoke", n), asdict(card))


def test_sizes_without_an_attention_model_have_a_reason_in_the_table(store: Store) -> None:
    """One is missing, one diverged, one exists: a row for it, and a note for each of the others."""
    put_attention_model(store, 20)
    put_attention_model(store, 21, diverged="step 7: the loss is no number")
    spec = changed(methods=("am",), sizes=(20, 21, 22), instances=2, samples=(1, 4), attention="smoke")
    block = block_of(store, spec, "am")
    assert {part.n for part in block.missing()} == {20}
    finish(block, Sweeper())
    text = to_markdown(benchmark_table(results_frame(write_results(store, "b", list(block.rows())))))
    assert "there is no attention model for n=22: run mcvrp am" in text
    assert "diverged in training at step 7" in text
    assert re.findall(r"^\| (2[012]) \| AM \(VS, s = [14]\)", text, re.MULTILINE) == ["20", "20"]
