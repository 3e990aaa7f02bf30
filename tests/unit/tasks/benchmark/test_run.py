"""Invalid input of a benchmark, refused in one sentence before any work, and failures of solvers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.flows.config.preset import load_preset
from mcvrp.model.decoding import Greedy, Nucleus, decode
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, Instance
from mcvrp.storage import layout
from mcvrp.storage.benchmarks import write_results
from mcvrp.storage.models.attention import AttentionCard
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.part import Task, WorkerContext, solve_part
from mcvrp.tasks.benchmark.prepare import make_block
from mcvrp.tasks.benchmark.run import results_frame
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.city.make import make_city
from mcvrp.tasks.report.formats import to_markdown
from mcvrp.tasks.report.tables import benchmark_table
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.pyvrp import PyVRP
from mcvrp.tasks.solvers.solver import Answer, Solver, SolverFailed
from tests.support.networks import small_network

SMOKE = load_preset("smoke")
CITY = City.uniform(30, seed=5)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Store of the command, which sets environment variables for its children."""
    before = dict(os.environ)
    os.environ["MCVRP_STORE"] = str(tmp_path / "store")
    os.environ.pop("RAY_ADDRESS", None)
    yield Store.open(tmp_path / "store")
    os.environ.clear()
    os.environ.update(before)


def put_models(store: Store, city_id: str) -> None:
    """Store a model and an attention model of another city under the names of the smoke preset."""
    card = ModelCard("smoke", 1, city_id, {"classes": 51}, "r", "d", "f", True, {}, 1, "0" * 64)
    store.put_json(f"{layout.model_dir('smoke', 1)}/model.json", asdict(card))
    am = AttentionCard("smoke", 20, city_id, {}, {}, 1, 0.0, (), 1.0, "here")
    store.put_json(layout.attention_card("smoke", 20), asdict(am))


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("methods=[hgs,'simulated-annealing']", ["benchmark.methods", "simulated-annealing"]),
        ("instances=[3,4]", ["instances = (3, 4)", "one for each size"]),
        ("sizes=[5]", ["benchmark.sizes.0", "no capacity rule for 5 customers"]),
        ("capacity=[5,8]", ["a vehicle may hold 5", "a customer may want 9"]),
        ("methods=['hgs','fm-ns']", ["model 'smoke'", "routes city 0123456789abcdef, not city"]),
        ("methods=['hgs','am']", ["attention model 'smoke' for n=20", "0123456789abcdef, not of 'smoke' ("]),
    ],
)
def test_the_command_refuses_in_one_sentence(
    store: Store, change: str, parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line that names the field, and nothing is solved."""
    make_city(store, SMOKE.city)
    put_models(store, "0123456789abcdef")
    before = store.list("")
    assert cli.run(["benchmark", "--preset", "smoke", "--set", f"benchmark.{change}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mcvrp: ")
    assert err.count("\n") == 1
    assert all(part in err for part in parts), err
    assert store.list("") == before


def solved(solver: Callable[[], Solver]) -> Callable[[list[Instance]], object]:
    return lambda instances: list(solver().solve(CITY, instances, samples=1, seed=1))


WAYS = {
    "HGS": solved(lambda: HGS(iterations=1)),
    "PyVRP": solved(lambda: PyVRP(iterations=1)),
    "FM-MCVRP": solved(lambda: FmMcvrpSolver(small_network(CITY), Nucleus())),
    "decode": lambda instances: decode(small_network(CITY), CITY, instances, strategy=Greedy()),
}


def day(ids: Sequence[float], demands: Sequence[float], capacity: int = 9, city: City = CITY) -> Instance:
    return Instance(city.city_id, np.array(ids), np.array(demands), capacity)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("orders", "message"),
    [
        (lambda: day([3, 5], [1, 2.5]), r"a demand is a whole number .*, not 2\.5"),
        (lambda: day([3, 31], [1, 2]), r"customer 31 .* is not in the city, whose customers are 1 to 30"),
        (lambda: day([3], [1], city=City.uniform(30, seed=6)), "an instance belongs to city .*, not to city"),
    ],
)
def test_orders_that_cannot_be_routed_are_refused(
    way: str, orders: Callable[[], Instance], message: str
) -> None:
    """Every method names the fault of an instance; no instances have no answers."""
    with pytest.raises(McvrpError, match=message):
        WAYS[way]([orders()])
    assert WAYS[way]([]) == []


class Moody:
    """HGS that fails on its second instance with a reason, and crashes on its fourth."""

    label = "HGS"
    version = device = configuration = "any"

    def __init__(self) -> None:
        errors = (SolverFailed("it gave up"), ZeroDivisionError("division by zero"))
        self.errors = iter((None, errors[0], None, errors[1], None))

    def solve(self, city: City, instances: Sequence[Instance], **runs: int) -> Iterator[Answer]:
        if error := next(self.errors):
            raise error
        yield from HGS(iterations=1).solve(city, instances, **runs)


def test_a_solver_that_fails_on_an_instance_is_recorded_and_counted(store: Store) -> None:
    spec = BenchmarkSpec(run="b", sizes=(20,), instances=5, methods=("hgs",))
    block = make_block(store, CITY, spec, "hgs")
    block.find([])
    (part,) = block.missing()
    solve_part(Task(part, Moody()), WorkerContext(store, CITY, 1))
    block.take(part)
    results = results_frame(write_results(store, "b", list(block.rows()))).set_index("index")
    where = f"(test_run.py, line {Moody.solve.__code__.co_firstlineno + 2})"  # of the plugin's author
    reasons = {1: "SolverFailed: it gave up", 3: f"ZeroDivisionError: division by zero {where}"}
    assert results["failure"].dropna().to_dict() == reasons
    assert results["feasible"].to_dict() == {k: k not in reasons for k in range(5)}
    text = to_markdown(benchmark_table(results.reset_index()))
    assert "HGS: no answer on 2 of 5 instances (N = 20)" in text
