"""Phases of a training run: their order, resuming, restarts and leases, with launchers that do not train."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from mcvrp.flows.cli.inspect import inspect
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.model.instances import Rules
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, StoredCity, save_city
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.label_files import write_labels
from mcvrp.storage.labels.schema import table_labels
from mcvrp.storage.layout import label_file, label_spec, run_card, size_dir
from mcvrp.storage.models.models import load_model, versions
from mcvrp.storage.store import lease
from mcvrp.storage.store.lease import active_owner
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.checkpoints import CheckpointState, Moments, save_checkpoint
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train import phases as stage
from mcvrp.tasks.train.job import RankJob, RanksDiedError, Warned, encode, ranks_died
from mcvrp.tasks.train.phase_start import check_training, require_trainable
from mcvrp.tasks.train.phases import Launcher, PhaseSummary, TrainSummary, publish
from mcvrp.tasks.train.ranks.launch import run_local
from mcvrp.tasks.train.resources import rank_count, require_cores
from mcvrp.tasks.train.spec import PhaseSpec, PolicySpec, TrainSpec
from tests.support.leases import FAR, taken_over
from tests.support.training import CITY, rank_job, small_spec, write_dataset

LEASE = "training/small/.lease"
POINTER = small_spec().network.model_copy(update={"pointer": True})
TUNE = PhaseSpec(
    name="tune", first=20, last=22, trains="policy", lr=1e-3, policy=PolicySpec(steps=7, instances=4)
)
UNUSED = Path("/nowhere")  # the label cache: no launcher here reads labels
LAUNCH = "mcvrp.tasks.train.ranks.launch."


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path)
    write_dataset(store, CITY, range(20, 23), 30)
    return store


def train(store: Store, spec: TrainSpec, launch: Launcher) -> TrainSummary:
    return stage.train(store, CITY, spec, UNUSED, launch)


def train_phase(
    store: Store, spec: TrainSpec, name: str, launch: Launcher, city: City = CITY
) -> PhaseSummary:
    return stage.train_phase(store, city, spec, name, UNUSED, launch)


def pretend(job: RankJob, progress: Progress, step: int | None = None) -> None:
    """Save a checkpoint of ``step`` (default: the last) without training; phases add 1 to every weight."""
    steps = job.spec.steps(job.phase, job.counts)
    network = FmMcvrp(NetworkConfig(**job.origin.network))
    count = 2.0 if job.phase == "II" else 1.0
    weights = {name: np.full(p.shape, count, np.float32) for name, p in network.named_parameters()}
    at = steps if step is None else step
    state = CheckpointState(job.spec.run, job.phase, at, steps, at, job.origin, {"problem_loss": 1.0})
    save_checkpoint(job.store, state, weights, Moments({}, {}))


def forbidden(job: RankJob, progress: Progress) -> None:
    raise AssertionError("there was nothing left to train")


def test_the_card_names_the_city(store: Store) -> None:
    city = StoredCity("lyon", CITY, Addresses.numbered(CITY.customers), "imported")
    card = stage.train(store, city, small_spec(), UNUSED, pretend).model
    assert card.city == "lyon"
    shown = inspect(store, "models/small").text
    assert "lyon" in shown
    assert CITY.city_id not in shown


def test_phases_are_trained_in_order_and_the_model_is_published_once(store: Store) -> None:
    spec = small_spec()
    summary = train(store, spec, pretend)
    assert [(p.phase, p.steps, p.samples) for p in summary.phases] == [("I", 12, 144), ("II", 7, 90)]
    again = train(store, spec, forbidden)
    assert again.model == summary.model
    assert [phase.began_at for phase in again.phases] == [12, 7]
    assert versions(store, "small") == [1]
    assert summary.model.rotation_trained
    network, card = load_model(store, "small")
    assert card == summary.model
    assert not network.training
    assert all(torch.equal(p, torch.full_like(p, 2.0)) for p in network.parameters())
    card.require_city(CITY)
    with pytest.raises(McvrpError, match=f"routes city {CITY.city_id}, not city"):
        card.require_city(City.uniform(60, seed=4))


def test_a_run_killed_after_its_last_checkpoint_has_its_card_from_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(job: RankJob, launch: Launcher) -> None:
        launch(job, Mock())
        if job.phase == "II":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stage, "_restart_ranks", killed)
        with pytest.raises(KeyboardInterrupt):
            train(store, small_spec(), pretend)
    train(store, small_spec(), forbidden)
    assert b"| II | 7 of 7 |" in store.get(run_card("small"))


def test_a_run_fine_tunes_a_model(store: Store) -> None:
    """The first phase of a run with a base starts from that version's weights, and resumes with that base."""
    base = train(store, small_spec(), pretend).model
    jobs: list[RankJob] = []

    def watched(job: RankJob, progress: Progress) -> None:
        jobs.append(job)
        pretend(job, progress, step=3 if len(jobs) == 1 else None)
        if len(jobs) == 1:
            raise ranks_died(job, "node lost")

    tuned = small_spec(run="tuned", model="tuned", base="small@1", phases=small_spec().phases[1:])
    train(store, tuned, watched)
    assert [job.start for job in jobs] == [base, jobs[1].resumed]
    weights = jobs[0].initial_weights()
    assert weights
    assert all((array == 2.0).all() for array in weights.values())
    assert jobs[0].origin.parent == base.weights_sha256
    assert train(store, tuned, forbidden).model.version == 1

    train(store, small_spec(run="other", phases=small_spec().phases[:1]), pretend)
    with pytest.raises(McvrpError, match="was trained with weights to start from"):
        train(store, tuned.model_copy(update={"base": "small@2"}), forbidden)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"base": "small@2"}, "model 'small' has no version 2"),
        ({"base": "large@1"}, "no model 'large'"),
        ({"base": "small@1", "network": POINTER}, "network.pointer = not set, now it is True"),
    ],
)
def test_an_unusable_base_is_refused(store: Store, changes: dict[str, object], match: str) -> None:
    train(store, small_spec(), pretend)
    with pytest.raises(McvrpError, match=match):
        train(store, small_spec(run="tuned", **changes), forbidden)


