"""In a folder of the user with files named like our packages and like Python's modules, ours are imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mcvrp.model.problem import City
from mcvrp.storage.cities import save_city
from mcvrp.storage.store.store import Store
from tests.support.command import SPRUNG, TRAPS, Workplace
from tests.support.training import small_spec, write_dataset

MODULES = (
    *TRAPS,
    *("mcvrp", "tests"),
    *("json", "random", "typing", "logging", "socket", "secrets", "queue"),
    *("numpy", "ray", "torch", "yaml"),
)
CITY = City.uniform(60, seed=3)

LABEL = """
from mcvrp.storage.cities import load_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.solving import solving
from mcvrp.tasks.label.spec import LabelSpec
from mcvrp.tasks.label.stage import label_missing
from mcvrp.tasks.label.work import Unit

store = Store.open("store")
city = load_city(store, "small")
spec = LabelSpec(dataset="d", smallest=20, largest=20, count=12, iterations=5, workers=1)
assert label_missing(store, city, spec).rows == 12
with solving(city, spec.recipe(city), Unit(20, 0, 1, isolated=True)) as solve:
    assert solve(0, 7).index == 0
"""

TRAIN = """
import sys
from pathlib import Path

from mcvrp.storage.cities import load_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.train import TrainSpec, train

store = Store.open("store")
spec = TrainSpec.model_validate_json(sys.argv[1])
assert train(store, load_city(store, "small"), spec, Path("cache")).model.version == 1
"""


@pytest.fixture
def place(scratch: Path) -> Workplace:
    """A store with a city, in a folder with the traps."""
    place = Workplace(scratch)
    place.set_traps(MODULES)
    save_city(Store.open(place.store), "small", CITY)
    return place


def run(place: Workplace, *command: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in the folder with the traps; none is sprung."""
    environment = place.environment()
    environment.pop("PYTHONSAFEPATH", None)  # it is for us to set
    done = subprocess.run(
        command, cwd=place.folder, env=environment | changes, capture_output=True, text=True, timeout=300
    )
    assert SPRUNG not in done.stdout + done.stderr
    return done


def test_the_traps_work(place: Workplace) -> None:
    """A module that is started with the working directory on its path meets one."""
    with pytest.raises(AssertionError, match=SPRUNG):
        run(place, sys.executable, "-m", "mcvrp.tasks.train.ranks.rank")


@pytest.mark.slow
def test_labels_are_solved_by_ray_and_in_a_process_apart(place: Workplace) -> None:
    done = run(place, sys.executable, "-P", "-c", LABEL)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["local", "ray"])
def test_ranks_train(place: Workplace, launcher: str) -> None:
    write_dataset(Store.open(place.store), CITY, range(20, 23), 30)
    spec = small_spec(ranks=1, launcher=launcher)
    spec = spec.model_copy(update={"phases": spec.phases[:1]})
    temporary = place.folder / "tmp"
    temporary.mkdir()
    done = run(place, sys.executable, "-P", "-c", TRAIN, spec.model_dump_json(), TMPDIR=str(temporary))
    assert done.returncode == 0, done.stderr
    assert not [left for left in temporary.iterdir() if left.name.startswith("mcvrp")]


def test_the_command_lists_models(place: Workplace) -> None:
    done = run(place, str(Path(sys.executable).with_name("mcvrp")), "models", "list")
    assert "run mcvrp train" in done.stderr
