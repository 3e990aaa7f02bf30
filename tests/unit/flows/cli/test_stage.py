"""Commands of stages: which city a night is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.flows.cli import main as cli, stage
from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import StoredCity, save_city
from mcvrp.storage.store.store import Store
from tests.support.solving import CITY


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
