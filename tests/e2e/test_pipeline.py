"""Tests of the whole: `mcvrp run` from nothing to a report, again with nothing to do, and interrupted."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from mcvrp.flows.cli import main as cli
from mcvrp.flows.cli.inspect import inspect
from mcvrp.flows.config.preset import load_preset
from mcvrp.storage.cities import load_city
from mcvrp.storage.models.models import load_model
from mcvrp.storage.models.registry import pointer
from mcvrp.storage.provenance import installation
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import latest_checkpoint, load_weights
from mcvrp.tasks.benchmark.methods import all_methods
from tests.support.command import Workplace
from tests.support.origins import artifacts, made_from, recorded
from tests.support.store_page import unknown
from tests.unit.docs.pages import DOCS, examples

SPEC = load_preset("smoke")
LABELS = [
    method.label_in(row)
    for method in (all_methods()[name] for name in SPEC.benchmark.methods)
    for row in method.specs(SPEC.benchmark)
]
RUN = ("run", "--preset", "smoke", "--set", "train.ranks=1")  # several, in a bucket: test_object_store
STAGES = ("cities", "labels", "training", "models")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A workplace in which the smoke preset has run from nothing, beside a user's model.py, tasks.py, ..."""
    place = Workplace.new(tmp_path_factory.mktemp("pipeline"))
    place.set_traps()
    done = place.mcvrp(*RUN)
    assert done.returncode == 0, done.stderr
    (place.folder / "stdout").write_text(done.stdout)
    (place.folder / "stderr").write_text(done.stderr)
    return place


@pytest.fixture(scope="module")
def store(place: Workplace) -> Store:
    return Store.open(place.store)


def digests(place: Workplace) -> dict[str, str]:
    """Return the SHA-256 of each file that the store lists by path, without hidden ones."""
    store = Store.open(place.store, writable=False)
    return {
        path: hashlib.sha256(store.get(path)).hexdigest() for stage in STAGES for path in store.list(stage)
    }


def steps_of(phase: str) -> int:
    return SPEC.train.steps(phase, [SPEC.label.count] * len(SPEC.label.sizes))


def test_every_phase_has_a_finished_checkpoint_that_the_next_began_with(store: Store) -> None:
    parent = ""
    for phase in SPEC.train.phases:
        state = latest_checkpoint(store, "smoke", phase.name)
        assert state is not None
        assert state.complete
        assert state.step == steps_of(phase.name)
        assert state.origin.parent == parent
        assert load_weights(store, state)
        parent = state.weights_sha256
    model, card = load_model(store, "smoke")
    assert (card.city_id, card.run, card.dataset) == (load_city(store, "smoke").city_id, "smoke", "smoke")
    assert pointer(store, "smoke", "champion").version == card.version
    assert not model.training


def test_table_and_report_are_there_and_on_the_console(place: Workplace) -> None:
    folder = place.store / "benchmarks" / "smoke"
    methods = [*(label.removesuffix(")") for label in LABELS), "FM-MCVRP (NS, s = 4)"]
    console = (place.folder / "stdout").read_text()
    for text in ((folder / "table.md").read_text(), (folder / "report.html").read_text(), console):
        assert all(method in text for method in methods)
    assert str(folder / "report.html") in console
    for stage in ("city", "label", "train I ", "train II-A", "train III", "benchmark"):
        assert f"\n{stage}" in console
    assert (folder / "results.parquet").is_file()
    assert (folder / "table.csv").is_file()
    assert (folder / "table.tex").is_file()


def test_the_terminal_hears_of_progress_and_of_nothing_else(place: Workplace) -> None:
    lines = (place.folder / "stderr").read_text().splitlines()
    ours = ("preset smoke, store ", "starting a Prefect server", "labels smoke", "card smoke", "train I")
    assert [line for line in lines if not line.startswith((*ours, "attention model, ", "benchmark, "))] == []
    assert any(line.startswith("labels smoke: 120/120") for line in lines)


def test_every_stage_is_on_record(place: Workplace) -> None:
    flows = [name.split(",")[0] for name, state in place.recorded("flow_run") if state == "COMPLETED"]
    stages = {"pipeline", "city", "label", "train", "attention", "benchmark"}
    assert {name.split()[0] for name in flows} == stages
    states = Counter(state for _, state in place.recorded("task_run").elements())
    assert set(states) == {"COMPLETED"}
    tasks = {
        "make city smoke",
        "solve smoke n=20-22",
        "solve smoke-held-out n=20-22",
        "train I",
        "train II-A",
        "train III",
    }
    tasks |= {"publish model smoke", "compare smoke", "write report smoke"}
    assert tasks <= {name for name, _ in place.recorded("task_run")}
    assert place.processes() == []


