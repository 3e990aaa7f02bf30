import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from model.errors import McvrpError
from model.network import FmMcvrp, NetworkConfig
from model.problem import City
from storage.checkpoints import CheckpointState, Moments, save_checkpoint
from storage.metrics import StepMetrics, read_metrics, write_metrics
from storage.models import load_model, model_card, versions
from storage.store import Store
from tasks.train import PhaseSpec, TrainSpec, _default_ranks, publish, train, train_phase
from tasks.train_launch import follow_event, run_local
from tests.training import small_spec, write_dataset


@pytest.fixture(scope="module")
def city():
    return City.uniform(60, seed=3)


@pytest.fixture
def store(tmp_path, city):
    store = Store.open(tmp_path)
    write_dataset(store, city, range(20, 23), 30)
    return store


def pretend(job, progress):
    """Finish the phase of ``job`` without training it; each phase adds 1 to every weight."""
    steps = job.spec.curriculum(job.phase, job.counts, "").steps
    network = FmMcvrp(NetworkConfig(**job.origin.network))
    count = 2.0 if job.start else 1.0
    weights = {name: np.full(p.shape, count, np.float32) for name, p in network.named_parameters()}
    state = CheckpointState(job.spec.run, job.phase, steps, steps, steps, job.origin, {"problem_loss": 1.0})
    save_checkpoint(job.store, state, weights, Moments({}, {}))


def forbidden(job, progress):
    raise AssertionError("nothing was left to train")


def test_phases_follow_each_other_and_the_model_is_published_once(store, city):
    """All phases run in turn; run again, nothing is trained and no second version appears."""
    spec = small_spec()
    summary = train(store, city, spec, pretend)
    assert [(phase.phase, phase.steps, phase.samples) for phase in summary.phases] == [
        ("I", 12, 144),
        ("II", 7, 90),
    ]
    again = train(store, city, spec, forbidden)
    assert again.model == summary.model
    assert [phase.began_at for phase in again.phases] == [12, 7]
    assert versions(store, "small") == [1]
    assert summary.model.rotation_trained
    network, card = load_model(store, "small")
    assert card == summary.model
    assert not network.training
    assert all(torch.equal(p, torch.full_like(p, 2.0)) for p in network.parameters())
    card.require_city(city)
    with pytest.raises(McvrpError, match=f"routes city {city.city_id}, not city"):
        card.require_city(City.uniform(60, seed=4))


def test_another_run_is_another_version(store, city):
    """Weights that are not the latest version's get the next number; both stay loadable."""
    train(store, city, small_spec(), pretend)
    one_phase = small_spec(run="other", phases=small_spec().phases[:1])
    assert train(store, city, one_phase, pretend).model.version == 2
    assert load_model(store, "small")[1].version == 2
    assert load_model(store, "small", 1)[1].run == "small"
    with pytest.raises(McvrpError, match="no version 3, it has 1, 2"):
        model_card(store, "small", 3)


def test_a_damaged_model_is_not_loaded(store, city):
    """Weights that are not those of the card are an error, and so is a model that is not there."""
    card = train(store, city, small_spec(), pretend).model
    data = store.get(f"{card.folder}/model.safetensors")
    store.put(f"{card.folder}/model.safetensors", data[:-1])
    with pytest.raises(McvrpError, match=r"0001/model.safetensors is damaged"):
        load_model(store, "small")
    with pytest.raises(McvrpError, match="no model 'large'"):
        load_model(store, "large")


def test_a_phase_waits_for_the_one_before(store, city):
    """Starting the second phase first, or publishing an unfinished run, names the phase that is missing."""
    with pytest.raises(McvrpError, match=r"phase 'II' needs the finished phase 'I'.*has not begun"):
        train_phase(store, city, small_spec(), "II", forbidden)
    train_phase(store, city, small_spec(), "I", pretend)
    with pytest.raises(McvrpError, match="model 'small' needs the finished phase 'II'"):
        publish(store, small_spec())
    with pytest.raises(McvrpError, match="no phase 'III': the run 'small' has I, II"):
        train_phase(store, city, small_spec(), "III", forbidden)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"network": small_spec().network.model_copy(update={"dim": 32})}, "network.dim = 16, now it is 32"),
        ({"seed": 2}, "recipe.seed = 1, now it is 2"),
        ({"batch": 24}, "recipe.batch = 12, now it is 24"),
        (
            {"phases": tuple(p.model_copy(update={"lr": 0.1}) for p in small_spec().phases)},
            "recipe.lr = 0.01, now it is 0.1",
        ),
    ],
)
def test_checkpoints_of_something_else_are_refused(store, city, changes, match):
    """What changes the result of a phase cannot change under its checkpoints; both values are named."""
    train_phase(store, city, small_spec(), "I", pretend)
    with pytest.raises(McvrpError, match=match):
        train_phase(store, city, small_spec(**changes), "I", forbidden)


def test_what_does_not_change_the_result_may_change(store, city):
    """Ranks, micro-batches, ZeRO stage and the two intervals are no part of what a checkpoint is."""
    train_phase(store, city, small_spec(), "I", pretend)
    other = small_spec(ranks=2, micro_batch=3, zero=2, checkpoint_every=7, log_every=3, model="x")
    train_phase(store, city, other, "I", forbidden)


