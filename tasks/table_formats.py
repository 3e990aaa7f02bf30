"""A table of the benchmark written down: CSV, Markdown, LaTeX (booktabs) and an HTML fragment."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
import pandas as pd

from tasks.tables import Line, Range, Table

HEADINGS = ("N", "Method", "Wins", "Obj. avg.", "Obj. 80 %", "Gap avg. (%)", "Gap 80 % (%)", "Time", "Run on")
BASELINE = "baseline"
_NOTHING = "–"
_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
    "−": "$-$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "·": r"$\cdot$",
}


def cells(table: Table, line: Line) -> tuple[str, ...]:
    """Return what stands in each column of ``line``, in the order of `HEADINGS`."""
    d = table.decimals

    def spread(values: Range | None) -> tuple[str, str]:
        if values is None:
            return _NOTHING, _NOTHING
        return _fixed(values.mean, d), f"{_fixed(values.low, d)} – {_fixed(values.high, d)}"

    gap = (BASELINE, "") if line.is_baseline and line.gap else spread(line.gap)
    won = _NOTHING if line.wins is None else str(line.wins)
    seconds = _NOTHING if line.seconds is None else format_seconds(line.seconds)
    return str(line.n), line.name, won, *spread(line.cost), *gap, seconds, line.run_on


def format_seconds(seconds: float) -> str:
    """Return a time per instance with three digits that count: "8.10 ms", "5.00 s", "1.28 min", "1.05 h"."""
    for limit, factor, unit in ((0.9995, 1000.0, "ms"), (99.95, 1.0, "s"), (5997, 1 / 60, "min")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"
    return f"{seconds / 3600:.2f} h"


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text  # no "-0.00"


def to_frame(table: Table) -> pd.DataFrame:
    """Return the table's numbers at full precision, one row a line; missing is NaN."""
    nothing = Range(np.nan, np.nan, np.nan)
    return pd.DataFrame(
        {
            "n": line.n,
            "method": line.method,
            "samples": line.samples,
            "instances": line.instances,
            "failed": line.failed,
            "wins": np.nan if line.wins is None else line.wins,
            **{f"cost_{k}": v for k, v in _columns(line.cost or nothing)},
            **{f"gap_{k}": v for k, v in _columns(line.gap or nothing)},
            "seconds": np.nan if line.seconds is None else line.seconds,
            "run_on": line.run_on,
            "failure": line.failure,
        }
        for line in table.lines
    )


def _columns(values: Range) -> tuple[tuple[str, float], ...]:
    return ("mean", values.mean), ("p10", values.low), ("p90", values.high)


def to_csv(table: Table) -> str:
    """Return the numbers at full precision as CSV."""
    return to_frame(table).to_csv(index=False, lineterminator="\n")


def to_markdown(table: Table) -> str:
    """Return the table as GitHub Markdown, the notes as a list below."""

    def row(values: Sequence[str]) -> str:
        return "| " + " | ".join(v.replace("|", r"\|") for v in values) + " |"

    rule = "|" + "|".join("---" if h in ("Method", "Run on") else "--:" for h in HEADINGS) + "|"
    body = [row(cells(table, line)) for line in table.lines]
    notes = [f"- {note}" for note in table.notes]
    return "\n".join([f"**{table.caption}**", "", row(HEADINGS), rule, *body, "", *notes]) + "\n"


def to_latex(table: Table) -> str:
    """Return the table as a LaTeX ``table`` for the packages booktabs and multirow."""
    text = [
        "% needs \\usepackage{booktabs} and \\usepackage{multirow}",
        "\\begin{table}[htbp]",
        "    \\centering\\footnotesize",
        f"    \\caption{{{latex_escape(table.caption)}}}",
        "    \\begin{tabular}{rlr rr rr rl}",
        "        \\toprule",
        "        & & & \\multicolumn{2}{c}{Obj.} & \\multicolumn{2}{c}{Gap (\\%)} & & \\\\",
        "        \\cmidrule(lr){4-5} \\cmidrule(lr){6-7}",
        "        N & Method & Wins & Avg. & 80\\,\\% range & Avg. & 80\\,\\% range & Time & Run on \\\\",
    ]
    sizes = [line.n for line in table.lines]
    for k, line in enumerate(table.lines):
        n, *rest = (latex_escape(cell) for cell in cells(table, line))
        first = k == 0 or sizes[k - 1] != line.n
        if first:
            text.append("        \\midrule")
            n = f"\\multirow{{{sizes.count(line.n)}}}{{*}}{{{n}}}"
        if rest[4] == BASELINE:
            rest[4:6] = [f"\\multicolumn{{2}}{{c}}{{\\itshape {BASELINE}}}"]
        text.append("        " + " & ".join([n if first else "", *rest]) + " \\\\")
    text += ["        \\bottomrule", "    \\end{tabular}"]
    text += [
        "    \\par\\smallskip\\raggedright\\scriptsize",
        *(f"    {latex_escape(n)}" for n in table.notes),
    ]
    return "\n".join([*text, "\\end{table}"]) + "\n"


def latex_escape(text: str) -> str:
    """Return ``text`` with every character that LaTeX would act on made harmless."""
    return "".join(_LATEX.get(character, character) for character in text)


def to_html(table: Table) -> str:
    """Return the table as an HTML fragment: a ``table`` in a scrolling box, the notes as a list."""
    head = "".join(f"<th>{html.escape(h)}</th>" for h in HEADINGS)
    body = []
    previous = None
    for line in table.lines:
        values = list(cells(table, line))
        start = ' class="start"' if line.n != previous else ""
        values[0] = values[0] if line.n != previous else ""
        previous = line.n
        body.append(f"<tr{start}>{''.join(f'<td>{html.escape(v)}</td>' for v in values)}</tr>")
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
    return (
        f'<div class="scroll"><table><caption>{html.escape(table.caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        f'<ul class="notes">{notes}</ul>'
    )
