import hashlib
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.numpy import save

from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from mcvrp.storage.labels.manifest import rebuild_manifest
from mcvrp.storage.layout import model_alias
from mcvrp.storage.models.models import (
    load_model,
    model_card,
    model_weights,
    publish as publish_model,
    versions,
)
from mcvrp.storage.models.registry import move_champion, pointer, roll_back
from mcvrp.storage.store.lease import Holder
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, Moments, load_weights, save_checkpoint
from mcvrp.storage.training.metrics import StepMetrics, read_metrics, write_metrics
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train import phases as stage
from mcvrp.tasks.train.job import OF_ANY_RANK, RanksDiedError, ranks_died, refused
from mcvrp.tasks.train.phases import PhaseSummary, publish, until_complete
from mcvrp.tasks.train.ranks.launch import follow_event, run_local
from mcvrp.tasks.train.spec import NetworkSpec, PhaseSpec, TrainSpec
from tests.support.datasets import age, count_footers
from tests.support.training import small_spec, write_dataset

LEASE = "training/small/lease.json"
UNUSED = Path("/nowhere")  # the cache of labels: no launcher here reads any


def train(store, city, spec, launch):
    return stage.train(store, city, spec, UNUSED, launch)


def train_phase(store, city, spec, name, launch):
    return stage.train_phase(store, city, spec, name, UNUSED, launch)


@pytest.fixture(scope="module")
def city():
    return City.uniform(60, seed=3)


@pytest.fixture
def store(tmp_path, city):
    store = Store.open(tmp_path)
    write_dataset(store, city, range(20, 23), 30)
    return store


def pretend(job, progress, step=None):
    """Train the phase of ``job`` up to ``step`` without training it; each phase adds 1 to every weight."""
    steps = job.spec.curriculum(job.phase, job.counts, "").steps
    network = FmMcvrp(NetworkConfig(**job.origin.network))
    count = 2.0 if job.phase == "II" else 1.0
    weights = {name: np.full(p.shape, count, np.float32) for name, p in network.named_parameters()}
    at = steps if step is None else step
    state = CheckpointState(job.spec.run, job.phase, at, steps, at, job.origin, {"problem_loss": 1.0})
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


@pytest.mark.parametrize("listed", [True, False])
def test_a_run_with_nothing_to_train_reads_no_footer(store, city, monkeypatch, listed):
    """The list says which labels there are; without it each footer is read once a phase."""
    spec = small_spec()
    train(store, city, spec, pretend)
    if listed:
        rebuild_manifest(store, spec.dataset)
        age(store, spec.dataset)
    footers = count_footers(monkeypatch)
    train(store, city, spec, forbidden)
    assert sorted(footers.values()) == ([] if listed else [len(spec.phases)] * 3)


def test_another_run_is_another_version(store, city):
    """Weights that are not the latest version's get the next number; both stay loadable."""
    train(store, city, small_spec(), pretend)
    one_phase = small_spec(run="other", phases=small_spec().phases[:1])
    assert train(store, city, one_phase, pretend).model.version == 2
    assert load_model(store, "small")[1].version == 2
    assert load_model(store, "small", 1)[1].run == "small"
    with pytest.raises(McvrpError, match="no version 3, it has 1, 2"):
        model_card(store, "small", 3)


@pytest.mark.parametrize("aliases", ["first", "last", "rolled back", "never champion"])
def test_a_model_is_published_once_whatever_came_after_it(store, city, aliases):
    """A run with nothing to train finds its version among all, and no alias moves to it."""
    first = train(store, city, small_spec(), pretend).model
    for night in range(3):
        weights = {name: array + night + 1 for name, array in model_weights(store, first).items()}
        data = save(weights)
        checksum = hashlib.sha256(data).hexdigest()
        publish_model(store, replace(first, run=f"night-{night}", weights_sha256=checksum), data)
    champions = {"first": [], "last": [3, 4], "rolled back": [4], "never champion": [2, 3]}[aliases]
    for version in champions:
        move_champion(store, "small", version, pointer(store, "small", "champion"))
    if aliases == "rolled back":
        roll_back(store, "small")
    if aliases == "never champion":
        alias = store.get_json(model_alias("small", "champion"))
        alias["history"] = [move for move in alias["history"] if move["version"] != 1]
        store.put_json(model_alias("small", "champion"), alias)
        store.delete(model_alias("small", "challenger"))
    before = {path: store.get(path) for path in store.list("models")}
    assert train(store, city, small_spec(), forbidden).model == first
    assert {path: store.get(path) for path in store.list("models")} == before


