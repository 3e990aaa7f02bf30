"""Costs along roads, by a real OSRM with the streets of Helsinki's centre."""

from __future__ import annotations

import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.city.osrm_server import Osrm, osrm
from mcvrp.tasks.city.roads import By, road_costs

pytest_plugins = ["tests.support.osrm"]
WEST, SOUTH, EAST, NORTH = 24.93, 60.16, 24.955, 60.176


def somewhere(count: int, seed: int = 1) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(WEST, EAST, count), rng.uniform(SOUTH, NORTH, count)])


def connected(costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of places, most of all, between all of which there are roads."""
    missing = np.isnan(costs) | np.isnan(costs.T)
    reached = ~missing[missing.sum(axis=0).argmin()]
    return reached & ~missing[:, reached].any(axis=1)


@pytest.fixture
def server(helsinki: Path, tmp_path: Path) -> Iterator[Osrm]:
    with osrm(str(helsinki), "car", tmp_path / "cache") as started:
        yield started


@pytest.mark.parametrize("by", ["time", "distance"])
@pytest.mark.parametrize("most", [2, 7, 40, 2_000])
def test_costs_are_those_of_the_server(server: Osrm, by: By, most: int) -> None:
    """Whatever the size of blocks; pair by pair, and NaN where it knows no way."""
    places = somewhere(17)
    costs, off_road = road_costs(replace(server, most=most), places, by)
    kind = "duration" if by == "time" else "distance"
    for a, b in np.random.default_rng(2).integers(0, 17, (30, 2)):
        answer = server.ask("table", places[[a, b]], annotations=kind, sources="0", destinations="1")
        (expected,) = np.array(answer[f"{kind}s"], dtype=float).ravel()
        assert costs[a, b] == expected or (np.isnan(expected) and np.isnan(costs[a, b]))
    assert np.isnan(costs).any()
    assert not np.diag(costs).any()
    assert (off_road >= 0).all()


@pytest.mark.parametrize("by", ["time", "distance"])
def test_no_cost_is_negative(server: Osrm, by: By) -> None:
    """Those between places of one street are in OSRM's tables, at times; a route's are not."""
    places = np.array([[24.944029, 60.167177], [24.944021, 60.167223], [24.953324, 60.166356]])
    kind = "duration" if by == "time" else "distance"
    costs = np.array(server.ask("table", places, annotations=kind)[f"{kind}s"], dtype=float)
    assert costs.min() < 0
    found, _ = road_costs(server, places, by)
    assert found.min() == 0
    assert np.array_equal(found[costs >= 0], costs[costs >= 0])
    assert np.abs(found - costs).max() < 1


def test_a_graph_that_is_damaged_is_named(helsinki: Path, tmp_path: Path) -> None:
    """And made again once it is removed, as the sentence says."""
    with osrm(str(helsinki), "car", tmp_path):
        (made,) = (each for each in (tmp_path / "roads").iterdir() if each.is_dir())
    for file in made.glob("graph.osrm.*"):
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(McvrpError, match=f"delete {made}"), osrm(str(helsinki), "car", tmp_path):
        pass
    shutil.rmtree(made)
    with osrm(str(helsinki), "car", tmp_path) as server:
        assert road_costs(server, somewhere(5), "time")[0].shape == (5, 5)


def test_a_graph_is_made_once(helsinki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the content of the extract and of the profile; what was interrupted is made again."""
    half = tmp_path / "roads" / "half"
    half.mkdir(parents=True)
    with osrm(str(helsinki), "car", tmp_path):
        (made,) = [each for each in (tmp_path / "roads").iterdir() if each.is_dir() and each != half]
    times = {file: file.stat().st_mtime_ns for file in made.iterdir()}
    (copy := tmp_path / "copy.osm.pbf").write_bytes(helsinki.read_bytes())
    with osrm(str(copy), "car", tmp_path):
        assert times == {file: file.stat().st_mtime_ns for file in made.iterdir()}
    with osrm(str(copy), "bicycle", tmp_path) as cycling, osrm(str(copy), "car", tmp_path) as driving:
        places = somewhere(5)
        slow, quick = (road_costs(each, places, "time")[0] for each in (cycling, driving))
        assert np.nansum(slow) > np.nansum(quick)


def test_what_is_no_extract_is_refused(
    helsinki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (none := tmp_path / "none.osm.pbf").write_bytes(b"no extract")
    for extract, profile, part in (
        (none, "car", r"osrm-extract failed with .*none\.osm\.pbf"),
        (tmp_path / "missing.osm.pbf", "car", "No such file"),
        (helsinki, "boat", "has no profile 'boat'"),
        (helsinki, str(tmp_path / "own.lua"), "own.lua"),
    ):
        with pytest.raises(McvrpError, match=part), osrm(str(extract), profile, tmp_path / "cache"):
            pass
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(McvrpError, match="needs osrm-extract: install"), osrm(str(helsinki), "car", tmp_path):
        pass


@contextmanager
def answering(status: int, body: bytes, seconds: float = 0.0) -> Iterator[str]:
    """Yield the address of a server that answers everything so, after ``seconds``."""
    over = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            over.wait(seconds)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        over.set()
        served.shutdown()


@pytest.mark.parametrize(
    ("status", "body", "seconds", "part"),
    [
        (200, b"<html>", 0.0, "is no OSRM server"),
        (200, b'["code"]', 0.0, "is no OSRM server"),
        (200, b"[" * 100_000, 0.0, "is no OSRM server"),
        (404, b"not here", 0.0, "is no OSRM server"),
        (200, b'{"code": "Ok"}', 0.0, "gives no table"),
        (400, b'{"code": "NotImplemented", "message": "no tables\\n"}', 0.0, "gives no table ('no tables"),
        (200, b'{"code": "Ok", "durations": [[0]], "sources": [{"distance": 0}]}', 0.0, "wrong shape"),
        (400, b'{"code": "TooBig"}', 0.0, "gives no table ('TooBig"),
        (200, b"", 30.0, "no OSRM server answers"),
    ],
)
def test_a_server_that_does_not_do_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, seconds: float, part: str
) -> None:
    monkeypatch.setattr("mcvrp.tasks.city.osrm_server._ANSWER_SECONDS", 0.5)
    with (
        answering(status, body, seconds) as address,
        osrm(f"{address}/", "car", tmp_path) as server,
        pytest.raises(McvrpError) as caught,
    ):
        road_costs(server, somewhere(5), "time")
    assert part in str(caught.value)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_server_is_one_sentence() -> None:
    with pytest.raises(McvrpError, match=r"no OSRM server answers at http://127\.0\.0\.1:1 "):
        road_costs(Osrm("http://127.0.0.1:1"), somewhere(5), "time")