def test_every_stage_leaves_a_folder_that_describes_itself(store: Store) -> None:
    assert unknown(store.list("")) == []
    for folder, names in {
        "cities/smoke": ("city.json", "map.png"),
        "labels/smoke": ("spec.json", "manifest.json"),
        "labels/smoke-held-out": ("spec.json", "manifest.json"),
        "training/smoke": ("spec.json", "losses.png"),
        "models/smoke/0001": ("config.json", "model.json", "losses.png"),
        "attention/smoke/n=020": ("model.json",),
        "benchmarks/smoke": ("configuration.json", "summary.json", "figures/gap-time.png"),
    }.items():
        paths = set(store.list(folder))
        assert {f"{folder}/{name}" for name in ("README.md", *names)} <= paths
        readme = store.get(f"{folder}/README.md").decode()
        pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", readme)
        assert {f"{folder}/{picture}" for picture in pictures} <= paths
        assert inspect(store, folder).text.strip()


def test_every_artifact_leads_to_the_city_and_names_the_version(place: Workplace, store: Store) -> None:
    """Card, `inspect` and report say the same."""
    maker, all_of_them = f"mcvrp {installation().version}", artifacts(store)
    assert {path.split("/")[0] for path in all_of_them} >= {*STAGES, "attention", "benchmarks"}
    for path in all_of_them - {"cities/smoke"}:
        assert {"cities/smoke"} <= made_from(store, path) <= all_of_them, path
        readme = "training/smoke" if path.startswith("training/") else path
        text = inspect(store, f"{readme}/README.md").text
        assert maker in text, path
        if path == readme:
            assert all(parent.path in text for parent in recorded(store, path).parents), path
    assert maker in store.get("benchmarks/smoke/report.html").decode()
    assert installation().version in inspect(store, "models/smoke").text


def test_each_artifact_is_a_version_of_one_thing(place: Workplace) -> None:
    with sqlite3.connect(place.prefect / "prefect.db") as database:
        artifacts = database.execute("SELECT key, type, data FROM artifact").fetchall()
    pages = {key: json.loads(text) for key, kind, text in artifacts if kind == "markdown"}
    keys = {f"{stage}-smoke" for stage in ["city", "label", "train", "attention", "benchmark", "pipeline"]}
    assert {*keys, "label-smoke-held-out", "train-smoke-i", "train-smoke-iii"} <= set(pages)
    bars = {key for key, kind, _ in artifacts if kind == "progress"}
    for key in keys:
        if key not in ("city-smoke", "pipeline-smoke"):  # in a moment; has the bars of its stages
            assert any(bar.startswith(key) for bar in bars), key
        for part in ("\n- ", "**In the store**", str(place.store)):
            assert part in pages[key], f"{key} has no {part}"
        pictured = key not in ("label-smoke", "attention-smoke")
        assert ("data:image/png;base64," in pages[key]) == pictured, key


# The example of docs/python.md, with the names of this preset: test_examples.py runs it as it is printed.
EXAMPLE = examples(DOCS / "python.md", "python")[1].replace('"laptop"', '"smoke"')


def test_the_example_of_docs_python_runs_beside_the_store(place: Workplace) -> None:
    done = place.python("-c", EXAMPLE)
    assert done.returncode == 0, done.stderr
    costs, routes = done.stdout.splitlines()
    assert re.fullmatch(r"\d+\.\d{3} by the model, \d+\.\d{3} by HGS", costs)
    assert sorted(node for route in ast.literal_eval(routes) for node in route)


@pytest.fixture
def at_home(place: Workplace) -> Iterator[None]:
    """The environment of the workplace, for commands in this process: they set variables of their own."""
    with patch.dict(os.environ, place.environment(), clear=True):
        yield


def test_a_second_run_does_nothing_new(
    place: Workplace, at_home: None, capsys: pytest.CaptureFixture[str]
) -> None:
    before = digests(place)
    assert cli.run([*RUN, "--no-prefect", "--json"]) == 0
    out, err = capsys.readouterr()
    summary = json.loads(out)
    assert summary["label"]["new"] == 0
    assert all(phase["began_at"] == phase["steps"] for phase in summary["train"]["phases"])
    assert "instances (100 %)" not in err  # no method solved anything again
    assert digests(place) == before


@pytest.mark.parametrize(
    ("arguments", "changes", "part"),
    [
        ("label --set label.count=41", {"RAY_ADDRESS": "127.0.0.1:9"}, "RAY_ADDRESS=127.0.0.1:9"),
        # the whole pipeline looks at every stage first
        ("run --set train.network.dim=16", {}, "dim"),
        (
            "run --set train.ranks=64 --set train.batch=64 --set train.phases.2.policy.instances=64",
            {},
            "= 64",
        ),
        ("run --set city.customers=70", {}, "another city named 'smoke'"),
    ],
)
def test_what_does_not_fit_the_store_is_refused_and_nothing_is_lost(
    place: Workplace,
    at_home: None,
    capsys: pytest.CaptureFixture[str],
    arguments: str,
    changes: dict[str, str],
    part: str,
) -> None:
    before = digests(place)
    os.environ.update(changes)
    assert cli.run([*arguments.split(), "--preset", "smoke"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mcvrp: ")
    assert part in line
    assert digests(place) == before
