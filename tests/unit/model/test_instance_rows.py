"""Instances made many at once are those made one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mcvrp.model.errors import McvrpError
from mcvrp.model.instances import InstanceStream, Rules, instance_rows
from mcvrp.model.problem import City
from mcvrp.model.random import philox_rows, philox_uniforms

WORD = st.integers(0, 2**64 - 1)


@given(st.integers(0, 2**128 - 1), st.lists(st.tuples(WORD, WORD), min_size=1, max_size=3), st.integers(1, 9))
def test_the_streams_of_philox_are_numpys(key: int, streams: list[tuple[int, int]], count: int) -> None:
    """Word for word, whatever the key and the counters."""
    rows = philox_rows(key, np.array(streams, dtype=np.uint64), count)
    assert np.array_equal(rows, [philox_uniforms(key, stream, count) for stream in streams])


@pytest.mark.parametrize(
    ("customers", "n", "rules"),
    [
        (60, 20, Rules()),
        (21, 21, Rules(demand=(2, 5), capacity=(5, 40))),  # nearly all of the city: the shuffle meets itself
        (1, 1, Rules(capacity=(9, 9))),
        (2000, 500, Rules()),
    ],
)
def test_rows_are_the_instances_of_the_stream(customers: int, n: int, rules: Rules) -> None:
    """Customers, demands and capacities of each, the depot first."""
    stream = InstanceStream(City.uniform(customers, seed=2), 7, "train", rules)
    rows = instance_rows(stream, n, 3, 20)
    assert len(rows.ids) == 17
    for k, i in enumerate(range(3, 20)):
        instance = stream(n, i)
        assert np.array_equal(rows.ids[k], instance.nodes)
        assert np.array_equal(rows.demands[k], [0, *instance.demands])
        assert rows.capacity[k] == instance.capacity


def test_a_size_that_the_stream_refuses_is_refused() -> None:
    """The same sentence as for one instance."""
    with pytest.raises(McvrpError, match="cannot draw 21 customers from a city of 20"):
        instance_rows(InstanceStream(City.uniform(20, seed=1), 1, "train"), 21, 0, 1)