@pytest.mark.parametrize("customers", [60, 61])
def test_a_base_of_another_city_is_refused(store: Store, customers: int) -> None:
    train(store, small_spec(), pretend)
    city, tuned = City.uniform(customers, seed=9), small_spec(run="tuned", base="small@1")
    named = f"train.base = small@1: .* routes city {CITY.city_id}, not city .*train.base"
    with pytest.raises(McvrpError, match=named):
        check_training(store, city, tuned)


def test_gaps_skip_sizes_without_labels(store: Store) -> None:
    write_dataset(store, CITY, range(25, 26), 30)
    gaps = PhaseSpec(name="II", first=25, last=25, lr=0.01, gaps=True)
    assert train(store, small_spec(phases=(gaps,)), pretend).phases[0].samples == 4 * 30


@pytest.mark.parametrize(("removed", "requested", "row"), [(1, 30, 10), (2, 30, 20), (2, None, None)])
def test_missing_labels_are_reported(
    store: Store, removed: int, requested: int | None, row: int | None
) -> None:
    """Those before a gap, and those that the dataset's spec says; with gaps, those before them suffice."""
    (table,) = Dataset.open(store, "tiny").read_rows(21)
    labels = list(table_labels(table, CITY.city_id))
    store.delete(size_dir("tiny", 21))
    for start in {0, 10, 20} - {10 * removed}:
        path = label_file("tiny", 21, start, start + 10)
        write_labels(store, path, CITY, "tests", labels[start : start + 10])
    store.put_json(label_spec("tiny"), {"count": requested})
    gaps = tuple(phase.model_copy(update={"gaps": True}) for phase in small_spec().phases)
    if row:
        with pytest.raises(McvrpError, match=rf"lacks labels of 21 customers from row {row} on, of 30: run"):
            train(store, small_spec(), forbidden)
    train(store, small_spec(phases=gaps), pretend)


