"""From a network's samples to the optimum: local search, re-construction, warm-started searches."""

from __future__ import annotations

import numpy as np
import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, cost, infeasibility
from mcvrp.tasks.solvers.fm_mcvrp import FmMcvrpSolver
from mcvrp.tasks.solvers.local_search import Polished
from mcvrp.tasks.solvers.reconstruction import Reconstructed
from mcvrp.tasks.solvers.registry import SOLVERS
from mcvrp.tasks.solvers.solver import Solver
from mcvrp.tasks.solvers.warm_start import WarmStarted
from tests.support.networks import small_solver
from tests.support.optimum import SMALL, best_cost

LINES = City.uniform(30, seed=3)
ROADS = np.random.default_rng(1).integers(1, 1000, (31, 31)).astype(float)
ONE_WAY = City(LINES.xy, ROADS)


def model() -> FmMcvrpSolver:
    return small_solver(LINES, rotations=4, p=1.0)


@pytest.mark.parametrize(("finisher", "city"), [("hgs", LINES), ("pyvrp", LINES), ("pyvrp", ONE_WAY)])
def test_a_search_from_samples_ends_at_the_optimum(finisher: str, city: City) -> None:
    """On seven customers, from an untrained network's samples, in a total that leaves it time."""
    instances = [InstanceStream(city, 1, "test", SMALL)(7, i) for i in range(2)]
    starts = tuple(model().starts(city, instances, samples=4, seed=1))
    total = 0.2 + max(start.seconds for start in starts)
    answers = WarmStarted(SOLVERS[finisher], total, starts).solve(city, instances, samples=4, seed=1)
    for instance, answer in zip(instances, answers, strict=True):
        assert answer.costs[0] == pytest.approx(best_cost(city, instance), rel=1e-6)


@pytest.mark.parametrize("city", [LINES, ONE_WAY])
@pytest.mark.parametrize("improve", [Polished, lambda model: Reconstructed(model, 3, 10, 8)])
def test_improved_samples_lie_between_the_optimum_and_the_samples(improve: object, city: City) -> None:
    """Also where the way back is another."""
    instance = InstanceStream(city, 1, "test", SMALL)(7, 0)
    improved: Solver = improve(model())  # type: ignore[operator]
    (before,) = model().solve(city, [instance], samples=8, seed=1)
    (answer,) = improved.solve(city, [instance], samples=8, seed=1)
    assert answer.solution is not None
    assert infeasibility(instance, answer.solution) is None
    assert answer.costs.min() == pytest.approx(cost(city, answer.solution))
    assert best_cost(city, instance) - 1e-9 <= answer.costs.min() <= before.costs.min() + 1e-9


def test_parts_of_forty_customers_get_better_one_by_one() -> None:
    """Re-construction of parts of ten takes a good share of an untrained network's cost."""
    city = City.uniform(50, seed=2)
    solver = small_solver(city, rotations=8, p=1.0)
    instance = InstanceStream(city, 1, "test", Rules(capacity=(15, 20)))(40, 0)
    (before,) = solver.solve(city, [instance], samples=8, seed=1)
    (after,) = Reconstructed(solver, 10, 10, 32).solve(city, [instance], samples=8, seed=1)
    assert after.solution is not None
    assert infeasibility(instance, after.solution) is None
    assert canonical(city, after.solution) == after.solution
    assert after.costs[0] < 0.9 * before.costs.min()
