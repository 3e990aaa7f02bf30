"""Tests of presets: their contents, and one sentence for each error."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mcvrp.flows.config.preflight import check_pipeline
from mcvrp.flows.config.preset import FOLDER, Preset, load_preset, preset_names
from mcvrp.flows.config.stages import STAGES
from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.registry import SOLVERS, SolverEntry


def error(name: str, *overrides: str) -> str:
    with pytest.raises(McvrpError) as caught:
        load_preset(name, overrides)
    return str(caught.value)


def contradictions(name: str, *overrides: str) -> str:
    """Return what a run of the whole preset is refused for."""
    spec = load_preset(name, overrides)
    with TemporaryDirectory() as folder, pytest.raises(McvrpError) as caught:
        check_pipeline(Store.open(folder), spec)
    return str(caught.value)


def test_every_error_has_a_line_that_names_file_and_field(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text((FOLDER / "smoke.toml").read_text().replace("count = 40", "count = 0"))
    said = error(str(own), "city.seed=-1", "trian.lr=1", "benchmark.samples=0")
    assert [line.split(": ")[:-1] for line in sorted(said.splitlines())] == [
        ["--set benchmark.samples"],
        ["--set city.seed"],
        ["--set trian"],
        ["own.toml", "label.count"],
    ]
    assert [line.split(":")[0] for line in error(str(own), "train.phases.9.lr=1", "a").splitlines()] == [
        "--set 'train.phases.9.lr=1'",
        "--set 'a'",
    ]
    said = contradictions("smoke", "train.dataset=other", "label.smallest=21")
    assert [line.split(" = ")[0] for line in said.splitlines()] == ["train.dataset", "train.smallest"]
    own.write_text((FOLDER / "smoke.toml").read_text().replace("[label]", "[lable]"))
    assert "own.toml: lable: there is no such field" in error(str(own)).splitlines()
    own.write_text((FOLDER / "smoke.toml").read_text().replace("\nsmallest", "\nsmalest", 1))
    assert error(str(own)).endswith("smalest: there is no such field")
    own.write_text("".join(f"field{k} = 1\n" for k in range(200)))
    assert error(str(own)).endswith("\nand 104 more: correct these first")


@pytest.mark.parametrize("solver", ["mine", "'mine'", "pyvrp", "lkh3"])
@pytest.mark.parametrize("name", preset_names())
def test_another_solver_of_the_labels_needs_no_other_field(
    name: str, solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the preset sets for its own does not stop it; what the command line sets does."""
    monkeypatch.setitem(SOLVERS._entries, "mine", SolverEntry("Mine", "mine:Mine"))
    label = load_preset(name, [f"label.solver={solver}"]).label
    assert label.solver == solver.strip("'")
    assert label.count == load_preset(name).label.count
    assert "budget" in error(name, "label.budget=thrifty", f"label.solver={solver}")


def test_an_empty_value_unsets_a_field() -> None:
    """Also below a section that is missing, or in a list."""
    spec = load_preset("laptop", ["label.budget=", "label.time_limit=2", "attention.sizes="])
    assert (spec.label.budget, spec.label.time_limit) == (None, 2.0)
    assert load_preset("smoke", ["nightly.sizes=[20]", "nightly.sizes="]).nightly.sizes == ()
    assert load_preset("smoke", ["train.phases.0.trunc="]).train.phases[0].trunc is None
    assert "label.count: " in error("smoke", "label.count=none")


@pytest.mark.parametrize("name", preset_names())
def test_every_included_preset_is_valid(name: str) -> None:
    spec = load_preset(name)
    assert {spec.train.run, spec.train.model, spec.benchmark.run} == {name}
    labels = "evening" if name == "gpu" else name
    assert {spec.city.name, spec.label.dataset, spec.train.dataset} == {labels}


def test_the_gpu_trains_on_the_labels_of_the_evening() -> None:
    """Whichever of the two presets made them."""
    gpu, evening = load_preset("gpu"), load_preset("evening")
    assert (gpu.city, gpu.label) == (evening.city, evening.label)


def test_learning_rates_and_counts_of_the_paper_preset() -> None:
    spec = load_preset("paper")
    first, *others = (phase.learning_rate() for phase in spec.train.phases)
    assert [first(k, 284_261) for k in (1, 10_000, 40_000)] == pytest.approx([0.01, 0.01, 0.005])
    assert [rate(k, 70_000) for rate in others for k in (1, 70_000)] == pytest.approx([2**0.5 * 1e-3] * 6)
    assert spec.benchmark.counts == {**dict.fromkeys((20, 50, 100, 200, 400), 1000), 600: 100, 800: 100}
    assert (spec.train.optimizer, spec.train.network.pointer) == ("adamw", False)


def test_the_benchmark_follows_the_fleet_of_the_labels() -> None:
    """Unless it is set: labels as in the paper are compared with HGS as in the paper."""
    fleets = {
        (): "default",
        ("label.fleet=10000",): 10_000,
        ("label.fleet=10000", "benchmark.hgs_fleet=default"): "default",
        ("benchmark.hgs_fleet=7",): 7,
    }
    for overrides, fleet in fleets.items():
        spec = load_preset("paper", overrides)
        assert STAGES["benchmark"].asks(spec)["benchmark"].hgs_fleet == fleet


def test_the_demo_has_the_baseline_and_a_size_beyond_training() -> None:
    spec = load_preset("laptop")
    assert spec.benchmark.sizes[-1] > spec.label.largest == spec.benchmark.sizes[-2]
    assert spec.benchmark.samples_of("hgs") == (1,)  # gaps are to a single run