def test_a_phase_needs_the_previous_one(store: Store) -> None:
    with pytest.raises(McvrpError, match=r"phase 'II' needs the finished phase 'I'.*has not started"):
        train_phase(store, small_spec(), "II", forbidden)
    train_phase(store, small_spec(), "I", pretend)
    with pytest.raises(McvrpError, match="model 'small' needs the finished phase 'II'"):
        publish(store, small_spec())
    with pytest.raises(McvrpError, match="no phase 'III' in run 'small', which has I, II"):
        train_phase(store, small_spec(), "III", forbidden)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"network": small_spec().network.model_copy(update={"dim": 32})}, "train.network.dim = 16, now"),
        (
            {"phases": tuple(p.model_copy(update={"lr": 0.1}) for p in small_spec().phases)},
            "with lr = 0.01, now it is 0.1",
        ),
    ],
)
def test_checkpoints_of_other_settings_are_refused(
    store: Store, changes: dict[str, object], match: str
) -> None:
    train_phase(store, small_spec(), "I", pretend)
    with pytest.raises(McvrpError, match=match):
        train_phase(store, small_spec(**changes), "I", forbidden)


def test_settings_that_do_not_change_the_result_may_change(store: Store) -> None:
    train_phase(store, small_spec(), "I", pretend)
    other = small_spec(ranks=2, micro_tokens=300, zero=2, checkpoint_every=7, log_every=3, model="x")
    train_phase(store, other, "I", forbidden)


def test_checkpoints_of_other_data_or_another_first_phase_are_refused(store: Store) -> None:
    train(store, small_spec(), pretend)
    second = next(p for p in store.list("training/small/II") if p.endswith("state.json"))
    state = store.get_json(second)
    state["origin"]["parent"] = "0" * 64
    store.put_json(second, state)
    with pytest.raises(McvrpError, match="weights to start from = 0000"):
        train_phase(store, small_spec(), "II", forbidden)
    write_dataset(store, CITY, range(23, 24), 2)
    with pytest.raises(McvrpError, match="fingerprint of the labels"):
        train_phase(store, small_spec(), "I", forbidden)


@pytest.mark.parametrize(
    ("changes", "city", "match"),
    [
        ({"last": 26}, CITY, r"no labels of 23, 24, 25 and 26 customers.*label with the same preset$"),
        ({"last": 61}, CITY, r"trains on 61 customers, the city has 60"),
        ({}, City.uniform(60, seed=4), rf"are of city 'lyon' \({CITY.city_id}\), not of"),
        (
            {"last": 24, "trains": "policy", "policy": TUNE.policy},
            CITY,
            r"no labels of 23 and 24 .*label with the same preset, or set policy.labels = 0 for the phase",
        ),
    ],
)
def test_unusable_labels_are_refused(
    store: Store, changes: dict[str, object], city: City, match: str
) -> None:
    save_city(store, "lyon", CITY)
    train(store, small_spec(phases=small_spec().phases[1:]), pretend)
    phase = small_spec().phases[0].model_copy(update={"trains": "both"} | changes)
    spec = small_spec(run="tuned", phases=(phase,), base="small@1")
    with pytest.raises(McvrpError, match=match):
        train_phase(store, spec, "I", forbidden, city)


def test_labels_of_the_instances_that_models_are_measured_on_are_refused(store: Store) -> None:
    """Splits share no instance, so that no model is tested on its training data."""
    for split in ("valid", "test"):
        store.put_json(label_spec("tiny"), {"split": split})
        for check in (check_training, require_trainable):
            with pytest.raises(McvrpError, match=f"'tiny' is of split '{split}', not 'train'"):
                check(store, CITY, small_spec())
        with pytest.raises(McvrpError, match=f"'tiny' is of split '{split}', not 'train'"):
            train_phase(store, small_spec(), "I", forbidden)


