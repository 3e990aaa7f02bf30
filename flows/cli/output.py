"""Terminal output: figures and tables aligned, results as plain JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from mcvrp.flows.figures import Figures, PipelineSummary, benchmark_figures, times


def aligned(figures: Figures) -> str:
    """Return ``figures`` as lines whose values stand below each other."""
    width = max((len(name) for name in figures), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in figures.items())


def aligned_table(markdown: str) -> str:
    """Return ``markdown`` with the cells of its table below each other, as a terminal shows it best."""
    lines = markdown.splitlines()
    places = [k for k, line in enumerate(lines) if line.startswith("|")]
    if len(places) < 2:
        return markdown
    header, ruler, *rows = ([cell.strip() for cell in lines[k].strip("|").split("|")] for k in places)
    if any(len(row) != len(header) for row in (ruler, *rows)):
        return markdown  # a bar within a cell: leave it
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.rjust(width) if rule.endswith(":") else cell.ljust(width)
            for cell, width, rule in zip(cells, widths, ruler, strict=True)
        )
        return "  ".join(aligned).rstrip()

    head = [line(header), "  ".join("-" * width for width in widths)] if any(header) else []
    table = [*head, *map(line, rows)]
    caption = [above.replace("**", "") for above in lines[: places[0]]]  # a terminal has no bold
    return "\n".join([*caption, *table, *lines[places[-1] + 1 :]])


def pipeline_text(pipeline: PipelineSummary) -> str:
    """Return what a person wants to know after a run: the table, the times, where the report lies."""
    benchmark = pipeline.benchmark
    figures = {key: value for key, value in benchmark_figures(benchmark).items() if key != "time"}
    parts = [aligned_table(benchmark.summary.markdown.strip()), aligned(times(pipeline)), aligned(figures)]
    return "\n\n".join(parts)


def plain(value: Any) -> Any:
    """Return ``value`` as JSON knows it: dataclasses as objects, arrays as lists, infinite as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, str | PurePath):
        return str(value)
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
