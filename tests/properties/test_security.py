"""Security: no name leads out of the store, no pickle is read, no secret is printed."""

from __future__ import annotations

import ast
import os
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args
from unittest.mock import Mock, patch

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError

from mcvrp.flows.cli import main as cli
from mcvrp.flows.cli.inspect import inspect
from mcvrp.flows.config import settings
from mcvrp.flows.config.spec import PipelineSpec
from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.cities import load_city
from mcvrp.storage.labels.dataset import load_labels
from mcvrp.storage.models.models import model_card
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.storage.training.checkpoints import (
    CheckpointState,
    Moments,
    Origin,
    latest_checkpoint,
    load_moments,
    load_weights,
    save_checkpoint,
)
from tests.support.datasets import label_path, label_spec, make_dataset

ROOT = Path(__file__).parents[2]
OURS = sorted(
    path for folder in ("model", "storage", "tasks", "flows") for path in (ROOT / folder).rglob("*.py")
)
CANARY = "c4n4ry-0f-s0m3-s3cr3t"

# Climbing, absolute, hidden and other paths, options, look-alikes, and names too long for a disk.
NAMES = [
    *("", ".", "..", "../../etc/passwd", "/etc/passwd", "..\\..\\windows", "a/b", "a\0b", "a\nb", ".hidden"),
    *("-rf", "~root", "\u2024\u2024", "a\u2215b", "l\u0430ptop", "a\u202eb", "%2e%2e%2f", "\u0661"),
    *("a b", "a" * 101),
]
PLACES: dict[str, Callable[[str], str]] = {
    "city": layout.city_card,
    "dataset": layout.label_dir,
    "run": layout.run_dir,
    "phase": lambda name: layout.phase_dir("run", name),
    "model": layout.models_dir,
    "benchmark": layout.benchmark_dir,
    "solution": layout.solution_dir,
    "driven days": layout.driven_days_dir,
}
# Fields of specs that are texts but no names, and their checks.
TEXTS = {
    "city.addresses.file": "a path of the user, or of the store, which refuses what leads out",
    "city.addresses.matrix": "likewise",
    "city.addresses.roads.source": "an address, or a path of the user",
    "city.addresses.roads.profile": "a path of the user, or a name that OSRM looks up",
    "city.addresses.depot": "an id, looked up in the file",
    "city.addresses.sheet": "a title, looked up in the file",
    "solve.sheet": "likewise",
    "city.addresses.unit": "has a pattern of its own",
    "nightly.incoming": "a folder of the store, which refuses what leads out",
    "train.base": "NAME@VERSION, of which the name is validated",
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "outside.json").write_text('"outside"')
    return Store.open(tmp_path / "store")


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_name_makes_one_folder(place: Callable[[str], str]) -> None:
    for name in NAMES:
        with pytest.raises(McvrpError, match="is not a valid name for a"):
            place(name)


def text_fields(spec: type[BaseModel], above: str = "") -> Iterator[tuple[type[BaseModel], str, str]]:
    """Yield spec, field and full name of every field below ``spec`` that may be any text."""
    for key, field in spec.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            kinds = (kind, *get_args(kind))
            if str in kinds:
                yield spec, key, f"{above}{key}"
            for inner in kinds:
                if isinstance(inner, type) and issubclass(inner, BaseModel):
                    yield from text_fields(inner, f"{above}{key}.")


FIELDS = {name: (spec, key) for spec, key, name in text_fields(PipelineSpec)}


@pytest.mark.parametrize("field", [name for name in FIELDS if name not in TEXTS])
def test_a_field_takes_names_only(field: str) -> None:
    """The fields of all specs reject them too; text fields that are not names are listed in TEXTS."""
    spec, key = FIELDS[field]
    for name in filter(None, NAMES):
        with pytest.raises(ValidationError) as caught:
            spec.model_validate({key: name})
        assert key in {error["loc"][0] for error in caught.value.errors()}, name


@patch.dict(os.environ)  # the command sets variables for its children
@pytest.mark.parametrize(
    "arguments",
    [
        *("inspect ../x", "verify ../x", "promote ../x 1", "rollback ../x"),
        *("city extend ../x a.csv --name y", "city import a.csv --name ../x", "solve a.csv --city ../x"),
        *("nightly --set nightly.model=../x", "nightly --set nightly.old=../x"),
        *("am --set attention.model=../x", "run --set label.dataset=../x"),
    ],
)
def test_no_option_leads_out_of_the_store(
    store: Store, arguments: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.environ["MCVRP_STORE"] = store.uri
    (tmp_path / "x").mkdir()
    assert cli.run(arguments.split()) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "unexpected" not in errors
    assert store.list("") == []
    assert list((tmp_path / "x").iterdir()) == []


@pytest.mark.parametrize(
    "path", ["../outside.json", "a/../../outside.json", "/etc/passwd", "a//b", "a/./b", "a\0b"]
)
def test_no_path_leads_out_of_the_store(store: Store, path: str, tmp_path: Path) -> None:
    store.put("a", b"1")
    for use in (
        store.get,
        store.exists,
        store.size,
        store.folders,
        store.list,
        store.files,
        store.delete,
        lambda p: store.delete_files([p]),
        lambda p: store.put(p, b""),
        lambda p: store.put_new(p, b""),
        lambda p: inspect(store, p),
    ):
        with pytest.raises(McvrpError):
            use(path)
    assert (tmp_path / "outside.json").read_text() == '"outside"'
    assert store.list("") == ["a"]


# Pickles ---------------------------------------------------------------------------------------

UNPICKLERS = re.compile(
    r"^\s*(?:import|from) (?:_?pickle|cPickle|cloudpickle|dill|joblib|shelve|marshal)\b", re.MULTILINE
)
LOADERS = re.compile(
    r"\b(?:torch(?:\.jit)?\.load|read_pickle)\("
    r"|\b(?:np|numpy)\.(?:load|lib\.format\.read_array)\((?!.*allow_pickle=False)"
)
BETWEEN_PROCESSES = {  # of one machine, through a file, a pipe or a Ray of their own
    "tasks/train/ranks/rank.py",
    "tasks/support/pool.py",
    "tasks/support/processes.py",
    "tasks/support/ray_session.py",
    "tasks/solvers/registry.py",  # writes only, to tell whether a plugin's entry could be sent
}


def test_nothing_is_read_by_pickle() -> None:
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in OURS}
    assert {name for name, text in sources.items() if UNPICKLERS.search(text)} <= BETWEEN_PROCESSES
    assert {name: call[0] for name, text in sources.items() if (call := LOADERS.search(text))} == {}


