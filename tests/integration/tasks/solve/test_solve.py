"""Routing of a day with the real command, and with the flow under a real Prefect server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import patch

import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.storage.store.store import Store
from tests.support.command import Workplace
from tests.support.origins import recorded
from tests.support.solving import put_day

DATA = Path(__file__).parents[3] / "support" / "data"
ORDERS = "customer,demand\n" + "".join(f"{k},{1 + k % 9}\n" for k in (*range(1, 31), 7))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A workplace whose store has a city and its model, both named small."""
    place = Workplace.new(tmp_path_factory.mktemp("solve"))
    put_day(Store.open(place.store))
    (place.folder / "monday.csv").write_text(ORDERS)
    return place


def test_the_command_routes_a_day(workplace: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    """Files in --out, figures on stdout, no server, no Ray."""
    out = workplace.folder / "out"
    command = f"solve {workplace.folder}/monday.csv --city small --model small --capacity 30 --out {out}"
    command += " --time-limit 120"
    done = workplace.mcvrp(*command.split(), "--samples", "5", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["lines"], document["customers"], document["capacity"]) == (31, 30, 30)
    assert {finding["by"] for finding in document["findings"]} >= {"HGS", "a quick first plan"}
    assert {Path(file).name for file in document["files"]} == set(os.listdir(out))
    with patch.dict(os.environ, workplace.environment(), clear=True):
        assert cli.run([*command.split(), "--samples", "5", "--by", "model"]) == 0
    again = capsys.readouterr().out
    assert "orders of the same customer merged: 2 of '7' into one of 16" in again
    assert "HGS" not in again
    assert not workplace.recorded("flow_run")


@pytest.mark.slow
def test_the_flow_leaves_routes_in_the_store_and_a_map_in_prefect(workplace: Workplace) -> None:
    """Orders of a form, then a CVRPLIB instance without city and model."""
    (workplace.store / "orders").mkdir()
    (workplace.store / "orders" / "e.vrp").write_bytes((DATA / "E-n22-k4.vrp").read_bytes())
    program = """
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from mcvrp.flows.server.server import prefect_server
with prefect_server():
    from mcvrp.flows.solve import solve
    first = solve(
        city="small", model="small", capacity=30,
        search={"by": "pyvrp", "time_limit": 0.5}, limits={"fleet": 2},
        orders=[{"customer": "3", "demand": 4}, {"customer": "9", "demand": 5}],
    )
    from prefect.client.orchestration import get_client
    with get_client(sync_client=True) as client:
        (artifact,) = (each for each in client.read_artifacts() if each.type == "markdown")
    again = solve(
        city=None, model=None, orders="store:orders/e.vrp", unrounded=True,
        search={"time_limit": 2}, limits={"fleet": 5}, decoding={"samples": 0},
    )
print(first.instance.n, first.cost > 0, again.planned.city_name, again.cost.is_integer(), again.planned.card)
print(len(again.solution.routes) <= 5)
print(*first.notes, *again.notes)
print(artifact.data)
"""
    done = workplace.python("-c", program)
    assert done.returncode == 0, done.stderr
    assert "2 True e False None\nTrue\n" in done.stdout
    assert "the routes satisfy --fleet 2" in done.stdout
    assert "![The routes](data:image/png;base64," in done.stdout
    other, folder = sorted((workplace.store / "solutions").iterdir())
    assert (other.name[:2], folder.name[:7]) == ("e-", "orders-")
    assert f"{folder}/routes.geojson" in done.stdout
    origins = recorded(Store.open(workplace.store), f"solutions/{folder.name}").parents
    assert [parent.path for parent in origins] == ["cities/small", "file:orders"]
    names = {name for name, _ in workplace.recorded("task_run")}
    assert names == {
        *("route 2 customers", f"write solutions/{folder.name}"),
        *("route 21 customers", f"write solutions/{other.name}"),
    }
    assert {name for name, _ in workplace.recorded("flow_run")} == {
        "small: pasted orders",
        "e.vrp",
    }
