"""Pictures of solutions: any number of routes."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.image import imread

from mcvrp.model.canonical_form import canonical
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Instance, Solution
from mcvrp.tasks.support.pictures import png, solutions

CITY = City.uniform(60, seed=2)


@pytest.mark.parametrize("n", [1, 20])
def test_solutions_of_any_number_of_routes_can_be_drawn(n: int) -> None:
    """A route per customer needs more routes than there are colours."""
    instance = InstanceStream(CITY, 1, "test", Rules(capacity=(9, 9)))(n, 0)
    alone = canonical(CITY, Solution.of([i] for i in instance.ids.tolist()))
    panels = [("one", alone), ("two", alone)]
    figures = (solutions(CITY, instance, panels[:count]) for count in (1, 2))
    one, two = (imread(io.BytesIO(png(figure)), format="png") for figure in figures)
    assert two.shape[1] > one.shape[1]
    assert (two[..., :3].min(axis=-1) < 0.95).mean() > 0.02  # the share that is not white


def test_a_reference_that_costs_nothing_has_no_gap() -> None:
    city = City(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]))
    instance = Instance.of(city, {1: 2}, 5)
    figure = solutions(city, instance, [("one", Solution(((1,),))), ("two", Solution(((1,),)))])
    assert [axis.get_title().splitlines()[1] for axis in figure.axes] == ["distance 0.000, 1 route"] * 2
