"""A trial of a new champion: it is tuned on given labels, compared, and promoted, or not and why.

Nights and rounds of improving differ in the labels. Every step finds what an earlier try of the same trial
has done: labels, checkpoints, the published version, the comparison. A trial is named by what goes in.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mcvrp.model.errors import McvrpError
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.dataset import Dataset
from mcvrp.storage.labels.schema import Label
from mcvrp.storage.models.models import ModelCard, model_card, versions
from mcvrp.storage.models.registry import enrol, move_champion, pointer
from mcvrp.storage.store.lease import holding
from mcvrp.storage.store.store import Store
from mcvrp.storage.trials import TrialRecord, read_pairs, trial_records, write_pairs, write_record
from mcvrp.tasks.retrain.card import write_card
from mcvrp.tasks.retrain.compare import compared
from mcvrp.tasks.retrain.decide import decide
from mcvrp.tasks.retrain.drift import Drift
from mcvrp.tasks.retrain.labels import Key, Mix, best_known
from mcvrp.tasks.retrain.measured import Gains, Measured, write_measured
from mcvrp.tasks.retrain.spec import TrialSpec
from mcvrp.tasks.train.phases import Launcher, train
from mcvrp.tasks.train.spec import NetworkSpec, PhaseSpec, TrainSpec


@dataclass(frozen=True)
class TrialContext:
    """Context in which every trial of a model begins.

    Parameters
    ----------
    champion
        Who is to be beaten.
    old
        The dataset that labels are drawn from.
    nights, rounds
        Records of earlier trials; no promotion of theirs is pending.
    began
        When, by `time.monotonic`.
    """

    champion: ModelCard
    old: str
    nights: tuple[TrialRecord, ...]
    rounds: tuple[TrialRecord, ...]
    began: float

    def known(self, store: Store) -> dict[Key, Label]:
        """Return the labels of the old dataset that earlier rounds have beaten, by instance."""
        return best_known(store, self.champion.name, self._beaten)

    def name(self, store: Store, kind: str, parts: Sequence[str]) -> str:
        """Return the name of the trial into which this and ``parts`` go."""
        beaten = [each.name for each in self._beaten]
        lines = [self.champion.weights_sha256, Dataset.open(store, self.old).fingerprint(), *parts, *beaten]
        return f"{kind}{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:12]}"

    @property
    def _beaten(self) -> list[TrialRecord]:
        return [each for each in self.rounds if each.old == self.old]


@dataclass(frozen=True)
class Trial:
    """A night or round that has its labels: the fields are those of `storage.trials.TrialRecord`.

    ``fresh`` are days to compare on, by date; ``drift`` and ``gains`` are to be kept with its figures.
    """

    name: str
    number: int
    mix: Mix
    days: tuple[str, ...] = ()
    loop: str = ""
    fresh: Sequence[tuple[str, Label]] = ()
    drift: tuple[Drift, ...] = ()
    gains: Gains | None = None


@contextmanager
def trial_context(store: Store, city: City, spec: TrialSpec) -> Iterator[TrialContext]:
    """Hold the lease of who retrains the model; yield the context, pending promotions carried out.

    Raises
    ------
    McvrpError
        If somebody else retrains it, there is no champion, or it is another city's.
    """
    model = spec.model
    with holding(store, layout.retraining_lease(model), f"model {model!r} is being retrained"):
        began = time.monotonic()
        nights, rounds = (
            tuple(_finish(store, model, record) for record in trial_records(store, model, kind))
            for kind in (layout.NIGHT, layout.ROUND)
        )
        champion = _champion(store, city, model)
        # A champion that a trial has made saw few old labels itself: those that it drew from are drawn from.
        made = {record.name: record.old for record in (*nights, *rounds)}
        old = spec.old or made.get(champion.run, champion.dataset)
        yield TrialContext(champion, old, nights, rounds, began)


def check_trial(store: Store, city: City, spec: TrialSpec) -> None:
    """Check what can be checked before any work: the champion, and the sizes that it is measured on.

    Raises
    ------
    McvrpError
        If there is no champion, it is another city's, or a size is beyond the city.
    """
    _champion(store, city, spec.model)
    if spec.sizes and spec.sizes[-1] > city.customers:
        raise McvrpError(
            f"{spec.stage}.sizes has {spec.sizes[-1]}, the city has {city.customers} customers: "
            "ask for no more"
        )


def _champion(store: Store, city: City, model: str) -> ModelCard:
    card = model_card(store, model, "champion")
    card.require_city(city)
    return card


def run_trial(
    store: Store,
    city: City,
    spec: TrialSpec,
    context: TrialContext,
    trial: Trial,
    cache: Path,
    launch: Launcher | None = None,
) -> tuple[TrialRecord, Measured]:
    """Tune the champion, compare, and promote or say why not.

    Parameters
    ----------
    cache
        A folder of this machine for labels as training reads them.
    launch
        As in `tasks.train.phases.train`.

    Raises
    ------
    McvrpError
        If somebody else has moved the champion meanwhile.
    IncompleteError
        If training was cut off; running again goes on.
    """
    champion = context.champion
    challenger = _published(store, spec.model, trial.name)
    if challenger is None:
        challenger = train(store, city, _tuning(spec, champion, trial), cache, launch).model
    pairs = read_pairs(store, spec.model, trial.name)
    if pairs is None:  # else an earlier try of this trial has compared them
        pairs = compared(store, city, spec, context.old, (champion, challenger), trial.name, trial.fresh)
        write_pairs(store, spec.model, trial.name, pairs)
    decision = decide(pairs, alpha=spec.alpha, worst=spec.worst)
    measured = Measured(
        mix=trial.mix,
        buckets=decision.buckets,
        p_values=decision.p_values,
        seconds=time.monotonic() - context.began,
        drift=trial.drift,
        gains=trial.gains,
    )
    write_measured(store, spec, trial.name, measured, pairs)
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
    )
    return _finish(store, spec.model, write_record(store, spec.model, record)), measured


def _published(store: Store, model: str, run: str) -> ModelCard | None:
    """Return the version that ``run`` has published, by an earlier try; others may have come after it."""
    for version in reversed(versions(store, model)):
        card = model_card(store, model, version)
        if card.run == run:
            enrol(store, model, version)  # its publisher may have been stopped just before
            return card
    return None


def _finish(store: Store, model: str, record: TrialRecord) -> TrialRecord:
    """Move the champion as ``record`` says, once, and write the README; return the record as it is now."""
    if record.promote and not record.applied:
        champion = pointer(store, model, "champion")
        if champion.version == record.challenger:  # it was moved, and only the mark is missing
            record = replace(record, applied=True)
        # Who has published meanwhile challenges whoever is champion then: the decision stands.
        elif champion.version != record.champion or champion.has_named(record.challenger):
            moved = "somebody else has moved the champion since: it is left where it is"  # a person wins
            record = replace(record, promote=False, reasons=(*record.reasons, moved))
        else:
            why = f"{record.name}: {'; '.join(record.reasons)}"
            move_champion(store, model, record.challenger, champion, why)
            record = replace(record, applied=True)
        write_record(store, model, record)
    write_card(store, model, record)
    return record


def _tuning(spec: TrialSpec, champion: ModelCard, trial: Trial) -> TrainSpec:
    # the number of classes follows from the city
    network = {name: value for name, value in champion.network.items() if name != "classes"}
    rows = trial.mix.rows
    phase = PhaseSpec(
        name="tune",
        first=max(rows),
        last=max(rows),  # one set, of all sizes that there are
        passes=spec.passes,
        schedule="cosine",
        lr=spec.lr,
        warmup=spec.warmup,
        rotation=champion.rotation_trained,
        gaps=True,
    )
    if policy := spec.policy:
        # Days are where their orders come from: instances drawn all over the city would be other days.
        source = policy.source if "source" in policy.model_fields_set else "labels"
        tuned = {"trains": "policy", "passes": 1, "policy": policy.model_copy(update={"source": source})}
        # Instead of the labels alone, not after them: they would undo what policy has taught the champion.
        phase = phase.model_copy(update=tuned)
    return TrainSpec(
        run=trial.name,
        dataset=trial.mix.dataset,
        model=spec.model,
        base=f"{champion.name}@{champion.version}",
        network=NetworkSpec(**network),
        phases=(phase,),
        smallest=min(rows),
        seed=spec.seed,
        batch=min(spec.batch, spec.passes * sum(rows.values())),  # a step takes no more than there is
        ranks=spec.ranks,
        log_every=1,
    )
