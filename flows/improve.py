"""Flow `improve`: improves labels with the champion, fine-tunes it on them, promotes it if it is better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from mcvrp.flows.config import settings
from mcvrp.flows.config.inputs import inputs
from mcvrp.flows.config.validation import CityName, StoreUri, shown
from mcvrp.flows.figures import improve_figures, improve_tables
from mcvrp.flows.server.artifacts import show_figures, showing_progress, trial_body
from mcvrp.flows.server.stage import DAY, stage, task
from mcvrp.storage.cities import StoredCity
from mcvrp.storage.store.store import Store
from mcvrp.tasks.retrain.card import comparison, gained
from mcvrp.tasks.retrain.improve import Round, run_round
from mcvrp.tasks.retrain.spec import ImproveSpec
from mcvrp.tasks.retrain.trial import check_trial


@task("round", "round {number} of {spec.model}")
def improve_round(store: Store, city: StoredCity, spec: ImproveSpec, number: int) -> Round:
    """Run one round, resuming it if it was interrupted."""
    subject = f"improve {spec.model} round {number}"
    with showing_progress(subject):
        done = run_round(store, city, spec, number, settings.cache_dir())
    tables = [gained(done.measured), comparison(done.measured)]
    title, body = f"Round {number} of {spec.model}", trial_body(store, spec.model, done.record, tables)
    show_figures(subject, title, improve_figures([done]), body)
    return done


def to_first_rejection(rounds: Iterable[Round]) -> Iterator[Round]:
    """Yield ``rounds``, computed one by one, up to the first without a promotion."""
    for done in rounds:
        yield done
        if not done.record.promote:
            return


@stage("improve", "improve {improve.model}, {improve.rounds} rounds", timeout=7 * DAY)
def improve(
    city: CityName,
    improve: Annotated[
        ImproveSpec, shown("Improvement", "Rounds, labels, fine-tuning, comparison, promotion")
    ],
    store: StoreUri = None,
) -> tuple[Round, ...]:
    """Improve labels with the champion, fine-tune it on them, compare, and promote it or report why not.

    Rounds end with the first that does not promote.
    """
    opened, read = inputs(check_trial, store, city, improve)
    numbers = range(1, improve.rounds + 1)
    rounds = tuple(to_first_rejection(improve_round(opened, read, improve, number) for number in numbers))
    body = trial_body(opened, improve.model, rounds[-1].record, [improve_tables(rounds)])
    show_figures(f"improve {improve.model}", f"Improvement of {improve.model}", improve_figures(rounds), body)
    return rounds
