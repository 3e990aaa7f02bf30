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


@pytest.mark.parametrize("n", [1, 5, 60])
def test_solutions_of_any_number_of_routes_can_be_drawn(n: int) -> None:
    """A route per customer needs more routes than there are colours; as an SVG, it has no date."""
    instance = InstanceStream(CITY, 1, "test", Rules(capacity=(9, 9)))(n, 0)
    alone = canonical(CITY, Solution.of([i] for i in instance.ids.tolist()))
    one = solutions(CITY, instance, [("one", alone)])
    two = solutions(CITY, instance, [("one", alone), ("two", alone)])
    assert pixels(two).shape[1] > pixels(one).shape[1]
    assert drawn(two) > 0.02
    text = svg(one).decode()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert text.count("<image") == (n < CITY.customers)  # of all addresses without an order
    assert "<dc:date>" not in text
