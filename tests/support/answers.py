"""Requirements that every answer of a solver meets."""

from __future__ import annotations

import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.problem import City, Instance, Solution, cost, infeasibility
from mcvrp.tasks.solvers.solver import Answer


def require_answer(city: City, instance: Instance, answer: Answer, samples: int = 1) -> Solution:
    """Require a feasible, canonical solution, as expensive as the best of the samples; return it."""
    assert answer.solution is not None
    assert answer.failure is None
    assert infeasibility(instance, answer.solution) is None
    assert canonical(city, answer.solution) == answer.solution
    assert answer.costs.shape == (samples,)
    assert answer.costs.min() == pytest.approx(cost(city, answer.solution), rel=1e-9)
    assert answer.seconds > 0
    return answer.solution
