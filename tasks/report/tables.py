"""Tables of a benchmark: their numbers, the same as text, and notes on definitions, gaps and conditions."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mcvrp.tasks.report.metrics import (
    COLUMNS,
    Blocks,
    MethodRun,
    baseline_of,
    blocks_of,
    figures_of,
    run_name,
)
from mcvrp.tasks.support.text import format_seconds, unit_text

OVERVIEW = "table"  # name of the table of all methods
WINS, NOTHING = "Wins (%)", "–"
_HEADINGS = (
    *("N", "Method", WINS, "Obj. avg.", "Obj. 80 %"),
    *("Gap avg. (%)", "Gap 80 % (%)", "Time"),
)
_LARGE = 10_000  # means from here on need no decimals, such as metres


@dataclass(frozen=True)
class Table:
    """A table: its numbers at full precision, one row per line, and its cells as text, with notes."""

    name: str  # of its files, without extension
    caption: str
    numbers: pd.DataFrame
    cells: pd.DataFrame
    notes: Sequence[str]
    conditions: Sequence[str] = ()  # how each method ran, with the table of all methods only


def benchmark_table(results: pd.DataFrame, unit: str = "unit") -> Table:
    """Return the table of all methods, with gaps to a single run of the baseline.

    ``unit`` is the city's unit of cost.
    """
    blocks, baseline = blocks_of(results), baseline_of(results)
    numbers = numbers_of(blocks, [(n, (method, samples), baseline) for n, method, samples in blocks])
    notes = list(data_notes(numbers, unit))
    caption = f"Held-out instances, gaps to a single run of {baseline[0]}"
    return Table(OVERVIEW, caption, numbers, cells_of(numbers), notes, list(conditions(results)))


def numbers_of(blocks: Blocks, lines: Sequence[tuple[int, MethodRun, MethodRun]]) -> pd.DataFrame:
    """Return one row with `COLUMNS` per line: a size, a method and its baseline."""
    numbers = pd.DataFrame([figures_of(blocks, *line) for line in lines], columns=list(COLUMNS))
    return numbers.astype({"wins": "Int64", "compared": "Int64"})  # counts, which may be missing


def cells_of(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return ``numbers`` as text, in the columns of the paper's tables, without rows that have no answer."""
    solved = numbers[numbers["cost_mean"].notna()]
    return pd.DataFrame(map(_cells, solved.to_dict("records")), columns=list(_HEADINGS))


def _cells(line: Mapping[Hashable, Any]) -> tuple[str, ...]:
    name, gaps = run_name((line["method"], line["samples"])), _spread(line, "gap")
    if name == line["baseline"] and gaps[0] != NOTHING:
        gaps = "baseline", ""
    elif pd.notna(line["gap_error"]):
        gaps = f"{gaps[0]} ± {_fixed(line['gap_error'], 2)}", gaps[1]
    known = pd.notna(line["wins"])
    return (
        str(line["n"]),
        name,
        f"{100 * line['wins'] / line['compared']:.1f}" if known else NOTHING,
        *_spread(line, "cost"),
        *gaps,
        format_seconds(line["seconds"]) if pd.notna(line["seconds"]) else NOTHING,
    )


def _spread(line: Mapping[Hashable, Any], name: str) -> tuple[str, str]:
    """Return the cells of a mean and of its range."""
    if pd.isna(line[f"{name}_mean"]):
        return NOTHING, NOTHING
    decimals = 0 if line[f"{name}_mean"] >= _LARGE else 2
    mean, low, high = (_fixed(line[f"{name}_{part}"], decimals) for part in ("mean", "p10", "p90"))
    return mean, f"{low} – {high}"


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text  # no "-0.00"


def data_notes(numbers: pd.DataFrame, unit: str) -> Iterator[str]:
    """Yield numbers of instances, definitions of the columns, and missing answers."""
    counts = numbers.groupby("n")["instances"].max()
    counted = ", ".join(f"{count:,} (N = {n})" for n, count in counts.items())
    yield f"Means over held-out instances: {counted}."
    yield (
        f"Obj.: cost in {unit_text(unit)}; 80 %: 10th to 90th percentile; gap: mean of the gaps to the "
        "baseline, ± its standard error; wins: share of instances with a strictly lower cost than the "
        "baseline; s: number of samples or runs, of which the best counts, or width of the beam."
    )
    yield (
        "Time: that of one core, or of the GPU, per instance, all s runs. Instances decoded together share "
        "the time of all cores evenly."
    )
    failed = numbers[numbers["failed"] > 0]
    for (method, failure), lines in failed.groupby(["method", "failure"], sort=False):
        sums = lines[["failed", "instances", "n"]].drop_duplicates().itertuples(index=False)
        missing = ", ".join(f"{count} of {total} instances (N = {n})" for count, total, n in sums)
        yield f"{method}: no answer on {missing}, which its figures exclude: {failure}."


def conditions(results: pd.DataFrame) -> Iterator[str]:
    """Yield one note per method: configuration, seeds and hardware."""
    ran = results[results["machine"] != ""]
    for method, block in ran.groupby("method", sort=False):
        yield f"{method}: {'; '.join(_facts(block))}."


def _facts(block: pd.DataFrame) -> Iterator[str]:
    texts = block[["configuration", "version"]].drop_duplicates()
    for configuration, version in texts.itertuples(index=False):
        yield configuration if not version or version in configuration else f"{configuration} ({version})"
    seeds = ", ".join(map(str, sorted(block["seed"].unique().tolist())))
    yield f"seed {seeds}" if block["samples"].max() == 1 else f"seeds {seeds} and up"
    places = block[["device", "workers", "machine"]].drop_duplicates()
    for device, workers, machine in places.itertuples(index=False):
        parallel = f", {workers} in parallel" if workers != 1 else ""
        yield f"{device} per instance{parallel}, on a machine with {machine}"
