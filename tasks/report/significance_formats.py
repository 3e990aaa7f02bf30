"""Tests of significance written down as the paper's Tables 7 and 8: CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

import pandas as pd

from mcvrp.tasks.report.formats import latex_escape, latex_notes, notes_html
from mcvrp.tasks.report.significance import Method, PairedTest
from mcvrp.tasks.support.t_test import Statistics

CAPTION = "One-sided paired t-tests of the mean cost"
_SMALLEST = 1e-300  # below, a double has no digits left to tell
_NOTHING = "–"

Row = tuple[str, ...]


def heading(tests: Sequence[PairedTest]) -> Row:
    """Return the columns: the quantities, then each test, named by its hypothesis."""
    return ("", *(f"X: {_name(test.x)}; Y: {_name(test.y)}" for test in tests))


def rows(tests: Sequence[PairedTest]) -> Iterator[Row]:
    """Yield name and values of each quantity; the paper's value, where there is one, in brackets."""
    yield ("Customers", *(str(test.n) for test in tests))
    yield ("H0", *("X ≥ Y" for _ in tests))
    yield ("H1", *("X < Y" for _ in tests))
    names = {
        "mean of X": ("x_mean", 2),
        "mean of Y": ("y_mean", 2),
        "std of X": ("x_std", 2),
        "std of Y": ("y_std", 2),
        "t": ("t", 2),
        "p": ("p", 2),
        "degrees of freedom": ("degrees", 0),
    }
    for label, (field, decimals) in names.items():
        yield (label, *(_both(test, (field,), decimals) for test in tests))
    yield ("95 % CI of the mean of X − Y", *(_both(test, ("ci_low", "ci_high"), 2) for test in tests))


def notes(tests: Sequence[PairedTest]) -> Iterator[str]:
    """Yield why a test has no figures, and what the brackets mean."""
    for test in tests:
        if test.reason:
            yield f"X: {_name(test.x)}; Y: {_name(test.y)}: {test.reason}."
    yield "Paired by instance; std with n − 1; the interval is two-sided."
    if any(test.paper for test in tests):
        yield "In brackets: the paper's figures."


def to_csv(tests: Sequence[PairedTest]) -> str:
    """Return the figures at full precision, a row a test."""
    nothing = dict.fromkeys(Statistics.__dataclass_fields__, math.nan)
    records = [
        {
            "n": test.n,
            "x": test.x[0],
            "x_samples": test.x[1],
            "y": test.y[0],
            "y_samples": test.y[1],
            **(asdict(test.statistics) if test.statistics else nothing),
            **{f"paper_{name}": value for name, value in (test.paper or {}).items()},
            "reason": test.reason,
        }
        for test in tests
    ]
    return pd.DataFrame(records).to_csv(index=False, lineterminator="\n")


def to_markdown(tests: Sequence[PairedTest]) -> str:
    """Return the tests as a GitHub Markdown table, the notes as a list below."""
    lines = ["| " + " | ".join(row) + " |" for row in (heading(tests), *rows(tests))]
    rule = "|---|" + "--:|" * len(tests)
    below = [f"- {note}" for note in notes(tests)]
    return "\n".join([f"**{CAPTION}**", "", lines[0], rule, *lines[1:], "", *below]) + "\n"


def to_latex(tests: Sequence[PairedTest]) -> str:
    """Return the tests as a LaTeX ``table`` for the packages booktabs and array."""
    column = ">{\\raggedleft\\arraybackslash}p{5.2cm}"
    body = [
        "        " + " & ".join(map(latex_escape, row)) + " \\\\" for row in (heading(tests), *rows(tests))
    ]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs,array}",
            "\\begin{table}[htbp]",
            "    \\centering\\footnotesize",
            f"    \\caption{{{CAPTION}}}",
            f"    \\begin{{tabular}}{{l{column * len(tests)}}}",
            "        \\toprule",
            body[0],
            "        \\midrule",
            *body[1:],
            "        \\bottomrule",
            "    \\end{tabular}",
            *latex_notes(list(notes(tests))),
            "\\end{table}",
            "",
        ]
    )


def to_html(tests: Sequence[PairedTest]) -> str:
    """Return the tests as an HTML fragment: a table in a scrolling box, the notes as a list."""
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in heading(tests))
    body = ""
    for name, *values in rows(tests):
        cells = "".join(f"<td>{html.escape(value)}</td>" for value in values)
        body += f'<tr><th scope="row">{html.escape(name)}</th>{cells}</tr>'
    return (
        f'<div class="scroll"><table class="tests"><caption><span>{CAPTION}</span></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{notes_html(list(notes(tests)))}"
    )


def _both(test: PairedTest, fields: tuple[str, ...], decimals: int) -> str:
    """Return one value or an interval, ours and the paper's."""
    ours = asdict(test.statistics) if test.statistics else None
    found = _NOTHING if ours is None else " to ".join(_number(f, ours[f], decimals) for f in fields)
    if not test.paper:
        return found
    return f"{found} ({' to '.join(f'{test.paper[f]:.{decimals}f}' for f in fields)})"


def _number(field: str, value: float, decimals: int) -> str:
    if field == "p" and value < 0.01:
        return f"{value:.1e}" if value > _SMALLEST else f"< {_SMALLEST:.0e}"
    if field in ("ci_low", "ci_high") and 0 < abs(value) < 0.05:
        return f"{value:.2g}"
    return f"{value:.{decimals}f}"


def _name(method: Method) -> str:
    label, samples = method
    return label if samples == 1 else f"{label}, best of {samples:,}"


FORMATS: dict[str, Callable[[Sequence[PairedTest]], str]] = {
    "csv": to_csv,
    "md": to_markdown,
    "tex": to_latex,
}
