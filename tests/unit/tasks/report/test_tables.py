"""Tables: the figures of the paper's columns from per-instance results, and their four formats."""

from __future__ import annotations

import io
import statistics
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from mcvrp.model.problem import gap
from mcvrp.tasks.report.cells import cells
from mcvrp.tasks.report.formats import (
    latex_escape,
    to_csv,
    to_html,
    to_latex,
    to_markdown,
    to_narrow_markdown,
)
from mcvrp.tasks.report.lines import Line, blocks_of, make_line
from mcvrp.tasks.report.metrics import Percentiles, paired, wins
from mcvrp.tasks.report.tables import Table, benchmark_table
from mcvrp.tasks.support.text import format_seconds


def block(
    method: str, n: int, costs: list[float | None], samples: int = 1, failure: str | None = None
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "method": method,
            "n": n,
            "index": range(len(costs)),
            "samples": samples,
            "cost": pd.array(costs, dtype="float64"),
            "seconds": 0.5,
            "seed": 1,
            "device": "1 CPU core",
            "workers": 2,
            "machine": "2 cores of a processor",
            "other_cores": 0.2,
            "version": "1.0",
            "failure": [failure if cost is None else None for cost in costs],
            "configuration": f"{method} as it comes",
        }
    )


def line(table: Table, method: str, samples: int = 1, n: int = 20) -> Line:
    (found,) = [x for x in table.lines if (x.method, x.samples, x.n) == (method, samples, n)]
    return found


HGS = [10.0, 20.0, 40.0]


def small_table() -> Table:
    results = [
        block("HGS", 20, HGS),
        block("FM-MCVRP (GS)", 20, [11.0, 20.0, 36.0]),
        block("FM-MCVRP (NS)", 20, [10.0, 20.0 - 1e-10, 39.0], samples=16),
    ]
    return benchmark_table(pd.concat(results))


def test_a_gap_is_the_mean_of_the_instances_gaps_not_the_gap_of_the_means() -> None:
    """Instances with gaps of +10, 0 and -10 % have a mean gap of 0, whatever they cost."""
    greedy = line(small_table(), "FM-MCVRP (GS)")
    assert greedy.gap is not None
    assert greedy.gap.mean == pytest.approx(0)
    assert (greedy.gap.low, greedy.gap.high) == pytest.approx((-8, 8))  # linear between -10, 0 and 10
    assert greedy.cost is not None
    assert greedy.cost.mean == pytest.approx(67 / 3)


def test_a_win_is_strict() -> None:
    """Equal costs and a difference of 1e-10 are ties; only 39 < 40 wins."""
    table = small_table()
    assert line(table, "FM-MCVRP (NS)", 16).wins == 1
    assert line(table, "FM-MCVRP (GS)").wins == 1
    assert line(table, "HGS").wins is None


def test_the_baseline_of_every_sample_count_is_its_single_run_or_its_equal() -> None:
    """HGS best of 4 is compared with HGS s = 1 by default, and is itself a baseline at equal s."""
    results = pd.concat([block("HGS", 20, HGS), block("HGS", 20, [9.0, 18.0, 36.0], samples=4)])
    best_of_4 = line(benchmark_table(results), "HGS", 4)
    assert best_of_4.gap is not None
    assert best_of_4.gap.mean == pytest.approx(-10)
    assert best_of_4.wins == 3
    assert make_line(blocks_of(results), 20, "HGS", 4, ("HGS", 4)).is_baseline


def test_an_instance_that_failed_is_left_out_and_counted() -> None:
    """The line's figures cover what was solved, its gap what both solved; the note says how many failed."""
    results = pd.concat([block("HGS", 20, HGS), block("LKH-3", 20, [None, 22.0, 40.0], failure="it crashed")])
    table = benchmark_table(results)
    lkh = line(table, "LKH-3")
    assert lkh.failed == 1
    assert lkh.gap is not None
    assert lkh.gap.mean == pytest.approx(5)
    assert any("no answer on 1 of 3" in note and "it crashed" in note for note in table.notes)


def test_a_method_that_never_ran_has_a_row_and_a_reason() -> None:
    """Missing LKH-3: dashes in its row, the reason below the table, in every format."""
    results = pd.concat([block("HGS", 20, HGS), block("LKH-3", 20, [None] * 3, failure="not installed")])
    table = benchmark_table(results)
    row = cells(table, line(table, "LKH-3"))
    assert [cell.text for cell in row[2:8]] == ["–"] * 6
    for text in (to_markdown(table), to_html(table), to_latex(table), to_csv(table)):
        assert "LKH-3" in text
        assert "not installed" in text


def test_wins_of_a_method_when_the_baseline_never_ran_are_unknown() -> None:
    """Without a baseline there is neither gap nor win, and no line pretends to be one."""
    table = benchmark_table(block("LKH-3", 20, HGS))
    assert line(table, "LKH-3").gap is None
    assert line(table, "LKH-3").wins is None


costs = st.lists(st.floats(0.1, 1e4), min_size=1, max_size=30)


@given(costs)
def test_the_baseline_has_no_gap_to_itself_and_never_wins(values: list[float]) -> None:
    """Any costs: a baseline against itself gives gap 0 and no win."""
    base = np.array(values)
    assert (gap(base, base) == 0).all()
    assert wins(base, base) == 0


