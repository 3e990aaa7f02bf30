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


def test_routes_may_have_lines_of_streets() -> None:
    """Instead of straight ones, each panel its own; axes are then in metres."""
    city = City.framed(np.array([[0.0, 0], [300, 400]]), np.array([[0.0, 70], [90, 0]]), unit="s")
    instance = Instance(city.city_id, np.array([1]), np.array([2]), 5)
    street = np.array([[0.0, 0], [0, 400], [300, 400], [300, 0], [0, 0]])
    panels = [(name, Solution(((1,),))) for name in ("one", "two")]
    one, two = solutions(city, instance, panels, streets=[[street], [street[::-1]]]).axes
    for axis, line in ((one, street), (two, street[::-1])):
        assert any(np.array_equal(drawn.get_xydata(), line) for drawn in axis.lines)
        assert axis.get_xlabel() == "x (m)"
        assert "travel time 2 min 40 s" in axis.get_title()
