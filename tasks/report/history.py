"""The solver of a benchmarked model's labels, as far as it is known."""

from __future__ import annotations

from collections.abc import Iterable

from mcvrp.model.errors import McvrpError
from mcvrp.storage import layout
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.store.store import Store, StoreError
from mcvrp.tasks.label.spec import stored_spec
from mcvrp.tasks.solvers.budgets import budget_for
from mcvrp.tasks.solvers.registry import SOLVERS


def labelled_by(store: Store, card: ModelCard | None, sizes: Iterable[int]) -> dict[int, str]:
    """Return the configuration of the solver of the model's labels by size; {} if it is unknown.

    It is unknown without a model, if its labels have no spec, as those of a night, if the spec is damaged, or
    if the solver is not installed on this machine.
    """
    if card is None or not store.exists(layout.label_spec(card.dataset)):
        return {}
    try:
        spec, _ = stored_spec(store, card.dataset)
        solver = SOLVERS[spec.solver]  # KeyError: of a plugin that is not installed here
        options = {n: budget_for(spec.chosen_budget, n).options() for n in sizes}
        return {n: solver.make(**options[n], fleet=spec.fleet).configuration for n in options}
    except StoreError:
        raise
    except (McvrpError, KeyError):
        return {}
