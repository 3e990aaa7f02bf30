"""Optional columns of a day's orders: service times of a shift, and priorities of customers to leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mcvrp.tasks.files.faults import Faults
from mcvrp.tasks.files.tabular import Tabular
from mcvrp.tasks.solve.spec import MOST_SECONDS, SolveSpec

_SERVICE, _PRIORITY = ("service", "service_time", "service_duration"), "priority"


@dataclass(frozen=True)
class Wishes:
    """Service times and priorities of customers, by their nodes."""

    service: Mapping[int, float] = field(default_factory=dict)  # seconds of all of a customer's orders
    priority: Mapping[int, float] | None = None  # the highest of a customer's orders; None without a column
    columns: tuple[str, ...] = ()  # that were read


def read_wishes(table: Tabular, nodes: Sequence[int], spec: SolveSpec | None, faults: Faults) -> Wishes:
    """Return the columns that ``spec`` uses: service times of a shift, priorities of those to leave out.

    ``nodes`` are the customers of the rows. Wrong cells are added to ``faults``. Raises McvrpError if several
    columns are of service times.
    """
    service, priority, columns = dict[int, float](), None, []
    if spec is not None and spec.shift is not None:
        column = table.column(*_SERVICE)
        columns += [column] if column else []
        seconds = _numbers(table, column, spec.service or 0.0, faults)
        for row, node, number in zip(table.rows.tolist(), nodes, seconds, strict=True):
            service[node] = service.get(node, 0.0) + number
            if number < 0 or number > MOST_SECONDS:  # NaN is neither: that cell is reported already
                faults.at(row, f"{column} {number:.10g} is not 0 to {MOST_SECONDS:,} seconds")
    if spec is not None and spec.drop and (column := table.column(_PRIORITY)):
        columns, priority = [*columns, column], dict[int, float]()
        for node, number in zip(nodes, _numbers(table, column, 0.0, faults), strict=True):
            priority[node] = max(priority.get(node, number), number)
    return Wishes(service, priority, tuple(columns))


def _numbers(table: Tabular, column: str | None, empty: float, faults: Faults) -> list[float]:
    """Return a column of numbers, ``empty`` for empty cells, and without a column."""
    values = np.full(len(table), empty)
    filled = np.zeros(len(table), dtype=bool) if column is None else table.text(column) != ""
    if column is not None and filled.any():
        part = replace(table, frame=table.frame[filled].reset_index(drop=True), rows=table.rows[filled])
        values[filled] = part.numbers(column, faults)
    return values.tolist()
