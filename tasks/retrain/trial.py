"""A trial of a new champion: fine-tune a challenger on labels, compare both, promote or reject it.

A trial is named by a hash of its inputs. Each step reuses what an interrupted attempt has stored: labels,
checkpoints, the published version, the comparison.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from mcvrp.model.errors import McvrpError, alternatives
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import StoredCity
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.schema import Label
from mcvrp.storage.models.models import ModelCard, model_card, versions
from mcvrp.storage.models.registry import move_champion, pointer
from mcvrp.storage.provenance import Parent, made
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, read_pairs, trial_records, write_pairs, write_record
from mcvrp.tasks.retrain.card import Gains, TrialMetrics, write_card
from mcvrp.tasks.retrain.compare import TrialInstance, compared, trial_instances
from mcvrp.tasks.retrain.decide import decide
from mcvrp.tasks.retrain.labels import Key, Mix, best_known
from mcvrp.tasks.retrain.spec import TrialSpec
from mcvrp.tasks.train.phases import Launcher, train
from mcvrp.tasks.train.spec import NetworkSpec, PhaseSpec, TrainSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrialContext:
    """State of a model at the start of a trial, under the lease for retraining it.

    ``champion`` is the version to beat, ``old`` the dataset that labels are sampled from. No promotion of the
    earlier ``nights`` and ``rounds``, whose days are left out, is pending. The trial ``began`` at that time
    by `time.monotonic`.
    """

    store: Store
    stored_city: StoredCity
    champion: ModelCard
    old: str
    nights: tuple[TrialRecord, ...]
    rounds: tuple[TrialRecord, ...]
    began: float

    @property
    def city(self) -> City:
        """The city of the champion, or one that extends it."""
        return self.stored_city.city

    def improved_labels(self) -> dict[Key, Label]:
        """Return labels of the old dataset that earlier trials have improved, by instance."""
        return best_known(self.store, self.champion.name, self._trials_of_old)

    def trial_name(self, kind: str, inputs: Sequence[str]) -> str:
        """Return the name of the trial of this context and ``inputs``."""
        trials = [record.name for record in self._trials_of_old]
        lines = [self.champion.weights_sha256, self.old_labels.hash, *inputs, *trials]
        return f"{kind}{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:12]}"

    @cached_property
    def old_labels(self) -> Parent:
        """The old dataset with its fingerprint, as the parent of an artifact."""
        return Parent(layout.label_dir(self.old), Dataset.listed(self.store, self.old).fingerprint())

    @property
    def _trials_of_old(self) -> list[TrialRecord]:
        return [record for record in (*self.nights, *self.rounds) if record.old == self.old]


@dataclass(frozen=True)
class Trial:
    """A night or round, as in `TrialRecord`, trained as ``mix`` is named; ``fresh``: held-out by date."""

    name: str
    number: int
    mix: Mix
    days: tuple[str, ...] = ()
    loop: str = ""
    fresh: Sequence[tuple[str, Label]] = ()
    gains: Gains | None = None


@contextmanager
def trial_context(store: Store, city: StoredCity, spec: TrialSpec) -> Iterator[TrialContext]:
    """Hold the lease for retraining, carry out pending promotions and yield the context.

    McvrpError if the lease is taken, or there is no champion of this city.
    """
    model = spec.model
    with holding(store, layout.retraining_lease(model), f"model {model!r} is being retrained"):
        began = time.monotonic()
        nights, rounds = (
            tuple(_finish(store, model, record) for record in trial_records(store, model, kind))
            for kind in (layout.NIGHT, layout.ROUND)
        )
        champion = _champion(store, city, model)
        # A champion from a trial was tuned on a few old labels: sample from the dataset that they came from.
        datasets = {record.name: record.old for record in (*nights, *rounds)}
        old = spec.old or datasets.get(champion.run, champion.dataset)
        yield TrialContext(store, city, champion, old, nights, rounds, began)


def check_trial(store: Store, city: StoredCity, spec: TrialSpec) -> None:
    """Raise McvrpError without a champion of this city, or old labels, or with sizes that exceed the city."""
    _champion(store, city, spec.model)
    if spec.old and not Dataset.listed(store, spec.old).sizes():
        others = alternatives(spec.old, store.folders("labels"))
        raise McvrpError(f"{spec.stage}.old: no dataset {spec.old!r} in {store.url()}{others}")
    if spec.sizes and spec.sizes[-1] > city.city.customers:
        raise McvrpError(
            f"{spec.stage}.sizes has {spec.sizes[-1]}, but the city has {city.city.customers} customers: "
            "remove the larger sizes"
        )


def _champion(store: Store, city: StoredCity, model: str) -> ModelCard:
    card = model_card(store, model, "champion")
    card.require_city(city.city, city.name)
    return card


def run_trial(
    spec: TrialSpec, context: TrialContext, trial: Trial, cache: Path, launch: Launcher | None = None
) -> tuple[TrialRecord, TrialMetrics]:
    """Train and compare the challenger, decide on it, and promote it if it is better.

    ``cache`` and ``launch`` are those of `tasks.train.phases.train`. Raises as `trial_instances`,
    before training; McvrpError if the champion has been changed in the meantime, IncompleteError if training
    was interrupted; the next call resumes it.
    """
    store, city, champion = context.store, context.city, context.champion
    pairs, instances = read_pairs(store, spec.model, trial.name), list[TrialInstance]()
    if pairs is None:  # before training: there may be none
        instances = trial_instances(store, city, spec, context.old, trial.name, trial.fresh)
    earlier = max((record.challenger for record in (*context.nights, *context.rounds)), default=0)
    challenger = _published(store, spec.model, trial.mix.dataset, earlier)
    if challenger is None:
        challenger = train(store, context.stored_city, _tuning(spec, champion, trial), cache, launch).model
    if pairs is None:
        pairs = compared(store, city, spec, instances, (champion, challenger))
        write_pairs(store, spec.model, trial.name, pairs)
    more = f"run mcvrp {spec.stage} again with a larger {spec.stage}.instances"
    decision = decide(pairs, alpha=spec.alpha, worst=spec.worst, more=more)
    seconds = time.monotonic() - context.began
    metrics = TrialMetrics(trial.mix, decision.buckets, decision.p_values, seconds, gains=trial.gains)
    store.put_json(layout.trial_spec(spec.model, trial.name), spec.model_dump(mode="json"))
    store.put_json(layout.trial_metrics(spec.model, trial.name), asdict(metrics))
    record = TrialRecord(
        name=trial.name,
        number=trial.number,
        champion=champion.version,
        challenger=challenger.version,
        old=context.old,
        promote=decision.promote,
        reasons=decision.reasons,
        days=trial.days,
        loop=trial.loop,
        provenance=made([champion.as_parent, challenger.as_parent, context.old_labels]),
    )
    if decision.promote:
        return _finish(store, spec.model, write_record(store, spec.model, record)), metrics
    write_card(store, spec.model, record)
    return write_record(store, spec.model, record), metrics


def _published(store: Store, model: str, run: str, earlier: int) -> ModelCard | None:
    """Return the version that an attempt of ``run`` has published after version ``earlier``, if any.

    Later versions may exist.
    """
    for version in reversed(versions(store, model, after=earlier)):
        card = model_card(store, model, version)
        if card.run == run:
            return card
    return None


def _finish(store: Store, model: str, record: TrialRecord) -> TrialRecord:
    """Move the champion as ``record`` promotes, once; write the README and return the updated record."""
    if not record.promote or record.applied:
        return record
    champion = pointer(store, model, "champion")
    if champion.version == record.challenger:  # killed between moving the alias and writing the record
        record = replace(record, applied=True)
    # A version published in the meantime becomes the next challenger; the decision stands.
    elif champion.version != record.champion or champion.has_named(record.challenger):
        changed = "the champion was changed in the meantime and is left as it is"  # a person wins
        record = replace(record, promote=False, reasons=(*record.reasons, changed))
    elif not store.exists(layout.model_card(model, record.challenger)):
        removed = f"version {record.challenger} was removed in the meantime"
        record = replace(record, promote=False, reasons=(*record.reasons, removed))
    else:
        why = f"{record.name}: {'; '.join(record.reasons)}"
        move_champion(store, model, record.challenger, champion, why)
        record = replace(record, applied=True)
        logger.info("%s: version %d of model %s was promoted", record.name, record.challenger, model)
    write_card(store, model, record)
    return write_record(store, model, record)


def _tuning(spec: TrialSpec, champion: ModelCard, trial: Trial) -> TrainSpec:
    # the number of classes follows from the city
    network = {name: value for name, value in champion.network.items() if name != "classes"}
    if spec.dropout is not None:
        network["dropout"] = spec.dropout
    rows = trial.mix.rows
    phase = PhaseSpec(
        name="tune",
        first=max(rows),
        last=max(rows),  # a single set of all sizes
        passes=spec.passes,
        schedule="cosine",
        lr=spec.lr,
        warmup=spec.warmup,
        rotation=champion.rotation_trained,
        gaps=True,
    )
    if policy := spec.policy:
        # Orders of the driven days by default: fresh instances would cover the city evenly, as no day does.
        source = policy.source if "source" in policy.model_fields_set else "labels"
        tuned = {"trains": "policy", "passes": 1, "policy": policy.model_copy(update={"source": source})}
        # In place of a phase on labels: after a policy-gradient phase, labels alone would undo its gain.
        phase = phase.model_copy(update=tuned)
    return TrainSpec(
        run=trial.mix.dataset,
        dataset=trial.mix.dataset,
        model=spec.model,
        base=f"{champion.name}@{champion.version}",
        network=NetworkSpec(**network),
        phases=(phase,),
        smallest=min(rows),
        seed=spec.seed,
        optimizer=spec.optimizer,
        batch=_batch(spec.batch, spec.passes * sum(rows.values())),
        ranks=spec.ranks,
        log_every=1,
    )


def _batch(batch: int, rows: int) -> int:
    """Return ``batch``, halved until it is no larger than ``rows``: so it remains a multiple of the ranks."""
    while batch > rows and batch % 2 == 0:
        batch //= 2
    return min(batch, rows)
