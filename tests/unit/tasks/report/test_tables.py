"""Tables: the paper's columns from per-instance results, their formats, and notes on the conditions."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mcvrp.model.decoding import Decoded
from mcvrp.model.instances import InstanceStream
from mcvrp.model.problem import City, Solution, cost
from mcvrp.tasks.report.formats import to_csv, to_latex, to_markdown, to_narrow_markdown
from mcvrp.tasks.report.metrics import blocks_of, figures_of, paired, run_name, wins
from mcvrp.tasks.report.tables import Table, benchmark_table
from tests.support.labels import sweep
from tests.support.results import rows_of


def line(table: Table, method: str, samples: int = 1, n: int = 20) -> dict[str, Any]:
    rows = table.numbers.to_dict("records")
    (match,) = [x for x in rows if (x["method"], x["samples"], x["n"]) == (method, samples, n)]
    return match  # type: ignore[return-value]


HGS = [10.0, 20.0, 40.0]


def small_table() -> Table:
    results = [
        rows_of("HGS", 20, HGS),
        rows_of("FM-MCVRP (GS)", 20, [11.0, 20.0, 36.0]),
        rows_of("FM-MCVRP (NS)", 20, [10.0, 20.0 - 1e-10, 39.0], samples=16),
    ]
    return benchmark_table(pd.concat(results))


def test_gap_is_the_mean_of_the_instances_gaps_and_wins_are_strict() -> None:
    """Gaps of +10, 0 and -10 % have a mean of 0, whatever the costs; a difference of 1e-10 is a tie."""
    table = small_table()
    greedy = line(table, "FM-MCVRP (GS)")
    spread = [greedy[f"gap_{part}"] for part in ("mean", "p10", "p90")]
    assert spread == pytest.approx([0, -8, 8], abs=1e-9)  # interpolated
    assert greedy["gap_error"] == pytest.approx(10 / 3**0.5)
    assert table.cells["Gap avg. (%)"].tolist()[1] == "0.00 ± 5.77"
    assert greedy["cost_mean"] == pytest.approx(67 / 3)
    assert line(table, "FM-MCVRP (NS)", 16)["wins"] == greedy["wins"] == 1
    assert pd.isna(line(table, "HGS")["wins"])
    frame = pd.read_csv(io.StringIO(to_csv(table)))
    assert frame.loc[1, "cost_mean"] == greedy["cost_mean"]  # with every digit
    alone = line(benchmark_table(rows_of("LKH-3", 20, HGS)), "LKH-3")
    assert pd.isna([alone["gap_mean"], alone["wins"]]).all()  # without a baseline


def test_baseline_is_a_single_run_or_equal_samples() -> None:
    results = pd.concat([rows_of("HGS", 20, HGS), rows_of("HGS", 20, [9.0, 18.0, 36.0], samples=4)])
    table = benchmark_table(results)
    best_of_4 = line(table, "HGS", 4)
    assert best_of_4["gap_mean"] == pytest.approx(-10)
    assert best_of_4["wins"] == 3
    assert table.cells["Gap avg. (%)"].tolist() == ["baseline", "-10.00 ± 0.00"]
    equal = figures_of(blocks_of(results), 20, ("HGS", 4), ("HGS", 4))
    assert equal["baseline"] == run_name(("HGS", 4))
    assert "wins" not in equal


def test_failed_instances_are_excluded_and_counted() -> None:
    results = pd.concat(
        [rows_of("HGS", 20, HGS), rows_of("LKH-3", 20, [None, 22.0, 40.0], failure="it crashed")]
    )
    table = benchmark_table(results)
    lkh = line(table, "LKH-3")
    assert lkh["failed"] == 1
    assert lkh["gap_mean"] == pytest.approx(5)
    assert any("no answer on 1 of 3" in note and "it crashed" in note for note in table.notes)


def test_wins_are_a_share_of_the_instances_that_the_baseline_solved() -> None:
    """As gaps are; an instance that only the baseline solved is a loss."""
    unsolved = rows_of("HGS", 20, [10.0, None, 10.0, 10.0], failure="it crashed")
    results = pd.concat([unsolved, rows_of("LKH-3", 20, [9.0, 9.0, None, 9.0], failure="it crashed")])
    assert benchmark_table(results).cells["Wins (%)"].tolist() == ["–", "66.7"]


def test_pairs_are_matched_by_instance_not_by_row() -> None:
    other = rows_of("B", 20, [1.0, None, 3.0]).iloc[[2, 0, 1]]
    results = pd.concat([rows_of("A", 20, HGS), other, rows_of("B", 50, [7.0])])
    a, b = paired(results, 20, ("A", 1), ("B", 1))
    assert a.tolist() == [10.0, 40.0]
    assert b.tolist() == [1.0, 3.0]


def test_markdown_rows_have_as_many_cells_as_the_heading() -> None:
    results = pd.concat([rows_of("HGS", 20, HGS), rows_of("a|b", 20, HGS)])
    rows = [r for r in to_markdown(benchmark_table(results)).splitlines() if r.startswith("|")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {rows[1].count("|")}


def test_the_narrow_table_has_columns_of_the_wide_one() -> None:
    """And no conditions of each method."""
    table = small_table()
    narrow = to_narrow_markdown(table).splitlines()
    assert "| 20 | FM-MCVRP (GS) | 0.00 ± 5.77 | 22.33 | 500 ms |" in narrow
    assert set(narrow) - set(to_markdown(table).splitlines()) == {line for line in narrow if line[:1] == "|"}


def test_latex_has_no_naked_special_character() -> None:
    """Each line of the table has its eight columns."""
    failed = rows_of("50%_& co", 20, HGS)
    text = to_latex(benchmark_table(pd.concat([rows_of("HGS", 20, HGS), failed, rows_of("HGS", 50, HGS)])))
    assert "50\\%\\_\\& co" in text
    rows = [row for row in text.splitlines() if " & " in row]
    assert {row.replace("\\&", "").count("&") for row in rows} == {7}


@pytest.mark.parametrize("side", [20_000.0, 1.0, 0.02])
def test_another_order_of_the_same_routes_is_not_a_win(side: float) -> None:
    """In any unit and order of summation: stored results may have been summed in each of these ways."""
    city = City.framed(City.uniform(1000, seed=3).xy * side)
    rng, instance = np.random.default_rng(1), InstanceStream(city, 1, "test")(400, 0)
    routes, costs = sweep(city, instance).routes, list[float]()
    for _ in range(20):
        same = Solution.of(routes[k][:: rng.choice([1, -1])] for k in rng.permutation(len(routes)))
        legs = city.legs(same.path)
        decoded = Decoded.of(city, same.path[None].astype(np.int32)).costs[0]
        costs += [cost(city, same), float(decoded), sum(legs.tolist()), float(legs.sum())]
    assert len(set(costs)) > 1
    assert wins(np.array(costs)[:, None], np.array(costs)) == 0
    base = side * np.linspace(5, 50, 100)
    assert (wins(base * (1 - 1e-5), base), wins(base * (1 + 1e-5), base)) == (len(base), 0)
