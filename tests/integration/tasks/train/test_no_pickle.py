"""Resumed training, with every unpickler of every process watched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcvrp.model.problem import City
from mcvrp.storage.cities import save_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train.phases import train_phase
from tests.support.training import small_spec, write_dataset

# Python runs this in each of its processes before anything else.
WATCH = """
import json, os, pickle, sys

def _record(what, data, depth=2):
    frames, frame = [], sys._getframe(depth)
    while frame is not None:
        frames.append(frame.f_code.co_filename)
        frame = frame.f_back
    with open(os.environ["WATCH_PICKLES"], "a") as log:
        log.write(json.dumps({"what": what, "bytes": data, "frames": frames}) + "\\n")

_load, _loads, _Unpickler = pickle.load, pickle.loads, pickle.Unpickler

def load(file, **more):
    _record("load", str(getattr(file, "name", type(file).__name__)))
    return _load(file, **more)

def loads(data, /, **more):
    _record("loads", bytes(data[:64]).hex())
    return _loads(data, **more)

class Unpickler(_Unpickler):
    def __init__(self, file, **more):
        _record("Unpickler", str(getattr(file, "name", type(file).__name__)))
        super().__init__(file, **more)

pickle.load, pickle.loads, pickle.Unpickler = load, loads, Unpickler
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_resumed_training_unpickles_nothing_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks start a phase, two others resume it. Only the driver's job file and messages among Python's
    and PyTorch's own processes are unpickled, never bytes of the store."""
    store, city = Store.open(tmp_path / "store"), City.uniform(60, seed=3)
    save_city(store, "c", city)
    write_dataset(store, city, range(20, 23), 24)
    folder = tmp_path / "watch"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WATCH)
    log = tmp_path / "pickles.jsonl"
    paths = [str(folder), os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[4])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
    monkeypatch.setenv("WATCH_PICKLES", str(log))
    spec = small_spec(ranks=2, max_hours=1e-9)  # a job ends with its first checkpoint
    jobs = 0
    while not train_phase(store, city, spec, "I", tmp_path / "cache").complete:
        jobs += 1
        spec = small_spec(ranks=2)
    assert jobs == 1
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(
        any(name.endswith("tasks/train/ranks/rank.py") for name in entry["frames"]) for entry in entries
    )
    stored = {store.get(path)[:64].hex() for path in store.list("")}
    here = Path(__file__).resolve().parents[4]
    for entry in entries:
        frames = [Path(name).resolve() for name in entry["frames"]]  # past the links in src/mcvrp
        assert not [frame for frame in frames if frame.is_relative_to(here / "storage")], entry
        assert entry["bytes"] not in stored
        assert not entry["bytes"].startswith((store.uri, str(tmp_path / "cache")))
