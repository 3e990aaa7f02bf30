"""Notes below a benchmark's tables: what is compared, who has no answers, how each method ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from mcvrp.tasks.report.lines import Line
from mcvrp.tasks.support.text import unit_text

_TOLERANCE = 0.5  # cores: what the system itself and the driver need


def data_notes(lines: Sequence[Line], unit: str) -> Iterator[str]:
    """Yield what the lines themselves have to say: instances, columns, and who has no answer to what.

    ``unit`` is what a cost of 1 means, as `model.problem.City` has it.
    """
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
        "gap: mean of each instance's gap to the baseline; "
        "wins: instances strictly better than the baseline; s: number of samples or runs, the best counts."
    )
    yield (
        "Time: wall-clock per instance as run, on what is named beside it or below; instances decoded "
        "together share it evenly, of the runs of a heuristic it is what had passed after so many."
    )
    for line in lines:
        if line.failed and line.cost:
            yield (
                f"{line.name}, N = {line.n}: no answer on {line.failed} of {line.instances} instances "
                f"({line.failure}); its figures leave them out."
            )
        if 0 < line.instances < counts[line.n]:
            yield f"{line.name}, N = {line.n}: {line.instances:,} of {counts[line.n]:,} instances so far."
    yield from _without_figures(lines)


def _without_figures(lines: Sequence[Line]) -> Iterator[str]:
    """Yield a note a reason: of a whole method, or of some of its lines, and at which sizes if not at all."""
    found: dict[tuple[str, str | None], list[Line]] = {}
    for line in lines:
        if line.cost is None:
            found.setdefault((line.method, line.failure), []).append(line)
    every = {line.n for line in lines}
    for (method, failure), those in found.items():
        sizes = {line.n for line in those}
        where = "" if sizes == every else f" at N = {', '.join(map(str, sorted(sizes)))}"
        whole = len(those) == sum(line.method == method and line.n in sizes for line in lines)
        subject = method if whole else ", ".join(dict.fromkeys(line.name for line in those))
        verb = "has" if whole or len({line.name for line in those}) == 1 else "have"
        yield f"{subject} {verb} no figures{where}: {failure}."


def conditions(results: pd.DataFrame) -> Iterator[str]:
    """Yield a note a method: configuration, seeds, processors, and whether it had the machine to itself."""
    ran = results[results["machine"] != ""]
    for method, block in ran.groupby("method", sort=False):
        yield f"{method}: {'; '.join(_facts(block))}."


def _facts(block: pd.DataFrame) -> Iterator[str]:
    texts = block[["configuration", "version"]].drop_duplicates()
    for configuration, version in texts.itertuples(index=False):
        yield configuration if not version or version in configuration else f"{configuration} ({version})"
    yield _seeds(block)
    for (device, workers, machine), part in block.groupby(["device", "workers", "machine"], sort=False):
        at_once = f", {workers} at once" if workers != 1 else ""
        yield f"{device} an instance{at_once}, on a machine with {machine}"
        yield _alone(part["other_cores"])


def _seeds(block: pd.DataFrame) -> str:
    seeds = ", ".join(map(str, sorted(block["seed"].unique().tolist())))
    return f"seed {seeds}" if block["samples"].max() == 1 else f"seeds from {seeds} up"


def _alone(others: pd.Series) -> str:
    """Say whether others worked on the machine meanwhile."""
    known = others.dropna()
    if known.empty:
        return "whether it had the machine to itself was not recorded"
    cores = float(known.mean())
    if cores <= _TOLERANCE:
        return "nothing else of weight ran on the machine"
    return f"not alone: other work kept {cores:.1f} cores of the machine busy, times are upper bounds"
