import math

import numpy as np
import pytest
import torch

from mcvrp.model.canonical_form import canonical
from mcvrp.model.features import CityTable, rolled_path
from mcvrp.model.problem import City
from tests.support.batches import batch_of


def turned(city, angle):
    """Return ``city`` turned about its depot, in a frame that is large enough."""
    delta = city.xy - city.xy[0]
    cos, sin = math.cos(angle), math.sin(angle)
    return City(delta @ np.array([[cos, sin], [-sin, cos]]), origin=(-1.0, -1.0), scale=2.0)


@pytest.mark.parametrize("angle", [0.0, 0.7, 2.0, 3.5, 6.2])
def test_rolling_is_what_the_turned_city_calls_canonical(city, pairs, angle):
    """Canonical routes, rolled, are the canonical routes of the city turned by the same angle."""
    labels = [(instance, canonical(city, solution)) for instance, solution in pairs]
    batch = batch_of(labels, angle)
    found = rolled_path(CityTable.of(city), batch.ids, batch.path, batch.path_lengths, batch.angle)
    seen = turned(city, float(batch.angle[0]))
    expected = batch_of([(instance, canonical(seen, solution)) for instance, solution in labels])
    assert torch.equal(found, expected.path)


def test_padding_and_neighbours_change_nothing(city, pairs):
    """A path is rolled alike alone and among longer ones; its padding stays where it is."""
    labels = [(instance, canonical(city, solution)) for instance, solution in pairs]
    table, whole = CityTable.of(city), batch_of(labels, 4.0)
    together = rolled_path(table, whole.ids, whole.path, whole.path_lengths, whole.angle)
    for row, label in enumerate(labels):
        alone = batch_of([label], 4.0)
        path = rolled_path(table, alone.ids, alone.path, alone.path_lengths, alone.angle)[0]
        assert torch.equal(together[row, : len(path)], path)
        assert not together[row, len(path) :].any()
