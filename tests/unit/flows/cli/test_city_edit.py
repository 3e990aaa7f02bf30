"""`mcvrp city set` and `remove`: what the id does not cover changes; what is needed is not removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.storage import layout
from mcvrp.storage.cities import has_city, save_city, stored_city
from mcvrp.storage.store.store import Store

ADDRESSES = "id,name,x,y,depot\nd,Depot,0,0,1\na,Anna,1,0,\nb,Bert,0,1,\n"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of the environment with the city lyon, imported without ranges."""
    monkeypatch.setenv("MCVRP_STORE", str(tmp_path / "store"))
    (tmp_path / "lyon.csv").write_text(ADDRESSES)
    assert cli.run(["city", "import", str(tmp_path / "lyon.csv"), "--columns", "demand=Colis"]) == 0
    return Store.open(tmp_path / "store")


def text(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return " ".join((captured.out + captured.err).split())


@pytest.mark.parametrize("city", ["lyon", "synthetic"])
def test_what_the_id_does_not_cover_can_be_set(store: Store, city: str) -> None:
    """One field leaves the others; the card follows; addresses, costs and id stay."""
    save_city(store, "synthetic", stored_city(store, "lyon").city)
    before = stored_city(store, city)
    assert cli.run(["city", "set", city, "--capacity", "30", "40", "--columns", "id=Code client"]) == 0
    assert cli.run(["city", "set", city, "--demand", "2", "5", "--dates", "day-first"]) == 0
    after = stored_city(store, city)
    assert (after.city.demand, after.city.capacity) == ((2, 5), (30, 40))
    assert (after.addresses.columns, after.addresses.dates) == (
        {**before.addresses.columns, "id": "Code client"},
        "day-first",
    )
    assert after.city.city_id == before.city.city_id
    assert after.addresses.further == before.addresses.further
    assert "30 to 40" in store.get(layout.city_readme(city)).decode()


def test_an_import_with_other_ranges_names_the_command_that_changes_them(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["city", "set", "lyon", "--capacity", "30", "40"]) == 0
    again = ["city", "import", str(tmp_path / "lyon.csv")]
    assert cli.run([*again, "--capacity", "30", "40"]) == 0
    text(capsys)
    assert cli.run(again) == 2
    assert "mcvrp city set lyon" in text(capsys)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lyon"], "nothing to change"),
        (["nice", "--demand", "1", "2"], "no city 'nice'"),
        (["lyon", "--demand", "5", "2"], "demand = [5, 2] is not a range"),
        (
            ["lyon", "--demand", "1", "9", "--capacity", "8", "8"],
            "capacity = [8, 8] is not a range from the smallest to the largest capacity",
        ),
        (["lyon", "--columns", "colour=red"], "colour"),
    ],
)
def test_what_cannot_be_set_is_refused(
    store: Store, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: store.get(path) for path in store.list("cities")}
    assert cli.run(["city", "set", *arguments]) == 2
    assert words in text(capsys)
    assert {path: store.get(path) for path in store.list("cities")} == before


@pytest.mark.parametrize("kind", ["labels", "models", "attention", "benchmarks", "driven", "cities"])
def test_a_city_that_is_needed_is_not_removed(
    store: Store, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence names what needs it; without it the city goes."""
    made = {"city_id": stored_city(store, "lyon").city.city_id}
    path, document = {
        "labels": (layout.label_spec("d"), made),
        "models": (layout.model_card("m", 1), made),
        "attention": (layout.attention_card("m", 20), made),
        "benchmarks": (f"{layout.benchmark_dir('b')}/summary.json", made),
        "driven": (layout.driven_day("lyon", "2026-02-27"), {}),
        "cities": (layout.city_card("more"), {"parent": made["city_id"]}),
    }[kind]
    store.put_json(path, document)
    assert cli.run(["city", "remove", "lyon"]) == 2
    assert f"/{'/'.join(path.split('/')[:2])}" in text(capsys)
    assert has_city(store, "lyon")
    store.delete(path)
    store.put_json(layout.label_spec("other"), {"city_id": "0" * 16})
    assert cli.run(["city", "remove", "lyon"]) == 0
    assert store.list(layout.city_dir("lyon")) == []
