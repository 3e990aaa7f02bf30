"""`mcvrp solve`: which city and model a day gets if none is named, and the exit code if a member fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.flows.config.preset import Preset
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, save_city
from mcvrp.storage.store.store import Store
from tests.support.solving import CITY, put_model

pytestmark = pytest.mark.usefixtures("impatient")
DAY = "customer,demand\n" + "".join(f"{k},2\n" for k in range(1, 9))
DATA = Path(__file__).parents[3] / "support" / "data"
QUICK = ("--capacity", "9", "--time-limit", "120")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of the environment, with the numbered city "small" and a model of it, and a day of orders."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCVRP_STORE", "store")
    Path("monday.csv").write_text(DAY)
    store = Store.open("store")
    save_city(store, "small", CITY)
    put_model(store, "small", CITY)
    return store


def named(store: Store, name: str, prefix: str, columns: dict[str, str] | None = None) -> City:
    """Add a city whose customers are called ``prefix`` and a number."""
    city = City.uniform(40, seed=len(prefix))
    save_city(store, name, city, Addresses(tuple(f"{prefix}{k}" for k in range(41)), columns=columns or {}))
    return city


def solved(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[dict[str, Any], str]:
    capsys.readouterr()
    assert cli.run(["solve", "monday.csv", *QUICK, "--json", "--overwrite", *arguments]) == code
    out, err = capsys.readouterr()
    return json.loads(out), err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert cli.run([*arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert not Path("nowhere").exists()
    return err.splitlines()[-1]


def test_a_store_with_one_city_needs_no_name(place: Store, capsys: pytest.CaptureFixture[str]) -> None:
    day, _ = solved(capsys)
    assert (day["city"], day["model"], day["failures"]) == ("small", "small", [])
    assert cli.run(["solve", "monday.csv", *QUICK, "--overwrite", "--samples", "0"]) == 0
    assert capsys.readouterr().out.startswith("city      small\n")


def test_a_vrp_needs_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even that of the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCVRP_STORE", "absent")
    assert cli.run(["solve", str(DATA / "E-n22-k4.vrp"), "--time-limit", "120", "--out", "routes"]) == 0
    assert not Path("absent").exists()


def test_of_several_cities_one_is_named(place: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """By --city, or by a preset, whose options are those of the day."""
    own = Preset.read("smoke").toml.replace('"smoke"', '"small"') + "[solve]\nfleet = 3\n"
    Path("small.toml").write_text(own)
    save_city(place, "twin", City.uniform(40, seed=9))
    refusal = refused(capsys, "solve", "monday.csv", "--capacity", "9", "--out", "nowhere")
    assert refusal.endswith("has several cities, small and twin: name one by --city")
    day, _ = solved(capsys, "--city", "twin")
    assert (day["city"], day["model"]) == ("twin", None)
    assert day["notes"] == ["searched without a model: the store has no model of city 'twin'"]
    day, _ = solved(capsys, "--preset", "small.toml", "--by", "pyvrp")
    assert day["city"] == "small"
    assert "satisfy --fleet 3" in " ".join(day["notes"])


def test_a_model_of_another_city_is_refused_if_it_is_named(
    place: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its name or version, or as the only one that searches; several of a city are not chosen among."""
    named(place, "lyon", "C")
    Path("monday.csv").write_text(DAY.replace("\n", "\nC").rstrip("C"))
    command = ("solve", "monday.csv", "--capacity", "9", "--city", "lyon", "--out", "nowhere")
    refusal = refused(capsys, *command, "--model", "small")
    assert "model 'small' version 1 routes city" in refusal
    assert refusal.endswith("; use --samples 0 to search without one")
    for options in (("--by", "model"), ("--version", "3")):
        assert "the store has no model of city 'lyon': train one" in refused(capsys, *command, *options)
    for name in ("one", "two"):
        put_model(place, name, City.uniform(40, seed=1))
    assert refused(capsys, *command).endswith(
        "city 'lyon' has several models, one and two: name one by --model"
    )


def test_failed_members_are_printed_once_and_the_exit_code_is_1(
    place: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The document, the card and the notes have the reason; the routes are those of the search."""
    weights = tmp_path / "store/models/small/0001/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    day, err = solved(capsys, "--out", "out", code=1)
    (failure,) = day["failures"]
    assert f"{weights} is corrupt" in failure
    assert [line for line in err.splitlines() if "is corrupt" in line] == [failure]
    assert failure in day["notes"]
    assert "is corrupt" in Path("out/README.md").read_text()
    assert day["found_by"] in ("HGS", "a quick first plan")
    assert cli.run(["solve", "monday.csv", *QUICK, "--overwrite", "--out", "out"]) == 1
    assert "corrupt" not in capsys.readouterr().out
