"""A day's orders through the real command, and through the flow under a real Prefect server."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcvrp.storage.store.store import Store
from tests.support.command import Workplace
from tests.support.solving import put_day

DATA = Path(__file__).parents[3] / "support" / "data"
ORDERS = "customer,demand\n" + "".join(f"{k},{1 + k % 9}\n" for k in (*range(1, 31), 7))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A workplace whose store has a city and a model of it, both called small."""
    place = Workplace.new(tmp_path_factory.mktemp("solve"))
    put_day(Store.open(place.store))
    (place.folder / "monday.csv").write_text(ORDERS)
    return place


def test_the_command_routes_a_day(workplace: Workplace) -> None:
    """Files where they were asked for, figures on stdout, no server, no Ray; a second time it says so."""
    out = workplace.folder / "out"
    command = f"solve {workplace.folder}/monday.csv --city small --model small --capacity 30 --out {out}"
    done = workplace.mcvrp(*command.split(), "--samples", "5", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["lines"], found["customers"], found["capacity"]) == (31, 30, 30)
    assert found["compared"]["label"] == "HGS"
    assert {Path(file).name for file in found["files"]} == set(os.listdir(out))
    again = workplace.mcvrp(*command.split(), "--samples", "5", "--no-hgs")
    assert "2 orders of customer '7' merged into one of 16" in again.stdout
    assert "routes of the same orders were there" in again.stdout
    assert "HGS" not in again.stdout
    refused = workplace.mcvrp(*command.replace("--capacity 30", "--capacity 31").split())
    assert refused.returncode == 2
    assert "routes of other orders" in refused.stderr
    assert not workplace.recorded("flow_run")


def test_the_command_routes_an_instance_of_cvrplib(tmp_path: Path) -> None:
    """Neither store nor model need be there; the answer is compared with the solution beside it."""
    place = Workplace.new(tmp_path)
    command = f"solve {DATA / 'E-n22-k4.vrp'} --time-limit 0.3 --out {tmp_path}/out --json"
    done = place.mcvrp(*command.split())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["cost"], found["best_known"], found["model"]) == (375, 375, None)
    assert (tmp_path / "out" / "E-n22-k4.sol").read_text().endswith("Cost 375\n")
    assert not place.store.exists()


def test_the_flow_leaves_routes_in_the_store_and_a_map_in_prefect(workplace: Workplace) -> None:
    """Orders as a form gives them; figures, picture and addresses are one artifact."""
    program = """
from mcvrp.flows.config import settings
settings.prepare(verbose=False)
from mcvrp.flows.server.server import prefect_server
with prefect_server():
    from mcvrp.flows.solve import solve
    found = solve(
        city="small", model="small", capacity=30, solve={"samples": 4, "hgs": False},
        orders=[{"customer": "3", "demand": 4}, {"customer": "9", "demand": 5}],
    )
    from prefect.client.orchestration import get_client
    with get_client(sync_client=True) as client:
        (artifact,) = (found for found in client.read_artifacts() if found.type == "markdown")
print(found.customers, found.cost > 0)
print(artifact.data)
"""
    done = workplace.python("-c", program)
    assert done.returncode == 0, done.stderr
    assert "2 True" in done.stdout
    assert "![The routes](data:image/png;base64," in done.stdout
    (folder,) = (workplace.store / "solutions").iterdir()
    assert folder.name.startswith("orders-")
    assert f"{folder}/routes.geojson" in done.stdout
    names = {name for name, _ in workplace.recorded("task_run")}
    assert names == {"route 2 customers", f"write solutions/{folder.name}"}
