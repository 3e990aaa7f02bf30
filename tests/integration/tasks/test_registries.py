"""A solver, a strategy and a method from outside the package, through labels, benchmark and a day."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from mcvrp import load_labels
from mcvrp.model.errors import McvrpError
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.registry import SOLVERS, SolverEntry, register
from tests.support.command import Workplace
from tests.support.results import read_results
from tests.support.solving import CITY, put_day

PAGE = Path(__file__).parents[3] / "docs" / "extend.md"
METHODS = '["nearest", "fm-two", "fm-still"]'
SETTINGS = [
    *("city.name=small", f"city.customers={CITY.customers}", "city.seed=5", "train.model=small"),
    *("label.solver=nearest", "label.count=6", "label.held_out=0", "train.held_out="),
    *(f"benchmark.methods={METHODS}", "benchmark.instances=3"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A workplace with a city and a model, and the files of docs/extend.md as an installed package."""
    place = Workplace.new(tmp_path_factory.mktemp("registries"))
    site = place.folder / "site"
    page = PAGE.read_text()
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    described = tomllib.loads(toml)
    ((group, entries),) = described["project"]["entry-points"].items()
    lines = [f"{name} = {module}\n" for name, module in entries.items()]
    package(site, "my_routing", "".join([f"[{group}]\n", *lines]))
    modules = set[str]()
    for name, text in re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.DOTALL):
        modules.add(name.removesuffix(".py"))
        with (site / name).open("a") as file:
            file.write(text)
    assert set(described["tool"]["setuptools"]["py-modules"]) == modules
    put_day(Store.open(place.store))
    return place


def beside(folder: Path) -> str:
    """Return where Python finds packages, those in ``folder`` too."""
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def package(folder: Path, name: str, plugins: str) -> None:
    """Write the metadata of an installed package."""
    metadata = folder / f"{name}-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(plugins)


def mcvrp(place: Workplace, *arguments: str) -> str:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    done = place.mcvrp(*arguments, "--preset", "smoke", *settings, PYTHONPATH=beside(place.folder / "site"))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_labels_are_made_by_it(place: Workplace) -> None:
    """On Ray's workers, under its own name and version; a plan knows its estimate."""
    assert re.search(r"^labels +18 ", mcvrp(place, "plan"), re.MULTILINE)
    mcvrp(place, "label", "--no-prefect")
    labels = load_labels(Store.open(place.store), "smoke", 20)
    assert len(labels.costs) == 6


@pytest.mark.slow
def test_rows_of_a_benchmark_are_of_them(place: Workplace) -> None:
    """The program, the strategy and the method each answer every instance."""
    mcvrp(place, "benchmark", "--no-prefect")
    results = read_results(Store.open(place.store), "smoke").to_pandas()
    assert set(results["method"]) == {"Nearest neighbour", "FM-MCVRP (2S)", "FM-MCVRP (NS, not rotated)"}
    assert results["failure"].isna().all()
    assert set(results["index"]) == {0, 1, 2}


def test_a_day_is_routed_by_them(place: Workplace) -> None:
    """The solver searches alone; the model alone draws samples by the strategy."""
    orders = place.folder / "day.csv"
    orders.write_text("customer,demand\n" + "".join(f"{k},{k % 5 + 1}\n" for k in range(1, 21)))
    out = place.folder / "routes"
    asked = ["--capacity", "20", "--time-limit", "120", "--out", str(out)]
    said = mcvrp(place, "solve", str(orders), *asked, "--by", "nearest")
    assert re.search("found by +Nearest neighbour", said)
    said = mcvrp(
        place, "solve", str(orders), *asked, "--by", "model", "--samples", "4", "--set", "solve.strategy=two"
    )
    assert re.search("found by +model", said)
    assert '"strategy": "two"' in (out / "spec.json").read_text()
    assert "my_routing 1" in (out / "README.md").read_text()


def test_a_name_stands_for_one_solver() -> None:
    """The same entry may be registered again; another by that name, or a name that is no path, is refused."""
    register("hgs", SOLVERS["hgs"])
    for name, words in (("hgs", "already"), ("a/b", "not a valid name")):
        with pytest.raises(Exception, match=words):
            register(name, SolverEntry("Mine", "mine:Mine"))


def test_a_setting_that_no_spec_has_is_refused() -> None:
    with pytest.raises(McvrpError, match="timelimit"):
        SolverEntry("Mine", "mine:Mine", takes=("timelimit",))


def test_a_field_that_cannot_be_sent_to_workers_is_refused_by_name() -> None:
    """Before any work starts; functions of a module can be sent."""
    with pytest.raises(McvrpError, match=r"\bseconds of the solver Mine\b"):
        SolverEntry("Mine", "mine:Mine", seconds=lambda budget, n: 1.0)
    SolverEntry("Mine", "mine:Mine", seconds=SOLVERS["lkh3"].seconds)


def test_a_plugin_that_is_broken_is_named(place: Workplace, tmp_path: Path) -> None:
    """One sentence and exit code 2, not a traceback."""
    package(tmp_path, "broken", "[mcvrp.plugins]\nx = no_such_module\n")
    done = place.mcvrp("plan", "--preset", "smoke", PYTHONPATH=beside(tmp_path))
    assert done.returncode == 2
    assert "the plugin no_such_module cannot be imported" in done.stderr
    assert done.stderr.count("\n") == 1
