"""Pictures of solutions: any number of routes, as pixels and as vectors."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from mcvrp.model.canonical_form import canonical
from mcvrp.model.instances import InstanceStream, Rules
from mcvrp.model.problem import City, Solution
from mcvrp.tasks.support.pictures import solutions, svg
from tests.support.figures import drawn, pixels

CITY = City.uniform(60, seed=2)


def test_a_picture_is_also_an_svg_without_a_clock() -> None:
    """For print: vector graphics, addresses without an order as one image inside."""
    instance = InstanceStream(CITY, 1, "test", Rules(capacity=(9, 9)))(5, 0)
    alone = canonical(CITY, Solution.of([i] for i in instance.ids.tolist()))
    text = svg(solutions(CITY, instance, [("one", alone)])).decode()
    root = ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    assert text.count("<image") == 1
    assert "<dc:date>" not in text


@pytest.mark.parametrize("n", [1, 25, 60])
def test_solutions_of_any_number_of_routes_can_be_drawn(n: int) -> None:
    instance = InstanceStream(CITY, 1, "test", Rules(capacity=(9, 9)))(n, 0)
    alone = canonical(CITY, Solution.of([i] for i in instance.ids.tolist()))
    one = solutions(CITY, instance, [("one", alone)])
    two = solutions(CITY, instance, [("one", alone), ("two", alone)])
    assert pixels(two).shape[1] > pixels(one).shape[1]
    assert drawn(two) > 0.02