def test_instances_have_the_ranges_of_the_labels(store: Store) -> None:
    """Ranges that a policy-gradient phase leaves open are those of the dataset, and in its checkpoints."""
    store.put_json(label_spec("tiny"), {"demand": [2, 3], "capacity": [40, 50]})
    spec, jobs = small_spec(phases=(*small_spec().phases, TUNE)), list[RankJob]()

    def noted(job: RankJob, progress: Progress) -> None:
        jobs.append(job)
        pretend(job, progress)

    train(store, spec, noted)
    recipe = jobs[-1].origin.recipe
    assert jobs[-1].rules == Rules((2, 3), (40, 50))
    assert (recipe["policy.demand"], recipe["policy.capacity"]) == ([2, 3], [40, 50])


@pytest.mark.parametrize(
    ("changes", "labelled", "match"),
    [
        ({"last": 61}, {}, r"phase 'tune' trains on 61 customers, the city has 60: lower last"),
        ({"demand": [1, 40]}, {}, r"phase 'tune': a vehicle may hold 30 at n=20, a customer may want 40"),
        ({}, {"demand": [1, 40]}, r"phase 'tune': a vehicle may hold 30 at n=20, a customer may want 40"),
        ({"first": 19}, {}, r"phase 'tune': no capacity rule for 19 customers"),
    ],
)
def test_instances_that_cannot_be_drawn_are_refused_before_any_phase_is_trained(
    store: Store, changes: dict[str, object], labelled: dict[str, object], match: str
) -> None:
    """Ranges of the labels count as well, once they are made."""
    policy = {"steps": 7, "instances": 4, "labels": 0, "demand": changes.pop("demand", None)}
    tune = PhaseSpec.model_validate({**TUNE.model_dump(), **changes, "policy": policy})
    spec = small_spec(phases=(*small_spec().phases, tune), smallest=changes.get("first", 20))
    if "last" not in changes:
        check_training(store, CITY, spec)
    store.put_json(label_spec("tiny"), labelled)
    with pytest.raises(McvrpError, match=match):
        check_training(store, CITY, spec)
    with pytest.raises(McvrpError, match=match):
        train_phase(store, spec, "I", forbidden)


def test_a_batch_is_a_multiple_of_the_ranks(store: Store) -> None:
    with pytest.raises(McvrpError, match="batch = 12 cannot be divided among 5 ranks: use a multiple of 5"):
        train_phase(store, small_spec(ranks=5), "I", forbidden)
    with pytest.raises(McvrpError, match=r"policy.instances of phase tune = 4 cannot be divided among 3"):
        check_training(store, CITY, small_spec(ranks=3, phases=(*small_spec().phases, TUNE)))
    train_phase(store, small_spec(ranks=2), "I", pretend)


def test_more_ranks_than_cores_are_refused(store: Store) -> None:
    with pytest.raises(McvrpError, match="ranks = 2, but this machine has 1 cores"):
        run_local(rank_job(store, "I", ranks=2), Progress("train", 9, "steps"))


@pytest.mark.parametrize(
    ("batch", "cores", "ranks"), [(64, 2, 2), (64, 4, 2), (256, 4, 4), (16, 8, 1), (256, 12, 8), (30, 1, 1)]
)
def test_the_default_is_a_rank_per_core(
    monkeypatch: pytest.MonkeyPatch, batch: int, cores: int, ranks: int
) -> None:
    """Without a GPU, as long as each has 32 samples of a batch that divides equally."""
    monkeypatch.setattr("mcvrp.tasks.train.resources._gpus", lambda: 0)
    assert rank_count(small_spec(batch=batch), cores) == ranks


