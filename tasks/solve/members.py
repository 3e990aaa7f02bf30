"""Members of the portfolio of a day: how the cores are divided among the model and the searches."""

from __future__ import annotations

from dataclasses import replace

from mcvrp.model.problem import Solution
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solve.kept import Rest
from mcvrp.tasks.solve.member import Member, ModelMember, SearchMember
from mcvrp.tasks.solve.parts import DECOMPOSITION, PartsMember, in_parts
from mcvrp.tasks.solve.plan import Planned
from mcvrp.tasks.solve.spec import AUTO, MODEL
from mcvrp.tasks.solvers.registry import SOLVERS, USUAL_SEARCH


def members_of(store: Store, planned: Planned, rest: Rest, starts: tuple[Solution, ...] = ()) -> list[Member]:
    """Return the members: the model if there is one, and a solver on each other core, from ``starts``."""
    spec, city, instance, card = planned.spec, rest.city, rest.instance, planned.card
    solver = USUAL_SEARCH if spec.by in (AUTO, MODEL) else spec.by
    cores = 0 if spec.by == MODEL else max(1, spec.cores - bool(card))
    # made once, because its copies share the day's costs
    first = SearchMember.of(solver, city, instance, rest.limits, spec.seed) if cores else None
    searches = [replace(first, seed=spec.seed + k, starts=starts) for k in range(cores)] if first else []
    if first and spec.by == AUTO and in_parts(solver, instance.n, spec.time_limit):
        decomposed = {"starts": starts, "cores": cores, "label": DECOMPOSITION}
        searches = [PartsMember(**vars(first) | decomposed)]
    if card is None:
        return list(searches)
    label = f"model {card.name} version {card.version}"
    from_samples = f"{SOLVERS[solver].label} from samples"
    then = replace(first, seed=spec.seed + cores, label=from_samples) if first else None
    rotations = spec.rotations if card.rotation_trained else 1
    model = ModelMember(label, store, card.name, card.version, city, instance, spec, rotations, then)
    return [model, *searches]
