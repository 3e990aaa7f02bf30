"""Text of the cells of a benchmark's tables, the same in every format, the paper's apart from ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from mcvrp.tasks.report.metrics import Line, Percentiles, method_name
from mcvrp.tasks.report.paper import PAPERS_HGS, PairedTest
from mcvrp.tasks.report.tables import Table
from mcvrp.tasks.support.text import format_seconds

BASELINE = "baseline"
SIGNIFICANCE = "One-sided paired t-tests of the mean cost"
_HEADINGS = (
    *("N", "Method", "Wins (%)", "Obj. avg.", "Obj. 80 %"),
    *("Gap avg. (%)", "Gap 80 % (%)", "Time", "Run on"),
)
_WINS = 2  # index of the column
_NOTHING = "–"
_LARGE = 10_000  # means from here on need no decimals, such as metres
_SMALLEST = 1e-300  # below, a double loses precision
_STATISTICS = {  # rows of the paper's Tables 7 and 8: fields of `Statistics`
    "mean of X": ("x_mean",),
    "mean of Y": ("y_mean",),
    "std of X": ("x_std",),
    "std of Y": ("y_std",),
    "t": ("t",),
    "p": ("p",),
    "degrees of freedom": ("degrees",),
    "95 % CI of the mean of X − Y": ("ci_low", "ci_high"),
}


@dataclass(frozen=True)
class Cell:
    """Our text, the paper's ("" for none), and the value to sort by."""

    text: str
    paper: str = ""
    value: float | str | None = None

    def __str__(self) -> str:
        return f"{self.text} ({self.paper})" if self.paper else self.text


def headings(table: Table) -> tuple[str, ...]:
    return tuple(h for k, h in enumerate(_HEADINGS) if table.has_wins or k != _WINS)


def cells(table: Table, line: Line) -> tuple[Cell, ...]:
    """Return the cells of ``line``, in the order of `headings`."""
    paper = line.published

    def spread(name: str) -> tuple[Cell, Cell]:
        """Return the cells of a mean and its range; the paper has two decimals, or dashes."""
        ours: Percentiles | None = getattr(line, name)
        theirs = _spread(getattr(paper, name), 2) if paper else ("", "")
        mean, span = _spread(ours, 0 if ours and ours.mean >= _LARGE else 2)
        low, middle = (ours.low, ours.mean) if ours else (None, None)
        return Cell(mean, theirs[0], middle), Cell(span, theirs[1], low)

    gap = spread("gap")
    if line.is_baseline:
        gap = (Cell(BASELINE), Cell("")) if line.gap else (Cell(_NOTHING), Cell(_NOTHING))
    seconds = "" if paper is None or paper.seconds is None else format_seconds(paper.seconds)
    every = (
        Cell(str(line.n), value=line.n),
        Cell(line.name, value=line.name),
        Cell(_share(line) or _NOTHING, _share(paper) if paper else "", line.wins),
        *spread("cost"),
        *gap,
        Cell(_NOTHING if line.seconds is None else format_seconds(line.seconds), seconds, line.seconds),
        Cell(line.run_on, value=line.run_on),
    )
    return tuple(cell for k, cell in enumerate(every) if table.has_wins or k != _WINS)


def _share(figures: Line) -> str:
    """Return the wins in percent of the compared instances, "" if unknown."""
    among = figures.compared or figures.instances  # published lines have the latter only
    return "" if figures.wins is None else f"{100 * figures.wins / among:.1f}"


def _spread(values: Percentiles | None, decimals: int) -> tuple[str, str]:
    if values is None:
        return _NOTHING, _NOTHING
    mean, low, high = (_fixed(value, decimals) for value in (values.mean, values.low, values.high))
    return mean, f"{low} – {high}"


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text  # no "-0.00"


def significance_rows(tests: Sequence[PairedTest]) -> list[tuple[str, ...]]:
    """Return the rows of the table of tests, headings first; the paper's values are in brackets."""
    return [
        ("", *(_hypothesis(test) for test in tests)),
        ("Customers", *(str(test.n) for test in tests)),
        ("H0", *("X ≥ Y" for _ in tests)),
        ("H1", *("X < Y" for _ in tests)),
        *((name, *(_both(test, fields) for test in tests)) for name, fields in _STATISTICS.items()),
    ]


def significance_notes(tests: Sequence[PairedTest]) -> Iterator[str]:
    """Yield the reasons for missing figures, and definitions."""
    for test in tests:
        if test.reason:
            yield f"{_hypothesis(test)}: {test.reason}."
    yield "Paired by instance; std with n − 1; the interval is two-sided."
    if any(test.paper for test in tests):
        yield f"In brackets: the paper's figures. {PAPERS_HGS}"


def _hypothesis(test: PairedTest) -> str:
    return f"X: {method_name(test.x)}; Y: {method_name(test.y)}"


def _both(test: PairedTest, fields: tuple[str, ...]) -> str:
    ours = asdict(test.statistics) if test.statistics else None
    text = " to ".join(_number(field, ours[field]) for field in fields) if ours else _NOTHING
    if not test.paper:
        return text
    return f"{text} ({' to '.join(_decimal(field, test.paper[field]) for field in fields)})"


def _number(field: str, value: float) -> str:
    if field == "p" and value < 0.01:
        return f"{value:.1e}" if value > _SMALLEST else f"< {_SMALLEST:.0e}"
    if field in ("ci_low", "ci_high") and 0 < abs(value) < 0.05:
        return f"{value:.2g}"
    return _decimal(field, value)


def _decimal(field: str, value: float) -> str:
    return f"{value:.{0 if field == 'degrees' else 2}f}"