def test_the_ranks_of_a_cluster_have_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cores and GPUs are not those of this machine."""
    spec = small_spec(batch=64, launcher="ray", ranks=None)
    monkeypatch.setattr("mcvrp.tasks.train.resources._gpus", lambda: 0)
    assert rank_count(spec, 2) == 2  # Ray on this machine
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    with pytest.raises(McvrpError, match=r"set train.ranks"):
        rank_count(spec, 2)
    assert rank_count(small_spec(batch=64, launcher="ray", ranks=8), 2) == 8


def test_each_rank_of_a_machine_with_gpus_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpus, ranks, found in ((1, 2, "1 GPU"), (2, 4, "2 GPUs")):
        monkeypatch.setattr("mcvrp.tasks.train.resources._gpus", lambda gpus=gpus: gpus)
        with pytest.raises(McvrpError, match=f"ranks = {ranks}, .* has {found}: request at most {gpus}"):
            require_cores(ranks, 16)
        require_cores(gpus, 16)


# Restarts


def test_ranks_that_end_early_without_an_error_are_one(store: Store) -> None:
    with pytest.raises(IncompleteError, match="phase I ended before its last step: run again"):
        train_phase(store, small_spec(), "I", lambda job, progress: pretend(job, progress, 4))


def dying(steps: Iterable[int]) -> tuple[Launcher, list[int]]:
    """Return a launcher whose ranks die at each of ``steps`` in turn, saved there, and then finish."""
    left = iter(steps)
    starts: list[int] = []

    def launch(job: RankJob, progress: Progress) -> None:
        starts.append(progress.done)
        for step in left:
            if step > progress.done:
                pretend(job, progress, step)
            raise ranks_died(job, "rank 1 was killed by SIGKILL", "a.log")
        pretend(job, progress)

    return launch, starts


def test_dead_ranks_are_restarted_from_the_last_checkpoint(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """As long as there are new checkpoints they may die any number of times; each is logged."""
    launch, starts = dying([2, 4, 4, 6, 6])
    assert train_phase(store, small_spec(restarts=2), "I", launch).steps == 12
    assert starts == [0, 2, 4, 4, 6, 6]
    warnings = [line for line in caplog.messages if "SIGKILL" in line]
    assert len(warnings) == 5
    assert "log is a.log; restarted from step 2 (attempt 1 of 2 without a new checkpoint)" in warnings[0]
    assert "a lower train.micro_tokens needs less" in warnings[0]
    assert "from step 6 (attempt 2 of 2" in warnings[4]


@pytest.mark.parametrize("restarts", [0, 2])
def test_restarts_without_a_checkpoint_are_limited(store: Store, restarts: int) -> None:
    launch, starts = dying([0] * 10)
    with pytest.raises(RanksDiedError, match="run again to resume from the start of the phase"):
        train_phase(store, small_spec(restarts=restarts), "I", launch)
    assert len(starts) == 1 + restarts


@pytest.mark.parametrize("error", [McvrpError("no"), IncompleteError("the store is silent")])
def test_a_refusal_is_not_retried(store: Store, error: McvrpError) -> None:
    launch = Mock(side_effect=error)
    with pytest.raises(type(error), match=str(error)):
        train_phase(store, small_spec(), "I", launch)
    launch.assert_called_once()


def test_ranks_do_not_restart_from_a_foreign_checkpoint(store: Store) -> None:

    def foreign(job: RankJob, progress: Progress) -> None:
        recipe = {**job.origin.recipe, "seed": 2}
        pretend(replace(job, origin=replace(job.origin, recipe=recipe)), progress, 2)
        raise ranks_died(job, "node lost")

    with pytest.raises(McvrpError, match=r"with train.seed = 2, now it is 1: set train.run"):
        train_phase(store, small_spec(), "I", foreign)


def run_as_rank(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    """Have `run_local` run Python with ``arguments`` and the pipe for events as each rank."""
    monkeypatch.setattr(LAUNCH + "_arguments", lambda _, events: [*arguments, str(events)])


@pytest.mark.parametrize("error", [McvrpError("another has taken over"), KeyboardInterrupt()])
def test_a_stopped_launcher_leaves_no_log(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """No rank has failed if the lease is lost, or the user stops the run."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    run_as_rank(
        monkeypatch, "-c", f"import sys; print({encode(Warned('hello'))!r}, file=open(sys.argv[1], 'w'))"
    )
    monkeypatch.setattr(LAUNCH + "follow_event", Mock(side_effect=error))
    with pytest.raises(type(error)):
        train_phase(store, small_spec(ranks=1), "I", run_local)
    assert not list(folder.iterdir())