def test_a_run_that_was_trained_further_is_published(store, city):
    """Other weights of the same run are another version; each is published once from then on."""
    train(store, city, small_spec(), pretend)
    longer = small_spec(phases=(*small_spec().phases, PhaseSpec(name="III", first=22, last=22, lr=0.001)))
    assert [train(store, city, longer, pretend).model.version for _ in range(2)] == [2, 2]
    assert train(store, city, small_spec(), forbidden).model.version == 1
    assert train(store, city, small_spec(model="other"), forbidden).model.folder == "models/other/0001"


def test_a_run_goes_on_from_a_model(store, city):
    """The first phase of a run with a base starts from that version's weights and stays with that version."""
    base = train(store, city, small_spec(), pretend).model
    starts = []

    def watched(job, progress):
        starts.append(job.start)
        pretend(job, progress, step=3 if len(starts) == 1 else None)

    tuned = small_spec(run="tuned", model="tuned", base="small@1", phases=small_spec().phases[1:])
    train(store, city, tuned, watched)
    assert [(start.phase, start.step) for start in starts] == [("base", 1), ("II", 3)]
    assert all((array == 2.0).all() for array in load_weights(store, starts[0]).values())
    assert starts[0].origin.parent == base.weights_sha256
    assert train(store, city, tuned, forbidden).model.version == 1

    train(store, city, small_spec(run="other", phases=small_spec().phases[:1]), pretend)
    with pytest.raises(McvrpError, match="was trained with weights to start from"):
        train(store, city, tuned.model_copy(update={"base": "small@2"}), forbidden)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"base": "small@2"}, "model 'small' has no version 2"),
        ({"base": "large@1"}, "no model 'large'"),
        (
            {"base": "small@1", "network": NetworkSpec(dim=32, heads=2)},
            r"network.dim = 16, the run asks for 32",
        ),
    ],
)
def test_a_base_that_does_not_fit_is_named(store, city, changes, match):
    """A version that is not there, or one of another network."""
    train(store, city, small_spec(), pretend)
    with pytest.raises(McvrpError, match=match):
        train(store, city, small_spec(run="tuned", **changes), forbidden)


def test_a_base_has_a_number():
    """An alias moves, and with it what a run would go on from; a phase may not take the base's place."""
    for base in ("small", "small@champion", "small@0", "../x@1"):
        with pytest.raises(ValidationError, match="base"):
            small_spec(base=base)
    with pytest.raises(ValidationError, match="name yours differently"):
        small_spec(base="small@1", phases=(PhaseSpec(name="base", first=20, last=20, lr=0.1),))


def test_sizes_without_labels_are_left_out_where_that_is_asked(store, city):
    """A phase with gaps trains on the sizes that there are, one without names the others."""
    write_dataset(store, city, range(25, 26), 30)
    phase = PhaseSpec(name="II", first=25, last=25, lr=0.01)
    with pytest.raises(McvrpError, match="no labels of 23-24 customers"):
        train(store, city, small_spec(run="whole", phases=(phase,)), forbidden)
    gaps = small_spec(run="gaps", phases=(phase.model_copy(update={"gaps": True}),))
    assert train(store, city, gaps, pretend).phases[0].samples == 4 * 30


def test_a_corrupt_model_is_not_loaded(store, city):
    """Weights that are not those of the card are an error, and so is a model that is not there."""
    card = train(store, city, small_spec(), pretend).model
    data = store.get(f"{card.folder}/model.safetensors")
    store.put(f"{card.folder}/model.safetensors", data[:-1])
    with pytest.raises(McvrpError, match=r"0001/model.safetensors is corrupt"):
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
    """Settings that decide a phase's result cannot change under its checkpoints; both values are named."""
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
    """The batch has to be a multiple of the ranks, whatever they take at once."""
    with pytest.raises(McvrpError, match="batch = 12 cannot be shared by 5 ranks: give a multiple of 5"):
        train_phase(store, city, small_spec(ranks=5), "I", forbidden)
    train_phase(store, city, small_spec(ranks=2, micro_batch=4), "I", pretend)


def test_more_ranks_than_cores_are_refused(store, city):
    """A machine with fewer cores than ranks says so before any rank starts."""

    def one_core(job, progress):
        run_local(replace(job, cores=1), progress)

    with pytest.raises(McvrpError, match="ranks = 2, but this machine has 1 cores"):
        train_phase(store, city, small_spec(ranks=2), "I", one_core)


@pytest.mark.parametrize(
    ("batch", "cores", "ranks"), [(64, 2, 2), (64, 4, 2), (256, 4, 4), (16, 8, 1), (256, 12, 8), (30, 1, 1)]
)
def test_ranks_by_default_share_the_batch(monkeypatch, batch, cores, ranks):
    """Without a GPU there is a rank a core, as long as each has 32 samples of a whole batch."""
    monkeypatch.setattr("mcvrp.tasks.train.phases._gpus", lambda: 0)
    assert stage._ranks(small_spec(batch=batch), cores) == ranks


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
    with pytest.raises(McvrpError, match="no readable file of training metrics"):
        read_metrics(store, "run", "I")


