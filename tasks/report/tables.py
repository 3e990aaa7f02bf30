"""Tables of a benchmark: lines, caption and notes.

`tasks.report.formats` writes them, `tasks.report.paper` makes those of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pandas as pd

from mcvrp.tasks.report.lines import Line, blocks_of, make_line
from mcvrp.tasks.report.metrics import baseline_of
from mcvrp.tasks.report.notes import conditions, data_notes


@dataclass(frozen=True)
class Table:
    """Lines sorted by size, with a caption and notes.

    ``conditions`` are notes on how each method ran, ``name`` is the file name without extension, ``has_wins``
    adds the column of wins, and ``by_samples`` groups lines by number of samples.
    """

    caption: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    name: str = "table"
    has_wins: bool = True
    by_samples: bool = False


class Beginning(Enum):
    """Part of a table that a line begins."""

    SIZE = "size"
    GROUP = "group"
    BEYOND = "beyond"
    NOTHING = ""


def beginnings(table: Table) -> list[Beginning]:
    """Return what each line begins: a size, the methods beyond the paper, a group of equal samples."""
    previous: Line | None = None
    starts = []
    for line in table.lines:
        if previous is None or previous.n != line.n:
            start = Beginning.SIZE
        elif line.is_beyond:
            start = Beginning.NOTHING if previous.is_beyond else Beginning.BEYOND
        else:
            apart = table.by_samples and previous.samples != line.samples
            start = Beginning.GROUP if apart else Beginning.NOTHING
        starts.append(start)
        previous = line
    return starts


def benchmark_table(results: pd.DataFrame, accuracy: float | None = None, unit: str = "unit") -> Table:
    """Return the table of all methods, with gaps to a single run of the baseline.

    ``accuracy`` is that of the model's encoder on the problem tokens, ``unit`` the city's unit of cost.
    """
    blocks, baseline = blocks_of(results), baseline_of(results)
    lines = tuple(make_line(blocks, *key, baseline) for key in blocks)
    notes = list(data_notes(lines, unit))
    if accuracy is not None:
        notes.append(f"Encoder accuracy on the problem tokens of these instances: {100 * accuracy:.2f} %.")
    caption = f"Held-out instances, gaps to a single run of {baseline[0]}"
    return Table(caption, lines, tuple(notes), tuple(conditions(results)))
