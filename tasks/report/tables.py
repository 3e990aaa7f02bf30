"""Tables of a benchmark: lines in their order, a caption, and notes below.

How a table is written down is `tasks.report.formats`' business, which tables there are in the
paper that of `tasks.report.paper`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pandas as pd

from mcvrp.tasks.report.lines import Line, baseline_of, blocks_of, make_line
from mcvrp.tasks.report.notes import conditions, data_notes


@dataclass(frozen=True)
class Table:
    """Lines in the order of size, with a caption and notes below.

    ``conditions`` are the notes on how each method ran. ``name`` is a file's name without its
    ending. ``has_wins`` is whether there is a column of wins, ``by_samples`` whether lines of
    equal numbers of samples belong together.
    """

    caption: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    decimals: int = 2
    name: str = "table"
    has_wins: bool = True
    by_samples: bool = False


class Beginning(Enum):
    """Part of a table that begins with a line."""

    SIZE = "size"
    GROUP = "group"
    BEYOND = "beyond"
    NOTHING = ""


def beginnings(table: Table) -> list[Beginning]:
    """Return for each line what begins with it: a size, the methods beyond the paper, equal samples."""
    previous: Line | None = None
    found = []
    for line in table.lines:
        if previous is None or previous.n != line.n:
            start = Beginning.SIZE
        elif line.is_beyond:
            start = Beginning.NOTHING if previous.is_beyond else Beginning.BEYOND
        else:
            apart = table.by_samples and previous.samples != line.samples
            start = Beginning.GROUP if apart else Beginning.NOTHING
        found.append(start)
        previous = line
    return found


def benchmark_table(results: pd.DataFrame, accuracy: float | None = None, unit: str = "unit") -> Table:
    """Return the table of a benchmark: every method against a single run of the baseline.

    Parameters
    ----------
    results
        One row an instance, method and number of samples.
    accuracy
        Share of the problem tokens that the model's encoder names, None without a model.
    unit
        What a cost of 1 means, as `model.problem.City` has it.
    """
    blocks, baseline = blocks_of(results), baseline_of(results)
    lines = tuple(make_line(blocks, *key, baseline) for key in blocks)
    notes = list(data_notes(lines, unit))
    if accuracy is not None:
        notes.append(f"Encoder accuracy on the problem tokens of these instances: {100 * accuracy:.2f} %.")
    caption = f"Held-out instances, gaps to a single run of {baseline[0]}"
    return Table(caption, lines, tuple(notes), tuple(conditions(results)))