def test_progress_shows_both_losses():
    """Each report of rank 0 moves the bar; a loss that is not trained is not shown."""
    progress = Progress("train I", 100, "steps")
    event = {"event": "step", "step": 7, "problem_loss": 1.25, "solution_loss": 0.5, "tokens_per_second": 1e4}
    assert follow_event(event, progress) is None
    assert (progress.done, progress.note) == (7, "loss 1.250 + 0.500, 10,000 tokens/s")
    follow_event({**event, "solution_loss": None}, progress)
    assert progress.note == "loss 1.250, 10,000 tokens/s"
    follow_event({"event": "preparing", "done": 2, "sizes": 3}, progress)
    assert (progress.done, progress.note) == (7, "labels of 2 of 3 sizes are here")


def test_a_refusal_stays_what_it_was_on_its_way_from_a_rank():
    """Sentence and exit code come through, from every rank."""
    for error in (McvrpError("no"), IncompleteError("the store is silent")):
        event = json.loads(json.dumps(refused(error)))
        found = follow_event(event, Progress("train I", 100, "steps"))
        assert (type(found), str(found)) == (type(error), str(error))
        assert event["event"] in OF_ANY_RANK


# Jobs and restarts


def test_jobs_follow_each_other_until_the_phase_is_complete(store, city):
    """Each job goes on from where the one before ended; together they are one summary."""
    ends = iter([4, 5, 12])

    def a_while(job, progress):
        assert job.ends_at is not None
        pretend(job, progress, next(ends) if job.phase == "I" else None)

    spec = small_spec(max_hours=1)
    first = train_phase(store, city, spec, "I", a_while)
    assert (first.began_at, first.step, first.steps, first.complete) == (0, 4, 12, False)
    summary = train(store, city, spec, a_while)
    assert [(p.began_at, p.step, p.complete) for p in summary.phases] == [(4, 12, True), (0, 7, True)]


def test_the_time_of_all_jobs_is_the_phase_s():
    """Seconds add up, the start is the first job's, and each job hears its number."""
    numbers = []

    def job(number):
        numbers.append(number)
        return PhaseSummary("I", 10 * number, 30, 300, 10 * (number - 1), 1.5, {})

    assert until_complete(job) == PhaseSummary("I", 30, 30, 300, 0, 4.5, {})
    assert numbers == [1, 2, 3]


def dying(steps):
    """Return a launcher whose ranks die at each of ``steps`` in turn, saved there, and then finish."""
    left = iter(steps)
    starts = []

    def launch(job, progress):
        starts.append(progress.done)
        for step in left:
            if step > progress.done:
                pretend(job, progress, step)
            raise ranks_died(job, "rank 1 was killed by SIGKILL", "a.log")
        pretend(job, progress)

    return launch, starts


def test_dead_ranks_are_started_again_from_the_last_checkpoint(store, city, caplog):
    """As long as checkpoints are added they may die any number of times, and each time is told."""
    launch, starts = dying([2, 4, 4, 6, 6])
    assert train_phase(store, city, small_spec(restarts=2), "I", launch).complete
    assert starts == [0, 2, 4, 4, 6, 6]
    told = [line for line in caplog.messages if "SIGKILL" in line]
    assert len(told) == 5
    assert "the log is a.log; started again from step 2 (try 1 of 2 to get further)" in told[0]
    assert "a lower train.micro_tokens needs less" in told[0]
    assert "from step 6 (try 2 of 2" in told[4]


@pytest.mark.parametrize(("restarts", "tries"), [(0, 1), (2, 3)])
def test_ranks_that_only_die_are_given_up(store, city, restarts, tries):
    """Without a new checkpoint there are so many restarts and no more; the error names where it stands."""
    launch, starts = dying([0] * 10)
    with pytest.raises(RanksDiedError, match="run again to go on from the start of the phase"):
        train_phase(store, city, small_spec(restarts=restarts), "I", launch)
    assert len(starts) == tries


def test_a_refusal_is_not_tried_again(store, city):
    """Errors of the user, and a store that has been silent for long, end the job at once."""
    for error in (McvrpError("no"), IncompleteError("the store is silent")):
        starts = []

        def launch(job, progress, error=error, starts=starts):
            starts.append(job)
            raise error

        with pytest.raises(type(error), match=str(error)):
            train_phase(store, city, small_spec(), "I", launch)
        assert len(starts) == 1


def test_another_s_checkpoint_is_not_gone_on_from(store, city):
    """Checkpoints that came since the phase was checked are checked before ranks start again."""

    def foreign(job, progress):
        recipe = {**job.origin.recipe, "seed": 2}
        pretend(replace(job, origin=replace(job.origin, recipe=recipe)), progress, 2)
        raise ranks_died(job, "node lost")

    with pytest.raises(McvrpError, match=r"recipe.seed = 2, now it is 1: name the run differently"):
        train_phase(store, city, small_spec(), "I", foreign)


