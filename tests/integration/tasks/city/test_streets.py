"""Ways along streets, by a real OSRM with the streets of Helsinki's centre."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pyproj import Geod

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.city.osrm_server import osrm, way
from mcvrp.tasks.city.roads import road_costs
from tests.integration.tasks.city.test_roads import somewhere

pytest_plugins = ["tests.support.osrm"]


@pytest.mark.parametrize("most", [2, 7, 2_000])
def test_a_way_costs_what_the_tables_say(helsinki: Path, tmp_path: Path, most: int) -> None:
    """Leg by leg; its line is as long, and goes by all places. It may be asked for in parts."""
    places = somewhere(60)
    with osrm(str(helsinki), "car", tmp_path) as server:
        times, lengths = (road_costs(server, places, by)[0] for by in ("time", "distance"))
        depot = int(np.isnan(times + times.T).sum(axis=0).argmin())
        others = np.flatnonzero(~np.isnan(times[depot] + times[:, depot]))
        route = [depot, *np.setdiff1d(others, depot), depot]
        found = way(replace(server, most=most), places[route])
    legs = route[:-1], route[1:]
    assert len(route) > 20
    assert np.array_equal(found.seconds, times[legs])
    assert np.array_equal(found.metres, lengths[legs])
    assert Geod(ellps="WGS84").line_length(*found.line.T) == pytest.approx(lengths[legs].sum(), rel=0.01)


def test_no_way_is_one_sentence(helsinki: Path, tmp_path: Path) -> None:
    places = somewhere(60)
    with osrm(str(helsinki), "car", tmp_path) as server:
        times = road_costs(server, places, "time")[0]
        a, b = np.argwhere(np.isnan(times))[0]
        with pytest.raises(McvrpError, match=r"gives no way \('Impossible route"):
            way(server, places[[a, b]])