@patch.dict(os.environ)
def test_prefect_keeps_no_results() -> None:
    """It would pickle them: no flow or task requests it."""
    settings.prepare(verbose=True)
    assert os.environ["PREFECT_RESULTS_PERSIST_BY_DEFAULT"] == "false"
    assert os.environ["PREFECT_RESULTS_DEFAULT_SERIALIZER"] == "json"
    for path in (ROOT / "flows").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and re.match("persist_result|result_", node.arg or ""):
                assert ast.unparse(node.value) == "False", f"{path}:{node.value.lineno}"


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.write_text, (Path("went-off"), ""))


def test_a_pickle_is_a_corrupt_file(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not executed, and the error is about the file."""
    monkeypatch.chdir(tmp_path)
    make_dataset(store, label_spec(largest=20))
    origin = Origin("city", "labels", {"dim": 8}, {"lr": 0.1}, "")
    arrays = {"w": np.ones(3, np.float32)}
    save_checkpoint(store, CheckpointState("run", "I", 5, 10, 5, origin, {}), arrays, Moments(arrays, arrays))
    state = latest_checkpoint(store, "run", "I")
    assert load_weights(store, state).keys() == load_moments(store, state).exp_avg.keys() == {"w"}
    moments, weights = (path for path in store.list(layout.phase_dir("run", "I")) if "safetensors" in path)
    bomb = pickle.dumps(Bomb())
    for path, read in (
        (label_path(), lambda: load_labels(store, "d", 20)),
        (layout.city_path("c"), lambda: load_city(store, "c")),
        (layout.city_card("c"), lambda: load_city(store, "c")),
        (layout.model_card("m", 1), lambda: model_card(store, "m")),
        (weights, lambda: load_weights(store, state)),
        (moments, lambda: load_moments(store, state)),
    ):
        store.put(path, bomb)
        with pytest.raises(McvrpError):
            read()
    assert not Path("went-off").exists()


# Secrets ---------------------------------------------------------------------------------------

ADDRESSES = [
    f"s3://key:{CANARY}@bucket/prefix",
    f"s3://key:{CANARY}/more@bucket",
    f"s3://key:{CANARY}",
    f"s3://{CANARY}@bucket",
    f"s3://bucket/prefix?secret_key={CANARY}",
    f"gs://key:{CANARY}@bucket",
    f"https://key:{CANARY}@host/bucket",
    f"gs://bucket?secret={CANARY}",
    f"s3://bucket/{CANARY}@b",
]


@patch.dict(os.environ)  # the command sets variables for its children
@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_with_a_secret_is_refused(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StoreError) as caught:
        Store.open(address)
    assert CANARY not in str(caught.value)
    assert cli.run(["inspect", "--store", address]) == 2
    printed = capsys.readouterr()
    assert CANARY not in printed.out + printed.err
    assert printed.err.count("\n") == 1


def test_an_at_sign_in_a_folder_is_one(tmp_path: Path) -> None:
    for address in (tmp_path / "a@b", str(tmp_path / "c@d")):
        store = Store.open(address)
        store.put("uploads/day@noon.csv", b"x")
        assert store.list("") == ["uploads/day@noon.csv"]


def test_an_endpoint_with_a_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://key:{CANARY}@127.0.0.1:1")
    with pytest.raises(StoreError, match="AWS_ENDPOINT_URL") as caught:
        Store.open("s3://bucket")
    assert CANARY not in str(caught.value)


@patch.dict(os.environ)  # the command sets variables for its children
@pytest.mark.parametrize("verbose", [False, True])
def test_errors_are_reported_without_secrets(
    verbose: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_SECRET_ACCESS_KEY", "POSTGRES_PASSWORD", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", f"admin:{CANARY}-too")

    error = RuntimeError(f"postgresql://prefect:hunter2@db/prefect does not like {CANARY} nor {CANARY}-too")
    monkeypatch.setattr("mcvrp.flows.cli.plan.plan_run", Mock(side_effect=error))
    assert cli.run(["plan", *(["--verbose"] if verbose else [])]) == 2
    printed = capsys.readouterr()
    text = printed.out + printed.err + "".join(path.read_text() for path in tmp_path.glob("logs/*"))
    assert "does not like" in text
    assert CANARY not in text
    assert "hunter2" not in text


def test_secrets_are_recognized_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that are no secrets, or too short to be one, are left in texts."""
    monkeypatch.setenv("MCVRP_STORE", "s3://bucket")
    monkeypatch.setenv("SOME_PASSWORD", "a")
    monkeypatch.setenv("SOME_SECRET_KEY", CANARY)
    assert CANARY in settings.secrets()
    assert not {"a", "s3://bucket"} & set(settings.secrets())
