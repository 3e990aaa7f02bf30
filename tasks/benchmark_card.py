"""The card of a benchmark: README.md with its key figures, its table and pictures, and what each file is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tasks.benchmark_summary import BenchmarkSummary
from tasks.markdown import table
from tasks.report_page import Figure, KeyFigure

_FILES = {
    "report.html": "all of it on one page, with settings and the history of the model",
    "table.md, .csv, .tex": "the table below; CSV has full precision",
    "tables/": "the paper's four tables and its tests of significance, in the same formats",
    "figures/": "the pictures below, and those of the paper, as PNG and SVG",
    "summary.json": "the key figures for programs",
    "configuration.json": "what was asked for: labels, training, benchmark",
    "results.parquet": "a row an instance, method and number of samples: cost, seconds, routes, who and how",
    "parts/": "the answers as they came, in parts named by what decides them",
}


def benchmark_text(
    summary: BenchmarkSummary, lead: str, key_figures: Sequence[KeyFigure], figures: Sequence[Figure]
) -> str:
    """Return the card as Markdown; pictures are links relative to it.

    Parameters
    ----------
    lead
        What was compared, on what, when.
    key_figures, figures
        Those of the report.
    """
    rows = [[key.label, key.value, key.note] for key in key_figures]
    files = [[f"`{file}`", text] for file, text in _FILES.items()]
    parts = [f"# Benchmark `{summary.run}`", lead]
    parts += [table(["", "", ""], rows), "## Files", table(["File", "Holds"], files)]
    parts += ["## Table", summary.markdown.strip(), "## Pictures", *_pictures(figures)]
    return "\n\n".join(parts) + "\n"


def _pictures(figures: Sequence[Figure]) -> Iterator[str]:
    for figure in figures:
        yield f"![{figure.name}](figures/{figure.name}.png)"
        yield figure.caption