@given(costs, st.floats(0.01, 100))
def test_gaps_do_not_depend_on_the_unit_of_cost(values: list[float], unit: float) -> None:
    """Metres or kilometres: the same gaps."""
    base = np.array(values)
    other = base[::-1] * 1.1
    np.testing.assert_allclose(gap(other * unit, base * unit), gap(other, base), rtol=1e-9, atol=1e-9)


@given(costs)
def test_mean_and_percentiles_agree_with_the_statistics_module(values: list[float]) -> None:
    """An independent reference: inclusive deciles of Python's statistics module."""
    got = Percentiles.of(np.array(values))
    deciles = statistics.quantiles(values, n=10, method="inclusive") if len(values) > 1 else values * 9
    assert got.mean == pytest.approx(statistics.fmean(values))
    assert (got.low, got.high) == pytest.approx((deciles[0], deciles[-1]))


def test_pairs_are_matched_by_instance_not_by_row() -> None:
    """Shuffled rows and an instance that only one solved give the right pairs, in index order."""
    other = block("B", 20, [1.0, None, 3.0]).iloc[[2, 0, 1]]
    results = pd.concat([block("A", 20, HGS), other, block("B", 50, [7.0])])
    a, b = paired(results, 20, ("A", 1), ("B", 1))
    assert a.tolist() == [10.0, 40.0]
    assert b.tolist() == [1.0, 3.0]


def test_csv_reads_back_with_every_digit() -> None:
    """The CSV carries the numbers themselves, not their rounded print."""
    table = small_table()
    frame = pd.read_csv(io.StringIO(to_csv(table)))
    greedy = line(table, "FM-MCVRP (GS)")
    assert greedy.cost is not None
    assert frame.loc[1, "cost_mean"] == greedy.cost.mean
    assert frame["method"].tolist() == [x.method for x in table.lines]


def test_markdown_rows_have_as_many_cells_as_the_heading() -> None:
    """A pipe inside a cell does not make a column."""
    results = pd.concat([block("HGS", 20, HGS), block("a|b", 20, HGS)])
    rows = [r for r in to_markdown(benchmark_table(results)).splitlines() if r.startswith("|")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {rows[1].count("|")}


def markdown_columns(text: str) -> dict[str, list[str]]:
    """Return the columns of all tables in ``text``, by their headings."""
    found = {}
    for part in text.split("\n\n"):
        if part.startswith("|"):
            head, _, *rows = (row[2:-2].split(" | ") for row in part.splitlines())
            found |= dict(zip(head, map(list, zip(*rows, strict=True)), strict=True))
    return found


def test_two_narrow_tables_have_what_the_wide_one_has() -> None:
    """Columns and notes, but what each row ran on: that is in the note on its method."""
    table = small_table()
    wide, narrow = to_markdown(table), to_narrow_markdown(table)
    there = markdown_columns(wide)
    assert there.pop("Run on")
    assert markdown_columns(narrow) == there
    assert narrow.split("\n- ")[1:] == wide.split("\n- ")[1:]


def test_large_costs_have_no_decimals() -> None:
    """Of metres they say nothing; gaps, in percent, keep theirs."""
    table = benchmark_table(
        pd.concat([block("HGS", 20, [9_999.125]), block("A", 20, [10_998.5]), block("B", 20, [12_345.678])])
    )
    found = markdown_columns(to_markdown(table))
    assert found["Obj. avg."] == ["9999.12", "10998", "12346"]
    assert found["Gap avg. (%)"][1:] == ["9.99", "23.47"]


def test_latex_has_no_naked_special_character() -> None:
    """Percent signs, underscores and unicode of names and reasons are escaped."""
    results = pd.concat(
        [block("HGS", 20, HGS), block("50%_& co", 20, [None] * 3, failure="no $PATH # ~ {x}")]
    )
    text = to_latex(replace(benchmark_table(results), caption="100 % of a_b"))
    body = "\n".join(row for row in text.splitlines() if not row.startswith("% "))
    assert "50\\%\\_\\& co" in body
    assert "no \\$PATH \\# \\textasciitilde{} \\{x\\}" in body
    assert body.isascii()
    rows = [row for row in body.splitlines() if row.endswith(("\\\\", "\\\\*")) and "&" in row]
    columns = {row.replace("\\&", "").count("&") + _spanned(row) for row in rows}
    assert columns == {8}


def _spanned(row: str) -> int:
    return row.count("\\multicolumn{2}")


def test_latex_escape_of_a_backslash_is_not_escaped_again() -> None:
    """One pass over the characters: what an escape brings is left alone."""
    assert latex_escape("\\%") == "\\textbackslash{}\\%"


def test_html_carries_no_markup_of_the_data() -> None:
    """A method's name cannot close the table."""
    assert "<b>" not in to_html(replace(benchmark_table(block("<b>", 20, HGS)), caption="<b>"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0081, "8.10 ms"),
        (0.5, "500 ms"),
        (5.0, "5.00 s"),
        (76.8, "76.8 s"),
        (918, "15.3 min"),
        (9000, "2.50 h"),
    ],
)
def test_times_read_at_a_glance(seconds: float, text: str) -> None:
    """A time has the unit that a person would choose."""
    assert format_seconds(seconds) == text
