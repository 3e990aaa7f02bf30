"""Work of a Ray worker: labels the rows of a unit, and stages or publishes them.

Imports neither Ray nor Prefect nor torch, so that a worker starts quickly.
"""

from __future__ import annotations

from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.labels.label_files import read_footer, write_table
from mcvrp.storage.labels.schema import Label, label_table
from mcvrp.storage.store.store import Store
from mcvrp.tasks.label.publish import LabelPiece, publish
from mcvrp.tasks.label.solving import solving
from mcvrp.tasks.label.work import Failure, LabelRecipe, Unit, UnitReceipt


def label_unit(store: Store, city: City, recipe: LabelRecipe, unit: Unit) -> UnitReceipt:
    """Label the rows of ``unit`` and publish them as shards, or stage them as one file.

    Raises McvrpError if the store refuses them, or a label is wrong.
    """
    made, seconds, chunk = 0, 0.0, None
    failures: list[Failure] = []
    parts = [(None, unit.start, unit.stop)] if unit.shard_rows is None else unit.shards(unit.shard_rows)
    with solving(city, recipe, unit) as solve:
        for k, start, stop in parts:
            shard = None if k is None else layout.label_shard(recipe.dataset, unit.n, k)
            # The unit of a lost worker is repeated: shards that the worker has published are complete.
            if shard and (published := _published(store, shard, stop)):
                made += published
                continue
            outcomes = [solve(i) for i in range(start, stop)]
            labels = [outcome for outcome in outcomes if isinstance(outcome, Label)]
            failed = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
            table, absent = label_table(labels), tuple(failure.i for failure in failed)
            if shard:
                pieces = [LabelPiece(table, absent)]
                publish(store, city, recipe.spec_hash, shard, unit.n, start, stop, pieces)
            else:
                # Named after its rows: a unit that is repeated replaces its own chunk, and no other.
                path = layout.staged_chunk(recipe.dataset, unit.n, start, stop)
                chunk = write_table(store, path, city, recipe.spec_hash, unit.n, table, absent)
            made += len(labels)
            failures += failed
            seconds += sum(label.runtime for label in labels)
    return UnitReceipt(made, tuple(failures), seconds, chunk)


def _published(store: Store, shard: str, stop: int) -> int:
    """Return the number of rows of the shard if it is complete up to row ``stop``, otherwise 0."""
    if not store.exists(shard):
        return 0
    footer = read_footer(store, shard)
    # With absent rows it is not complete: this unit may solve them.
    return footer.rows if footer.row_stop >= stop and not footer.absent else 0