def test_a_launcher_that_is_to_stop_leaves_no_log(store, city, tmp_path, monkeypatch):
    """The ranks did nothing wrong where somebody else has taken over, or the user wants no more."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(
        "mcvrp.tasks.train.ranks.launch._command", lambda *_: [sys.executable, "-c", "print('{}')"]
    )
    for error in (McvrpError("another has taken over"), KeyboardInterrupt()):

        def stop(event, progress, error=error):
            raise error

        monkeypatch.setattr("mcvrp.tasks.train.ranks.launch.follow_event", stop)
        with pytest.raises(type(error)):
            train_phase(store, city, small_spec(ranks=1), "I", run_local)
        assert not list(folder.iterdir())


def test_ranks_are_stopped_once_another_has_taken_over(store, city, monkeypatch):
    """At the next report of any rank, whatever it is, where the heartbeat has noticed."""
    event = json.dumps({"event": "waiting", "message": "the store is silent"})
    waiting = f"import time\nwhile True:\n    print({event!r}, flush=True)\n    time.sleep(0.1)"
    monkeypatch.setattr("mcvrp.tasks.train.ranks.launch._command", lambda *_: [sys.executable, "-c", waiting])

    def replaced(job, progress):
        store.put(LEASE, replace(Holder.here(), host="far", machine="another").encode())
        with pytest.raises(McvrpError):
            job.lease.confirm()
        run_local(job, progress)

    with pytest.raises(McvrpError, match=r"no longer names this process but process .* on far"):
        train_phase(store, city, small_spec(ranks=1), "I", replaced)
    assert store.exists(LEASE)


def test_one_process_at_a_time_trains_a_run(store, city):
    """A second driver of the same run is refused while the first is at it, and not afterwards."""

    def second(job, progress):
        with pytest.raises(McvrpError, match="run 'small' is being trained by process"):
            train_phase(store, city, small_spec(), "I", forbidden)
        pretend(job, progress)

    assert train_phase(store, city, small_spec(), "I", second).complete
    assert not store.exists(LEASE)


def test_the_base_of_a_run_at_work_is_not_replaced(store, city):
    """Another base for a run that somebody trains is refused, and what it began with stays as it is."""
    train(store, city, small_spec(), pretend)
    train(store, city, small_spec(run="other", phases=small_spec().phases[:1]), pretend)
    tuned = small_spec(run="tuned", model="tuned", base="small@1", phases=small_spec().phases[1:])

    def second(job, progress):
        before = {path: store.get(path) for path in store.list("training/tuned/base")}
        with pytest.raises(McvrpError, match="run 'tuned' is being trained by process"):
            train(store, city, tuned.model_copy(update={"base": "small@2"}), forbidden)
        assert {path: store.get(path) for path in store.list("training/tuned/base")} == before != {}
        pretend(job, progress)

    train(store, city, tuned, second)


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        (["kill()", "time.sleep(999)"], "rank 0 was killed by SIGKILL"),
        (["peer()", "kill()"], "rank 1 was killed by SIGKILL"),
        (["time.sleep(999)", "raise ValueError('no such row')"], "ValueError: no such row"),
        (["raise ValueError('no such row')", "peer()"], "ValueError: no such row"),
        (["sys.exit(3)", "time.sleep(999)"], "exit code 3 of rank 0"),
    ],
)
def test_the_reason_of_an_early_end_is_what_happened_first(store, city, tmp_path, monkeypatch, ends, reason):
    """The others may notice, or wait for ever: they end with it, and all logs are in one."""
    program = tmp_path / "rank.py"
    program.write_text(
        f"""
import os, pathlib, signal, sys, time
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
def peer():
    time.sleep(0.5)
    raise RuntimeError("Connection closed by peer")
rank = int(os.environ["RANK"])
print("this is", rank, "of", os.environ["WORLD_SIZE"], file=sys.stderr, flush=True)
pathlib.Path({str(tmp_path)!r}, f"{{rank}}.here").touch()
while len(list(pathlib.Path({str(tmp_path)!r}).glob("*.here"))) < 2:
    time.sleep(0.01)
exec({ends!r}[rank])
"""
    )
    launch = "mcvrp.tasks.train.ranks.launch."
    monkeypatch.setattr(launch + "_command", lambda _: [sys.executable, str(program)])
    monkeypatch.setattr(launch + "require_cores", lambda *_: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RanksDiedError) as raised:
        train_phase(store, city, small_spec(ranks=2, restarts=0), "I", run_local)
    assert raised.value.reason.startswith(reason)
    (log,) = tmp_path.glob("mcvrp-small-I-*.log")
    assert str(log) in str(raised.value)
    assert "this is 0 of 2" in log.read_text()
