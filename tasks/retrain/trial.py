"""The trial of a night: fine-tune a challenger on labels, compare it with the champion, promote or reject it.

A night is named by a hash of its inputs. Each step reuses what an interrupted attempt has stored: labels,
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
from mcvrp.storage.nights import NightRecord, night_records, read_pairs, write_pairs, write_record
from mcvrp.storage.provenance import Parent, made
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain.card import Gains, NightMetrics, write_card
from mcvrp.tasks.retrain.compare import TrialInstance, compared, trial_instances
from mcvrp.tasks.retrain.decide import decide
from mcvrp.tasks.retrain.labels import Mix
from mcvrp.tasks.retrain.spec import NightlySpec
from mcvrp.tasks.train.phases import Launcher, train
from mcvrp.tasks.train.spec import NetworkSpec, PhaseSpec, TrainSpec

logger = logging.getLogger(__name__)

UNNAMED = {"incoming", "ranks"}  # fields that cannot change the result: left out of the name of a night


@dataclass(frozen=True)
class TrialContext:
    """State of a model at the start of a night, under the lease for retraining it.

    ``champion`` is the version to beat, ``old`` the dataset that labels are sampled from. No promotion of the
    earlier ``nights`` is pending. The night ``began`` at that time by `time.monotonic`.
    """

    store: Store
    stored_city: StoredCity
    spec: NightlySpec
    champion: ModelCard
    old: str
    nights: tuple[NightRecord, ...]
    began: float

    @property
    def city(self) -> City:
        """The city of the champion, or one that extends it."""
        return self.stored_city.city

    @property
    def nights_of_old(self) -> list[NightRecord]:
        """The nights that have sampled from the same old dataset."""
        return [record for record in self.nights if record.old == self.old]

    @cached_property
    def old_labels(self) -> Parent:
        """The old dataset with its fingerprint, as the parent of an artifact."""
        return Parent(layout.label_dir(self.old), Dataset.listed(self.store, self.old).fingerprint())

    def night_of(self, days: Sequence[str]) -> str:
        """Return the name of the night that learns from ``days``."""
        settings = self.spec.model_dump_json(exclude=UNNAMED)
        earlier = [night.name for night in self.nights_of_old]
        lines = [self.champion.weights_sha256, self.old_labels.hash, *days, settings, *earlier]
        return f"{layout.NIGHT}{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Trial:
    """A night to be trained and compared, as in `NightRecord`; ``mix`` names its training run."""

    name: str
    number: int
    mix: Mix
    days: tuple[str, ...]
    gains: Gains | None = None


@contextmanager
def trial_context(store: Store, city: StoredCity, spec: NightlySpec) -> Iterator[TrialContext]:
    """Hold the lease for retraining, carry out pending promotions and yield the context.

    McvrpError if the lease is taken, or there is no champion of this city.
    """
    model = spec.model
    with holding(store, layout.retraining_lease(model), f"model {model!r} is being retrained"):
        began = time.monotonic()
        nights = tuple(_finish(store, model, record) for record in night_records(store, model))
        champion = _champion(store, city, model)
        # A champion from a night was tuned on a few old labels: sample from the dataset that they came from.
        datasets = {record.name: record.old for record in nights}
        old = spec.old or datasets.get(champion.run, champion.dataset)
        yield TrialContext(store, city, spec, champion, old, nights, began)


def check_trial(store: Store, city: StoredCity, spec: NightlySpec) -> None:
    """Raise McvrpError without a champion of this city, or old labels, or with sizes that exceed the city."""
    _champion(store, city, spec.model)
    if spec.old and not Dataset.listed(store, spec.old).sizes():
        others = alternatives(spec.old, store.folders("labels"))
        raise McvrpError(f"nightly.old: no dataset {spec.old!r} in {store.url()}{others}")
    if spec.sizes and spec.sizes[-1] > city.city.customers:
        raise McvrpError(
            f"nightly.sizes has {spec.sizes[-1]}, but the city has {city.city.customers} customers: "
            "remove the larger sizes"
        )


def _champion(store: Store, city: StoredCity, model: str) -> ModelCard:
    card = model_card(store, model, "champion")
    card.require_city(city.city, city.name)
    return card


def run_trial(
    context: TrialContext,
    trial: Trial,
    fresh: Sequence[tuple[str, Label]],
    cache: Path,
    launch: Launcher | None = None,
) -> tuple[NightRecord, NightMetrics]:
    """Train and compare the challenger, decide on it, and promote it if it is better.

    ``fresh`` are held-out days by date, ``cache`` and ``launch`` those of `tasks.train.phases.train`. Raises
    as `trial_instances`, before training; McvrpError if the champion has been changed in the meantime,
    IncompleteError if training was interrupted; the next call resumes it.
    """
    store, spec, city, champion = context.store, context.spec, context.city, context.champion
    pairs, instances = read_pairs(store, spec.model, trial.name), list[TrialInstance]()
    if pairs is None:  # before training: there may be none
        instances = trial_instances(store, city, spec, context.old, trial.name, fresh)
    earlier = max((record.challenger for record in context.nights), default=0)
    challenger = _published(store, spec.model, trial.mix.dataset, earlier)
    if challenger is None:
        tuning = _tuning(spec, champion, trial.mix)
        challenger = train(store, context.stored_city, tuning, cache, launch).model
    if pairs is None:
        pairs = compared(store, city, spec, instances, (champion, challenger))
        write_pairs(store, spec.model, trial.name, pairs)
    decision = decide(pairs, alpha=spec.alpha, worst=spec.worst)
    seconds = time.monotonic() - context.began
    metrics = NightMetrics(trial.mix, decision.buckets, decision.p_values, seconds, gains=trial.gains)
    store.put_json(layout.night_spec(spec.model, trial.name), spec.model_dump(mode="json"))
    store.put_json(layout.night_metrics(spec.model, trial.name), asdict(metrics))
    record = NightRecord(
        name=trial.name,
        number=trial.number,
        champion=champion.version,
        challenger=challenger.version,
        old=context.old,
        promote=decision.promote,
        reasons=decision.reasons,
        days=trial.days,
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


def _finish(store: Store, model: str, record: NightRecord) -> NightRecord:
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


def _tuning(spec: NightlySpec, champion: ModelCard, mix: Mix) -> TrainSpec:
    # the number of classes follows from the city
    network = {name: value for name, value in champion.network.items() if name != "classes"}
    if spec.dropout is not None:
        network["dropout"] = spec.dropout
    rows = mix.rows
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
        run=mix.dataset,
        dataset=mix.dataset,
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
