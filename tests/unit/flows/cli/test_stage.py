"""Commands of stages: which city a night is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.flows.cli import main as cli, stage
from mcvrp.flows.config.stages import Stage
from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import StoredCity, save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain import trial
from mcvrp.tasks.retrain.spec import NightlySpec
from tests.support.solving import CITY, put_day, put_model


def test_the_default_preset_does_not_choose_the_city_of_a_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With several cities its preset has to be named."""
    nights: list[str] = []

    def read(_store: Store, city: str) -> StoredCity:
        nights.append(city)
        raise McvrpError("the night begins")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCVRP_STORE", "store")
    monkeypatch.setattr(stage, "stored_city", read)
    store = Store.open("store")
    save_city(store, "smoke", CITY)
    assert cli.run(["nightly", "--preset", "smoke"]) == 2
    assert "the night begins" in capsys.readouterr().err
    save_city(store, "lyon", CITY)
    capsys.readouterr()
    assert cli.run(["nightly"]) == 2
    assert "has several cities, lyon and smoke: name one by --preset" in capsys.readouterr().err
    for preset in ("smoke", "laptop"):
        assert cli.run(["nightly", "--preset", preset]) == 2
    assert nights == ["smoke", "smoke", "laptop"]


def test_a_night_without_a_preset_is_of_the_only_city(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And of its model; what is set is never replaced."""
    checked: list[tuple[str, str, float]] = []

    def check(_store: Store, city: StoredCity, night: NightlySpec) -> None:
        checked.append((city.name, night.model, night.lr))
        raise McvrpError("the night begins")

    monkeypatch.setenv("MCVRP_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(trial, "check_trial", check)
    put_day(store := Store.open(tmp_path / "store"))
    assert cli.run(["nightly", "--set", "nightly.lr=0.5"]) == 2
    assert cli.run(["nightly", "--set", "nightly.model=other"]) == 2
    assert cli.run(["nightly", "--set", "city.name=other"]) == 2
    assert "no city 'other'" in capsys.readouterr().err
    assert checked == [("small", "small", 0.5), ("small", "other", 3e-4)]
    for name in ("second", "third"):
        put_model(store, name, CITY)
    assert cli.run(["nightly", "--set", "nightly.model=third"]) == 2
    assert cli.run(["nightly"]) == 2
    assert checked[2:] == [("small", "third", 3e-4)]
    error = capsys.readouterr().err
    assert "several models, second, small and third: name one by --set nightly.model" in error


def test_a_night_without_a_preset_begins_with_what_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin(_stage: Stage) -> None:
        raise McvrpError("the night begins")

    monkeypatch.setattr(Stage, "load_flow", begin)
    put_day(store := Store.open(tmp_path / "store"))
    assert cli.run(["nightly", "--no-prefect", "--store", str(tmp_path / "store")]) == 2
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == f"preset laptop with city small and model small, store {store.url()}"
