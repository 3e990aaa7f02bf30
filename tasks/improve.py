"""The improvement loop: the champion beats labels where it can, and is tuned on what it has found.

It is the "positive feedback loop" that the paper's conclusion hopes for (Sec. "Conclusion").
A loop is named by what is asked for and by its labels, its rounds are counted from 1: a round that is done
is not done again, one that was stopped goes on, and more rounds follow where the last has ended.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

from model.errors import McvrpError
from model.problem import City
from storage.layout import ROUND
from storage.manifest import fingerprint
from storage.store import Store
from storage.trials import TrialRecord
from tasks.improve_labels import gains, improved
from tasks.improve_spec import ImproveSpec
from tasks.train import Launcher
from tasks.trial import Background, Trial, background, check_trial, retraining, run_trial
from tasks.trial_labels import drawn, write_mix
from tasks.trial_measured import Measured, read_measured
from tasks.trial_pairs import sampler


@dataclass(frozen=True)
class Round:
    """What a round has decided and measured, and whether it is ``new``: done by this call."""

    record: TrialRecord
    measured: Measured
    new: bool = True


def run_round(
    store: Store, city: City, spec: ImproveSpec, number: int, cache: Path, launch: Launcher | None = None
) -> Round:
    """Do round ``number`` of the loop ``spec``, or what is left of it.

    Labels are drawn at random and taken as the best that rounds before have made of them. Where a
    polished sample of the champion costs less, it takes the label's place; tuned on all of them, the
    challenger is compared with the champion as at night, and promoted or not.

    Parameters
    ----------
    cache
        A folder of this machine for labels as training reads them.
    launch
        As in `tasks.train.train`.

    Raises
    ------
    McvrpError
        If there is no champion or it is another city's, there are no labels, the model is being
        retrained by somebody else, or an alias was moved meanwhile.
    IncompleteError
        If training was cut off; running again goes on.
    """
    with retraining(store, spec.model):
        began = time.monotonic()
        begun = background(store, city, spec)
        loop = _loop(store, spec, begun)
        for record in begun.rounds:
            if (record.loop, record.number) == (loop, number):
                return Round(record, read_measured(store, spec.model, record.name), new=False)
        name = begun.name(store, ROUND, [loop, str(number)])
        seed = spec.seed + number
        labels = list(drawn(store, begun.old, spec.count, (ROUND, str(seed)), begun.known(store)))
        if not labels:
            raise McvrpError(
                f"there are no labels of dataset {begun.old!r} in {store.url()} to improve: run mcvrp label"
            )
        from tasks.solvers.local_search import Polished  # here: PyTorch takes seconds to import

        solver = Polished(sampler(store, begun.champion, spec.p, spec.tries))
        better = improved(store, city, (spec.model, name), labels, solver, tries=spec.tries, seed=seed)
        trial = Trial(
            name=name,
            number=number,
            began=began,
            mix=write_mix(store, city, name, better),
            loop=loop,
            gains=gains(labels, better),
        )
        return Round(*run_trial(store, city, spec, begun, trial, cache, launch))


def check_improve(store: Store, city: City, spec: ImproveSpec) -> None:
    """Check what can be checked before any work; errors as of `tasks.trial.check_trial`."""
    check_trial(store, city, spec, "improve")


def _loop(store: Store, spec: ImproveSpec, begun: Background) -> str:
    asked = spec.model_dump_json(exclude={"rounds", "ranks"})
    return hashlib.sha256(f"{fingerprint(store, begun.old)}\n{asked}".encode()).hexdigest()[:12]