@pytest.mark.parametrize(
    ("text", "section", "field", "value"),
    [
        ("label.count=500", "label", "count", 500),
        ("benchmark.sizes=[20, 50]", "benchmark", "sizes", [20, 50]),
        ("label.fleet=default", "label", "fleet", "default"),  # not TOML: text
        ("city.name = 'x y'", "city", "name", "x y"),
        ("train.run=a=b", "train", "run", "a=b"),  # the first = separates
        ("nightly.lr=1e-3", "nightly", "lr", 1e-3),  # also where the file has no such section
    ],
)
def test_a_value_that_is_not_toml_is_text(text: str, section: str, field: str, value: object) -> None:
    assert Preset.read("smoke").document([text])[section][field] == value


def test_set_changes_single_fields() -> None:
    before = load_preset("smoke").model_dump()
    after = load_preset("smoke", ["label.fleet=10000", "train.phases.1.lr=0.5"]).model_dump()
    before["label"]["fleet"], before["train"]["phases"][1]["lr"] = 10_000, 0.5
    assert after == before


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("label.cuont=3", ["--set label.cuont: there is no such field"]),
        ("label.count=-3", ["label.count: ", "not -3"]),
        ("label.fleet=many", ["label.fleet: ", "'default' or ", "not 'many'"]),
        ("city.name=a/b", ["city.name: ", "not 'a/b'"]),
        ("train.phases.9.lr=1", ["train.phases", "no such field in smoke"]),
        ("label.count.x=1", ["label.count.x"]),
        ("benchmark.methods=['hgz']", ["benchmark.methods.0", "'hgs'", "not 'hgz'"]),
        ("label.count", ["label.count", "key=value"]),
        ("=3", ["--set '=3': write key=value"]),
        (".count=3", ["--set '.count=3': write key=value"]),
        ("label.count=1e99", ["--set label.count: ", "integer", "not 1e+99"]),
        ("train.phases.1.tail=0.5", ["schedule constant has no tail: give schedule knee, or no tail"]),
    ],
)
def test_a_bad_field_is_named_in_one_sentence(override: str, parts: list[str]) -> None:
    sentence = error("smoke", override)
    assert all(part in sentence for part in parts), sentence


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("label.largest=51", ["largest = 51", "the city has 50 customers"]),
        ("benchmark.sizes=[20, 51]", ["benchmark.sizes.1 = 51 is more than the city has customers (50)"]),
        ("label.smallest=19", ["no capacity rule for 19", "capacity = [low, high]"]),
        ("train.phases.2.last=30", ["train.phases.2.last = 30", "labels are made for 20 to 22 customers"]),
        ("label.smallest=21", ["train.smallest = 20", "labels are made for 21 to 22 customers"]),
        ("train.dataset=other", ["train.dataset = 'other'", "'smoke': name the same"]),
        (
            "label.held_out=0",
            ["train.held_out = 'smoke-held-out'", "label.held_out", "(--set train.held_out=)"],
        ),
        ("train.held_out=other", ["train.held_out = 'other'", "labels: set 'smoke-held-out'"]),
        ("train.batch=1000", ["train.phases.0", "fewer than one batch", "lower the batch"]),
    ],
)
def test_a_contradiction_between_stages_is_named(override: str, parts: list[str]) -> None:
    sentence = contradictions("smoke", override)
    assert all(part in sentence for part in parts), sentence


def test_rules_between_sections() -> None:
    """Models are not trained on held-out or benchmark instances; Table 1 ends at 1000 customers."""
    apart = ("label.held_out=0", "train.held_out=")
    said = contradictions("smoke", "label.split=test", *apart)
    assert "label.split = 'test': models must not be trained" in said
    assert load_preset("smoke", apart).train.held_out is None
    assert "no capacity rule for 1001 customers" in contradictions("paper", "label.largest=1001")
    wide = ["label.largest=1001", "label.capacity=[70, 79]"]
    assert load_preset("paper", wide).label.largest == 1001


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"a = 1\nb =\n", ["own.toml is not valid TOML", "line 2"]),
        (b"", ["own.toml: city: ", "required"]),
        (b"[city]\ncustomres = 5", ["own.toml: ", "city.customres"]),
        (b"\xff\xfe\x00", ["own.toml is not UTF-8: save it"]),
        (None, ["cannot be read"]),
    ],
)
def test_an_invalid_file_is_named(tmp_path: Path, content: bytes | None, parts: list[str]) -> None:
    own = tmp_path / "own.toml"
    if content is None:
        own.mkdir()
    else:
        own.write_bytes(content)
    sentence = error(str(own))
    assert all(part in sentence for part in parts), sentence


def test_names_and_files_of_presets(tmp_path: Path) -> None:
    """An unknown name is answered with the nearest one, otherwise with all; a file is read like a preset.

    Editors of Windows begin one with a byte order mark.
    """
    assert "there are: " in error("laptp")
    assert "evening, gpu, helsinki, laptop, paper, smoke" in error("zzz")
    assert "other.toml cannot be read" in error(str(tmp_path / "other.toml"))
    own = tmp_path / "own.toml"
    for mark in (b"", b"\xef\xbb\xbf"):
        own.write_bytes(mark + (FOLDER / "smoke.toml").read_bytes())
        assert load_preset(str(own)) == load_preset("smoke")


def test_a_city_may_be_imported_before_or_by_the_run(tmp_path: Path) -> None:
    spec = load_preset("smoke", ["city.name=lyon", "city.source=imported", "city.customers=3"])
    assert spec.city.title == "lyon, imported"
    spec = load_preset("smoke", ["city.source=imported", "city.addresses.file=in/a.csv"])
    assert spec.city.title == "smoke, imported from a.csv"
    assert "set source to imported" in error("smoke", "city.addresses.file=a.csv")
