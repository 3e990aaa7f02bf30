"""Tests of an imported city through every stage, and after it has been extended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from mcvrp.flows.config.preset import load_preset
from mcvrp.flows.config.spec import PipelineSpec, require_consistent
from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City, cost
from mcvrp.storage.models.models import ModelCard, load_model, model_card
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.run import results_frame, run_benchmark
from mcvrp.tasks.city.make import AddressFile, CitySpec, make_city
from mcvrp.tasks.label.stage import label_missing, labels_missing
from mcvrp.tasks.report.write import write_report
from mcvrp.tasks.support.ray_session import ray_session
from mcvrp.tasks.train.phase_start import check_training
from mcvrp.tasks.train.phases import train
from tests.support.address_files import ADDED, CITY, CUSTOMERS, MORE
from tests.support.datasets import all_labels
from tests.support.results import read_results

pytestmark = pytest.mark.slow

# Changes of the preset smoke: an imported city, orders below 20 customers, one phase.
OWN = [
    *("city.name=own", "city.source=imported", "label.dataset=own", "label.smallest=12", "label.largest=13"),
    *("label.count=24", "label.held_out=0", "label.iterations=20", "train.run=own", "train.dataset=own"),
    *("train.model=own", "train.smallest=12", "train.ranks=1", "train.held_out=", "benchmark.run=own"),
    "train.network={dim = 16, heads = 2, encoder_layers = 1, decoder_layers = 1, ff = 32}",
    "train.phases=[{name = 'II', first = 13, last = 13, lr = 0.003, rotation = true}]",
    *("benchmark.sizes=[12]", "benchmark.instances=4", "benchmark.samples=[1, 2]"),
    *("benchmark.methods=['hgs', 'fm-gs', 'fm-ns']", "benchmark.hgs_iterations=20"),
]


@dataclass(frozen=True)
class OwnCity:
    """A store in which the pipeline of `OWN` has run on the example city, with its preset."""

    store: Store
    spec: PipelineSpec
    city: City
    card: ModelCard


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCity]:
    """Import, labels, training, benchmark and report, in one Ray session."""
    folder = tmp_path_factory.mktemp("own")
    spec, store = load_preset("smoke", OWN), Store.open(folder / "store")
    file = AddressFile(file=str(CITY), demand=(2, 12), capacity=(25, 35))
    city = make_city(store, CitySpec(name="own", source="imported", addresses=file)).city
    with ray_session(1):
        require_consistent(spec)
        label_missing(store, city, spec.label)
        done = train(store, city, spec.train, folder / "cache")
        write_report(store, city, run_benchmark(store, city, spec.benchmark, "own"))
        yield OwnCity(store, spec, city, done.model)


def test_labels_and_model_hold_in_a_city_that_extends_it(place: OwnCity, tmp_path: Path) -> None:
    """Training resumes, the model is benchmarked with the new addresses, new orders need another dataset."""
    file = AddressFile(file=str(MORE), extends="own")
    child = make_city(place.store, CitySpec(name="own-2", source="imported", addresses=file)).city
    assert child.customers == CUSTOMERS + ADDED
    check_training(place.store, child, place.spec.train)
    again = train(place.store, child, place.spec.train, tmp_path)
    assert [phase.began_at for phase in again.phases] == [phase.steps for phase in again.phases]
    assert again.model.version == place.card.version
    model_card(place.store, "own").require_city(child)
    spec = place.spec.benchmark.model_copy(update={"run": "own-2"})
    summary = write_report(place.store, child, run_benchmark(place.store, child, spec, "own"))
    assert summary.city_id == child.city_id
    assert results_frame(read_results(place.store, "own-2"))["feasible"].all()
    with pytest.raises(
        McvrpError, match=r"dataset .own. is of city .own. .*, not of .own-2.*another dataset"
    ):
        labels_missing(place.store, child, place.spec.label)
    other = place.spec.label.model_copy(update={"dataset": "own-2"})
    assert labels_missing(place.store, child, other) == 48


def test_a_model_without_a_class_for_each_address_is_refused(place: OwnCity) -> None:
    file = AddressFile(file=str(MORE), extends="own", spare=40)
    child = make_city(place.store, CitySpec(name="own-3", source="imported", addresses=file)).city
    assert child.classes == CUSTOMERS + ADDED + 41
    with pytest.raises(McvrpError, match="classes"):
        check_training(place.store, child, place.spec.train)
    xy, sizes = np.vstack([child.xy, np.tile(child.xy[:1], (30, 1))]), (CUSTOMERS, CUSTOMERS + ADDED)
    grown = City(xy, None, child.origin, child.scale, "m", sizes)
    assert load_model(place.store, "own")[0].config.classes == place.city.classes == CUSTOMERS + 51
    with pytest.raises(McvrpError, match=r"has 351 output classes, city \w+ needs 356: train a new model"):
        place.card.require_city(grown)


def test_the_whole_pipeline_runs_where_directions_differ(tmp_path: Path) -> None:
    """Labels, benchmark and report are of the costs in their direction; LKH-3, which has none, has a note."""
    rng = np.random.default_rng(1)
    places = rng.uniform(0, 10, (31, 2))
    rows = [f"n{k},{x!r},{y!r},{int(k == 0)}" for k, (x, y) in enumerate(places.tolist())]
    (tmp_path / "own.csv").write_text("\n".join(["id,x,y,depot", *rows]) + "\n")
    minutes = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) * rng.uniform(1, 1.5, (31, 31))
    np.save(tmp_path / "minutes.npy", minutes)
    methods = "benchmark.methods=['hgs','pyvrp','lkh3','fm-gs','fm-ns']"
    spec = load_preset("smoke", [*OWN, methods])
    store = Store.open(tmp_path / "store")
    file = AddressFile(
        file=str(tmp_path / "own.csv"), matrix=str(tmp_path / "minutes.npy"), unit="min", capacity=(25, 35)
    )
    city = make_city(store, CitySpec(name="own", source="imported", addresses=file)).city
    assert not city.symmetric
    with ray_session(1):
        label_missing(store, city, spec.label)
        train(store, city, spec.train, tmp_path / "cache")
        summary = write_report(store, city, run_benchmark(store, city, spec.benchmark, "own"))
    for label in all_labels(store, "own"):
        assert label.cost == pytest.approx(cost(city, label.solution))
    assert summary.baseline == "HGS"
    assert "greedy" in summary.gaps
    assert "straight lines only" in summary.markdown
    results = results_frame(read_results(store, "own"))
    solved = results[results["cost"].notna()]
    assert set(solved["method"]) == {"HGS", "PyVRP", "FM-MCVRP (GS)", "FM-MCVRP (NS)"}
    assert "mean gap to HGS, greedy" in store.get("benchmarks/own/report.html").decode()
    assert store.exists("benchmarks/own/figures/gap-time.png")
