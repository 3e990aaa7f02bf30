"""Work of a Ray worker: solves the rows of a file and creates it once, or merges files into a larger one.

Imports neither Ray nor Prefect nor torch, so that a worker starts quickly.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from mcvrp.model.problem import City
from mcvrp.storage.labels.arrays import LabelArrays
from mcvrp.storage.labels.checks import row_faults
from mcvrp.storage.labels.label_files import label_file, parse_footer, parse_table
from mcvrp.storage.labels.schema import Label, label_table
from mcvrp.storage.parallel import in_parallel
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.plan import Merge
from mcvrp.tasks.label.solving import Attempt, attempting, solver_seed
from mcvrp.tasks.label.units import LabelRecipe, Unit, UnitReceipt

ATTEMPTS = 3  # runs of the solver before a row is absent
_HOPELESS = 8  # first rows of a unit: if none of them is solved, the instances are not the cause


@dataclass(frozen=True)
class WorkerContext:
    """What all workers of a run share."""

    store: Store
    city: City
    recipe: LabelRecipe


def label_unit(unit: Unit, context: WorkerContext) -> UnitReceipt:
    """Solve the rows of ``unit`` and create its file, unless it exists; StoreError if the store refuses."""
    store, city, recipe, path = context.store, context.city, context.recipe, unit.path(context.recipe.dataset)
    if store.exists(path):  # of a worker that was lost after it had created the file
        return UnitReceipt()
    labels, absent = solve_rows(unit, city, recipe.seed, attempting(city, recipe, unit.n))
    if not labels:  # with no label at all, such a file would hide that the solver does not work
        return UnitReceipt(absent=absent, failure=next(iter(absent.values())))
    data = label_file(city, recipe.spec_hash, unit.n, label_table([*labels.values()]), absent)
    if not store.put_new(path, data):
        return UnitReceipt()
    return UnitReceipt(len(labels), absent)


def solve_rows(
    unit: Unit, city: City, seed: int, attempt: Attempt
) -> tuple[dict[int, Label], dict[int, str]]:
    """Return the labels of the rows of ``unit``, by i, and why the others have none.

    ``seed`` is that of the dataset. Every label is feasible and of the city's cost.
    """
    labels, failed = dict[int, Label](), dict[int, str]()
    for i in range(unit.start, unit.stop):
        for number in range(ATTEMPTS):
            outcome = attempt(i, solver_seed(seed, unit.n, i) + number)
            if isinstance(outcome, Label):
                labels[i] = outcome
                break
        else:
            failed[i] = str(outcome)
        if not labels and len(failed) == _HOPELESS:
            return {}, failed
    # Together: one by one would take as long as the solver with a small budget.
    while faults := row_faults(city, LabelArrays.of(label_table([*labels.values()]), unit.n)):
        for fault in faults:
            failed[fault.i] = f"the solver has returned {fault.what}"
            del labels[fault.i]
    return labels, failed


def merge_files(merge: Merge, context: WorkerContext) -> None:
    """Create the file of ``merge`` from its parts, unless it exists, then remove them.

    Raises CorruptFile if a part is corrupt; all parts are then still there.
    """
    store, city, recipe = context.store, context.city, context.recipe
    path = merge.path(recipe.dataset)
    if not store.exists(path):
        found = in_parallel(store.get, merge.parts)
        parts = [(data, store.url(part)) for part, data in zip(merge.parts, found, strict=True)]
        table = pa.concat_tables([parse_table(*part) for part in parts])
        absent = {i: why for part in parts for i, why in parse_footer(*part).absent.items()}
        store.put_new(path, label_file(city, recipe.spec_hash, merge.n, table, absent))
    store.delete_files(merge.parts)  # last: a kill before it leaves both, and readers leave out the parts
