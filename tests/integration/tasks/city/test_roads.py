"""Costs along roads, by a real OSRM with the streets of Helsinki's centre."""

from __future__ import annotations

import http.server
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.city import roads
from mcvrp.tasks.city.osrm import Osrm, TooManyPlaces, osrm
from mcvrp.tasks.city.roads import By, road_costs

pytest_plugins = ["tests.support.osrm"]
WEST, SOUTH, EAST, NORTH = 24.93, 60.16, 24.955, 60.176


def somewhere(count: int, seed: int = 1) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(WEST, EAST, count), rng.uniform(SOUTH, NORTH, count)])


@pytest.fixture
def server(helsinki: Path, tmp_path: Path) -> Iterator[Osrm]:
    with osrm(str(helsinki), "car", tmp_path / "cache") as started:
        yield started


@pytest.mark.parametrize("by", ["time", "distance"])
@pytest.mark.parametrize("most", [2, 7, 40, 2_000])
def test_costs_are_those_of_the_server(
    server: Osrm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: By, most: int
) -> None:
    """Whatever the size of blocks; pair by pair, and NaN where it knows no way."""
    monkeypatch.setattr(roads, "MOST_COORDINATES", most)
    places = somewhere(17)
    found = road_costs(server, places, by, tmp_path)
    kind = "duration" if by == "time" else "distance"
    for a, b in np.random.default_rng(2).integers(0, 17, (30, 2)):
        answer = server.ask("table", places[[a, b]], annotations=kind, sources="0", destinations="1")
        (expected,) = np.array(answer[f"{kind}s"], dtype=float).ravel()
        assert found.costs[a, b] == expected or (np.isnan(expected) and np.isnan(found.costs[a, b]))
    assert np.isnan(found.costs).any()
    assert not np.diag(found.costs).any()
    assert (found.off_road >= 0).all()


@pytest.mark.parametrize("by", ["time", "distance"])
def test_no_cost_is_negative(server: Osrm, tmp_path: Path, by: By) -> None:
    """Those between places of one street are in OSRM's tables, at times; a route's are not."""
    places = np.array([[24.944029, 60.167177], [24.944021, 60.167223], [24.953324, 60.166356]])
    kind = "duration" if by == "time" else "distance"
    costs = np.array(server.ask("table", places, annotations=kind)[f"{kind}s"], dtype=float)
    assert costs.min() < 0
    found = road_costs(server, places, by, tmp_path).costs
    assert found.min() == 0
    assert np.array_equal(found[costs >= 0], costs[costs >= 0])
    assert np.abs(found - costs).max() < 1


def test_the_limit_of_a_server_is_found_out(
    helsinki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, cache = somewhere(50), tmp_path / "cache"
    with osrm(str(helsinki), "car", cache) as server:
        whole = road_costs(server, places, "time", tmp_path / "whole")
    monkeypatch.setattr("mcvrp.tasks.city.osrm.MOST_COORDINATES", 20)
    with osrm(str(helsinki), "car", cache) as server:
        with pytest.raises(TooManyPlaces):
            server.ask("table", places[:21], annotations="duration")
        found = road_costs(server, places, "time", tmp_path / "parts")
    assert np.array_equal(found.costs, whole.costs, equal_nan=True)


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: data[:264] + bytes(8) + data[272:]]
)
def test_finished_rows_that_are_damaged_are_asked_for_again(
    server: Osrm, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    whole = road_costs(server, somewhere(9), "time", tmp_path)
    (file,) = whole.rows.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    for _ in range(2):
        again = road_costs(server, somewhere(9), "time", tmp_path)
        assert np.array_equal(again.costs, whole.costs, equal_nan=True)
        assert np.array_equal(again.off_road, whole.off_road)


class _Relay(Osrm):
    """An address at which ``to`` answers."""

    to: Osrm

    def ask(self, service: str, lonlat: NDArray[np.float64], **options: str) -> dict[str, Any]:
        return type(self).to.ask(service, lonlat, **options)


def test_finished_rows_of_other_roads_are_asked_for_again(helsinki: Path, tmp_path: Path) -> None:
    """As of a server that was started again at its address, with another profile."""
    places, relay, cache = somewhere(9), _Relay("http://127.0.0.1:1"), tmp_path / "cache"
    with osrm(str(helsinki), "foot", cache) as walking, osrm(str(helsinki), "car", cache) as driving:
        _Relay.to = walking
        road_costs(relay, places, "time", tmp_path)
        _Relay.to = driving
        found = road_costs(relay, places, "time", tmp_path)
        own = road_costs(driving, places, "time", tmp_path)
    assert np.array_equal(found.costs, own.costs, equal_nan=True)


class _Done(Osrm):
    """A server that another import has asked the same, too; it is done, and its rows are removed."""

    rows: Path

    def ask(self, service: str, lonlat: NDArray[np.float64], **options: str) -> dict[str, Any]:
        shutil.rmtree(type(self).rows, ignore_errors=True)
        return super().ask(service, lonlat, **options)


def test_two_imports_at_once_do_not_disturb_each_other(server: Osrm, tmp_path: Path) -> None:
    whole = road_costs(server, somewhere(9), "time", tmp_path)
    shutil.rmtree(whole.rows)
    _Done.rows = whole.rows
    found = road_costs(_Done(**vars(server)), somewhere(9), "time", tmp_path)
    assert np.array_equal(found.costs, whole.costs, equal_nan=True)


def test_a_graph_is_made_once(helsinki: Path, tmp_path: Path) -> None:
    """By the content of the extract and of the profile; a damaged one is named, and made again."""
    cache, places = tmp_path / "cache", somewhere(5)
    (copy := tmp_path / "copy.osm.pbf").write_bytes(helsinki.read_bytes())
    times = {file: file.stat().st_mtime_ns for file in cache.rglob("graph.*")}
    with osrm(str(helsinki), "foot", cache) as walking, osrm(str(copy), "car", cache) as driving:
        slow, quick = (road_costs(each, places, "time", tmp_path) for each in (walking, driving))
    assert np.nansum(slow.costs) > np.nansum(quick.costs)
    assert times == {file: file.stat().st_mtime_ns for file in cache.rglob("graph.*")}
    made = cache / "roads" / (driving.graph or "")
    for file in made.glob("graph.osrm.*"):
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(McvrpError, match=f"delete {made}"), osrm(str(copy), "car", cache):
        pass
    shutil.rmtree(made)
    with osrm(str(copy), "car", cache) as server:
        again = road_costs(server, places, "time", tmp_path / "again")
    assert np.array_equal(again.costs, quick.costs, equal_nan=True)


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
        (400, b'{"code": "TooBig"}', 0.0, "gives no table of two places"),
        (414, b"too long", 0.0, "gives no table of two places"),
        (200, b"", 30.0, "no OSRM server answers"),
    ],
)
def test_a_server_that_does_not_do_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, seconds: float, part: str
) -> None:
    monkeypatch.setattr("mcvrp.tasks.city.osrm._ANSWER_SECONDS", 0.5)
    with (
        answering(status, body, seconds) as address,
        osrm(f"{address}/", "car", tmp_path) as server,
        pytest.raises(McvrpError) as caught,
    ):
        road_costs(server, somewhere(5), "time", tmp_path)
    assert part in str(caught.value)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)