def test_other_data_and_another_first_phase_are_refused(store, city):
    """More labels, or a predecessor trained anew, make a phase's checkpoint one of something else."""
    train(store, city, small_spec(), pretend)
    second = next(p for p in store.list("training/small/II") if p.endswith("state.json"))
    state = store.get_json(second)
    state["origin"]["parent"] = "0" * 64
    store.put_json(second, state)
    with pytest.raises(McvrpError, match="weights to start from = 0000"):
        train_phase(store, city, small_spec(), "II", forbidden)
    write_dataset(store, city, range(23, 24), 2)
    with pytest.raises(McvrpError, match="fingerprint of the labels"):
        train_phase(store, city, small_spec(), "I", forbidden)


def test_missing_labels_are_listed_with_the_command_that_makes_them(store, city):
    """The sizes without labels are named as ranges; labels of another city are not taken."""
    phases = (PhaseSpec(name="I", first=25, last=26, lr=0.1),)
    with pytest.raises(McvrpError, match=r"no labels of 23-26 customers.*label.largest=26"):
        train_phase(store, city, small_spec(phases=phases), "I", forbidden)
    phases = (PhaseSpec(name="I", first=25, last=61, lr=0.1),)
    with pytest.raises(McvrpError, match=r"trains on 61 customers, the city .* has 60"):
        train_phase(store, city, small_spec(phases=phases), "I", forbidden)
    other = City.uniform(60, seed=4)
    with pytest.raises(McvrpError, match=f"are of city {city.city_id}, not of city {other.city_id}"):
        train_phase(store, other, small_spec(), "I", forbidden)


def test_a_batch_that_cannot_be_shared_is_refused(store, city):
    """The batch has to be a multiple of ranks times micro-batch."""
    with pytest.raises(McvrpError, match="batch = 12 cannot be shared by 5 ranks: give a multiple of 5"):
        train_phase(store, city, small_spec(ranks=5), "I", forbidden)
    with pytest.raises(McvrpError, match="2 ranks of micro_batch 4: give a multiple of 8"):
        train_phase(store, city, small_spec(ranks=2, micro_batch=4), "I", forbidden)


def test_more_ranks_than_cores_are_refused(store, city):
    """A machine with fewer cores than ranks says so before any rank starts."""

    def one_core(job, progress):
        run_local(replace(job, cores=1), progress)

    with pytest.raises(McvrpError, match="ranks = 2, this machine has 1 cores"):
        train_phase(store, city, small_spec(ranks=2), "I", one_core)


@pytest.mark.parametrize(
    ("batch", "cores", "ranks"), [(64, 2, 2), (64, 4, 2), (256, 4, 4), (16, 8, 1), (256, 12, 8), (30, 1, 1)]
)
def test_ranks_by_default_share_the_batch(monkeypatch, batch, cores, ranks):
    """Without a GPU there is a rank a core, as long as each has 32 samples of a whole batch."""
    monkeypatch.setattr("tasks.train._gpus", lambda: 0)
    assert _default_ranks(small_spec(batch=batch), cores) == ranks


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("phases", (), "at least 1 item"),
        ("phases", 2 * (PhaseSpec(name="I", first=20, last=20, lr=1),), "names of their own"),
        ("phases", (PhaseSpec(name="I", first=19, last=20, lr=1),), "starts at size 19, smallest is 20"),
        ("batch", 0, "greater than or equal to 1"),
        ("zero", 3, "0, 1 or 2"),
        ("color", "red", "Extra inputs"),
    ],
)
def test_runs_that_make_no_sense_are_refused(field, value, match):
    """A wrong field is an error of the specification, before anything starts."""
    with pytest.raises(ValidationError, match=match):
        small_spec(**{field: value})


def test_the_paper_s_phase_is_a_specification():
    """Phase I of Table 2 as a specification has the paper's samples and steps."""
    phase = PhaseSpec(
        name="I", first=20, last=400, trunc=1000, trains="encoder", schedule="t5", lr=0.01, warmup=10_000
    )
    spec = TrainSpec(dataset="paper", phases=(phase,))
    curriculum = spec.curriculum("I", (100_000,) * 381)
    assert (curriculum.samples, curriculum.steps) == (72_771_000, 284_261)
    assert phase.learning_rate()(curriculum.steps, curriculum.steps) == pytest.approx(284_261**-0.5)
    assert json.loads(json.dumps(spec.recipe("I"))) == spec.recipe("I")


def test_metrics_survive_the_store(store):
    """Rows come back as they were, a missing loss included; a file of something else is refused."""
    row = StepMetrics(5, 60, 1.5, 0.25, math.nan, math.nan, 0.01, 0.5, 1e4, 0.125)
    write_metrics(store, "run", "I", [row, row])
    first, second = read_metrics(store, "run", "I")
    assert str(first) == str(second) == str(row)
    assert read_metrics(store, "run", "II") == []
    store.put("training/run/I/metrics.parquet", b"PAR1 no")
    with pytest.raises(McvrpError, match="no file of training metrics"):
        read_metrics(store, "run", "I")


def test_progress_shows_both_losses():
    """Each report of rank 0 moves the bar; a loss that is not trained is not shown."""
    from tasks.progress import Progress

    progress = Progress("train I", 100, "steps")
    event = {"event": "step", "step": 7, "problem_loss": 1.25, "solution_loss": 0.5, "tokens_per_second": 1e4}
    assert follow_event(event, progress) is None
    assert (progress.done, progress.note) == (7, "loss 1.250 + 0.500, 10,000 tokens/s")
    follow_event({**event, "solution_loss": None}, progress)
    assert progress.note == "loss 1.250, 10,000 tokens/s"
    assert follow_event({"event": "refused", "message": "no"}, progress) == "no"