def test_an_interrupt_while_pytorch_takes_the_time_is_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its timing of the agent's functions then fails with an error of its own."""
    run_as_rank(monkeypatch, "-c", "import time; time.sleep(999)")
    clock = Mock(side_effect=chain([0.0, KeyboardInterrupt()], repeat(0.0)))
    monkeypatch.setattr("torch.distributed.elastic.metrics.api.time", Mock(time=clock))
    with pytest.raises(KeyboardInterrupt):
        train_phase(store, small_spec(ranks=1), "I", run_local)


def test_ranks_are_stopped_after_a_takeover(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next event of any rank, whatever it is, once the heartbeat has noticed."""
    event = encode(Warned("the store is silent"))
    waiting = (
        "import sys, time\nevents = open(sys.argv[1], 'w')\n"
        f"while True:\n    print({event!r}, file=events, flush=True)\n    time.sleep(0.1)"
    )
    run_as_rank(monkeypatch, "-c", waiting)

    def replaced(job: RankJob, progress: Progress) -> None:
        taken_over(store, LEASE)
        with pytest.raises(McvrpError):
            job.lease.confirm()
        run_local(job, progress)

    with pytest.raises(McvrpError, match=r"belongs to process 7 on far"):
        train_phase(store, small_spec(ranks=1), "I", replaced)
    assert store.get(f"{LEASE}/000002") == FAR


def test_one_process_at_a_time_trains_a_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "TTL_SECONDS", 3.0)  # an owner that lives is heard within a third
    train(store, small_spec(), pretend)
    train(store, small_spec(run="other", phases=small_spec().phases[:1]), pretend)
    tuned = small_spec(run="tuned", model="tuned", base="small@1", phases=small_spec().phases[1:])

    def second(job: RankJob, progress: Progress) -> None:
        for spec in (tuned, tuned.model_copy(update={"base": "small@2"})):
            with pytest.raises(McvrpError, match="run 'tuned' is being trained by process"):
                train(store, spec, forbidden)
        pretend(job, progress)

    train(store, tuned, second)
    assert active_owner(store, "training/tuned/.lease") is None


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        (["kill()", "time.sleep(999)"], "rank 0 was killed by SIGKILL"),
        (["peer()", "kill()"], "rank 1 was killed by SIGKILL"),
        (["fail()", "peer()"], "ValueError: no such row"),
        (["sys.exit(3)", "time.sleep(999)"], "exit code 3 of rank 0"),
    ],
)
def test_the_error_names_the_first_failure(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: list[str], reason: str
) -> None:
    """Other ranks may fail because of it, or block: they end with it, and one file has the logs of all."""
    program = tmp_path / "rank.py"
    program.write_text(
        f"""
import os, pathlib, signal, sys, time
def ended():
    pathlib.Path({str(tmp_path)!r}, "ended").touch()
def kill():
    ended()
    os.kill(os.getpid(), signal.SIGKILL)
def peer():
    while not pathlib.Path({str(tmp_path)!r}, "ended").exists():
        time.sleep(0.01)
    time.sleep(5)
    raise RuntimeError("Connection closed by peer")
def fail():
    from torch.distributed.elastic.multiprocessing.errors import record
    @record
    def failing():
        ended()
        raise ValueError("no such row")
    failing()
rank = int(os.environ["RANK"])
print("this is", rank, "of", os.environ["WORLD_SIZE"], file=sys.stderr, flush=True)
pathlib.Path({str(tmp_path)!r}, f"{{rank}}.here").touch()
while len(list(pathlib.Path({str(tmp_path)!r}).glob("*.here"))) < 2:
    time.sleep(0.01)
exec({ends!r}[rank])
"""
    )
    run_as_rank(monkeypatch, str(program))
    monkeypatch.setattr(LAUNCH + "require_cores", lambda *_: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RanksDiedError) as raised:
        train_phase(store, small_spec(ranks=2, restarts=0), "I", run_local)
    assert raised.value.reason.startswith(reason)
    (log,) = tmp_path.glob("mcvrp-small-I-*.log")
    assert str(log) in str(raised.value)
    assert "this is 0 of 2" in log.read_text()
