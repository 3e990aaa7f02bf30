"""Commands of stages: which city a night is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcvrp.flows.cli import commands, main as cli
from mcvrp.flows.cli.output import Outcome
from mcvrp.flows.config.preset import Preset
from mcvrp.storage.cities import save_city
from mcvrp.storage.store.store import Store
from tests.support.solving import CITY


def test_the_last_preset_does_not_choose_the_city_of_a_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With several cities it is named, by its preset or as that of the last one."""
    nights: list[str] = []

    def run(_stage: object, _store: Store, parameters: dict[str, Any], _preset: Preset) -> Outcome:
        nights.append(parameters["city"])
        return Outcome({}, "")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCVRP_STORE", "store")
    monkeypatch.setattr(commands, "run_stage", run)
    store = Store.open("store")
    save_city(store, "smoke", CITY)
    Preset.read("smoke").record(store)
    assert cli.run(["nightly"]) == 0
    save_city(store, "lyon", CITY)
    capsys.readouterr()
    assert cli.run(["nightly"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "mcvrp: the store has several cities, lyon and smoke: name that of the night by --preset, or by "
        "--city smoke if the last preset used on this store, smoke, is meant"
    )
    for named in (["--city", "lyon"], ["--city", "lyon", "--preset", "smoke"]):
        assert cli.run(["nightly", *named]) == 2
        assert "--city lyon: preset smoke is of city 'smoke': give that" in capsys.readouterr().err
    for named in (["--city", "smoke"], ["--preset", "smoke"], ["--preset", "laptop"]):
        assert cli.run(["nightly", *named]) == 0
    assert nights == ["smoke", "smoke", "smoke", "laptop"]
