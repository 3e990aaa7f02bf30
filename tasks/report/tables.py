"""Tables of a benchmark: lines, caption, and notes on definitions, missing answers and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from mcvrp.tasks.report.metrics import Line, baseline_of, blocks_of, make_line
from mcvrp.tasks.support.text import unit_text

_TOLERANCE = 0.5  # cores that the operating system and the driver use


@dataclass(frozen=True)
class Table:
    """Lines sorted by size, with a caption and notes."""

    caption: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    conditions: tuple[str, ...] = ()  # notes on how each method ran
    name: str = "table"  # of its files, without extension
    has_wins: bool = True  # whether it has a column of wins
    by_samples: bool = False  # whether its lines are grouped by number of samples


Beginning = Literal["size", "group", "beyond", ""]  # part of a table that a line begins


def beginnings(table: Table) -> list[Beginning]:
    """Return what each line begins: a size, the methods beyond the paper, a group of equal samples."""
    starts: list[Beginning] = []
    for previous, line in zip((None, *table.lines), table.lines, strict=False):
        if previous is None or previous.n != line.n:
            starts.append("size")
        elif line.is_beyond:
            starts.append("" if previous.is_beyond else "beyond")
        else:
            starts.append("group" if table.by_samples and previous.samples != line.samples else "")
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


def data_notes(lines: Sequence[Line], unit: str) -> Iterator[str]:
    """Yield numbers of instances, definitions of the columns, and missing answers."""
    counts: dict[int, int] = {}
    for line in lines:
        counts[line.n] = max(counts.get(line.n, 0), line.instances)
    if len(set(counts.values())) == 1:
        yield f"Means over {next(iter(counts.values())):,} held-out instances of each size."
    elif counts:
        sizes = ", ".join(f"{count:,} (N = {n})" for n, count in counts.items())
        yield f"Means over held-out instances: {sizes}."
    yield (
        f"Obj.: travel cost in {unit_text(unit)}; 80 %: 10th to 90th percentile; "
        "gap: mean of the instances' gaps to the baseline; wins: share of instances with a strictly lower "
        "cost than the baseline; s: number of samples or runs, of which the best counts."
    )
    yield (
        "Time: wall-clock time per instance on the hardware named beside it or below. Instances decoded in "
        "one batch share its time evenly; for s runs of a heuristic it is the time after s runs."
    )
    for line in lines:
        if line.failed and line.cost:
            yield (
                f"{line.name}, N = {line.n}: no answer on {line.failed} of {line.instances} instances "
                f"({line.failure}); its figures exclude them."
            )
        if 0 < line.instances < counts[line.n]:
            yield f"{line.name}, N = {line.n}: {line.instances:,} of {counts[line.n]:,} instances so far."
    yield from _without_figures(lines)


def _without_figures(lines: Sequence[Line]) -> Iterator[str]:
    """Yield one note per method and reason, with the sizes or lines that it concerns."""
    empty: dict[tuple[str, str | None], list[Line]] = {}
    for line in lines:
        if line.cost is None:
            empty.setdefault((line.method, line.failure), []).append(line)
    for (method, failure), group in empty.items():
        sizes, names = {line.n for line in group}, dict.fromkeys(line.name for line in group)
        where = "" if sizes == {line.n for line in lines} else f" at N = {', '.join(map(str, sorted(sizes)))}"
        if len(group) == sum(line.method == method and line.n in sizes for line in lines):
            names = {method: None}
        yield f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no figures{where}: {failure}."


def conditions(results: pd.DataFrame) -> Iterator[str]:
    """Yield one note per method: configuration, seeds, hardware, and other load on the machine."""
    ran = results[results["machine"] != ""]
    for method, block in ran.groupby("method", sort=False):
        yield f"{method}: {'; '.join(_facts(block))}."


def _facts(block: pd.DataFrame) -> Iterator[str]:
    texts = block[["configuration", "version"]].drop_duplicates()
    for configuration, version in texts.itertuples(index=False):
        yield configuration if not version or version in configuration else f"{configuration} ({version})"
    seeds = ", ".join(map(str, sorted(block["seed"].unique().tolist())))
    yield f"seed {seeds}" if block["samples"].max() == 1 else f"seeds {seeds} and up"
    for (device, workers, machine), part in block.groupby(["device", "workers", "machine"], sort=False):
        parallel = f", {workers} in parallel" if workers != 1 else ""
        yield f"{device} per instance{parallel}, on a machine with {machine}"
        yield _other_load(part["other_cores"])


def _other_load(other_cores: pd.Series) -> str:
    cores = float(other_cores.mean())  # NaN if unknown
    if pd.isna(cores):
        return "other load on the machine was not recorded"
    if cores <= _TOLERANCE:
        return "no other load on the machine"
    return f"other processes kept {cores:.1f} cores of the machine busy, so times are upper bounds"
