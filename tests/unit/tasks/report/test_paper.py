"""The paper's four tables from results: rows and baselines."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from mcvrp.tasks.report.formats import Page, render_page, to_latex, to_markdown
from mcvrp.tasks.report.metrics import run_name
from mcvrp.tasks.report.paper import PAPER_METHODS, paper_tables
from mcvrp.tasks.report.tables import Table
from tests.support.results import rows_of

SAMPLES = (1, 100, 1000)
FACTOR = {"HGS": 1.01, "LKH-3": 1.0, "AM (VS)": 1.05, "FM-MCVRP (GS)": 1.03, "FM-MCVRP (NS)": 1.02}


def rows(method: str, n: int, samples: int, failure: str | None = None) -> pd.DataFrame:
    """Results of a method on five instances, whose costs have a fixed ratio to those of the others."""
    cost = np.linspace(4, 6, 5) * n / 20 * FACTOR.get(method, 1.0) * (1 - 1e-3 * np.log10(samples))
    costs = [None] * 5 if failure else cost.tolist()
    return rows_of(method, n, costs, samples, failure, seconds=0.1 * samples)


def results(*without: tuple[str, int], sizes: tuple[int, ...] = (20, 600)) -> pd.DataFrame:
    return pd.concat(
        rows(method, n, samples)
        for n in sizes
        for method in PAPER_METHODS
        for samples in ((1,) if method.endswith("(GS)") else SAMPLES)
        if (method, n) not in without
    )


def names(table: Table, n: int) -> list[str]:
    return table.cells.loc[table.cells["N"] == str(n), "Method"].tolist()


def line(table: Table, name: str, n: int = 20) -> pd.Series:
    """Return the numbers of a line, by their columns."""
    of = [run_name(run) for run in zip(table.numbers["method"], table.numbers["samples"], strict=True)]
    (match,) = np.flatnonzero((np.array(of) == name) & (table.numbers["n"] == n))
    return table.numbers.iloc[match]


def ns(*samples: int) -> list[str]:
    return [f"FM-MCVRP (NS, s = {s})" for s in samples]


def test_rows_are_those_of_the_paper() -> None:
    """Tables 3 to 6: methods at 1, 100 and 1,000 samples, greedy decoding and a single baseline once."""
    tables = {table.name: table for table in paper_tables(results())}
    greedy, one, many = ["FM-MCVRP (GS)"], ns(1), [[s, *ns(s)] for s in (100, 1000)]
    assert names(tables["training"], 20) == ["HGS (s = 1)", *greedy, *ns(1, 100, 1000)]
    for name, n, bases in (
        ("larger", 600, ["HGS (s = {})"]),
        ("lkh3", 20, ["LKH-3 (s = {})", "HGS (s = {})"]),
        ("am", 20, ["AM (VS, s = {})"]),
    ):
        first = [*(base.format(1) for base in bases), *greedy, *one]
        others = [text for s, *rest in many for text in (*(base.format(s) for base in bases), *rest)]
        assert names(tables[name], n) == [*first, *others]
        assert set(tables[name].numbers["n"]) == {n}
    assert tables.keys() == {"training", "larger", "lkh3", "am", "significance"}


def test_the_first_table_compares_with_a_single_run_and_the_others_at_equal_samples() -> None:
    """NS s = 1000: gap to HGS s = 1 in the first table, to s = 1000 in the others."""
    training, larger, lkh3, am, _ = paper_tables(results())
    expected = {"HGS": 1.01, "LKH-3": 1.0, "AM": 1.05}
    for table, base, n in ((larger, "HGS", 600), (lkh3, "LKH-3", 20), (am, "AM", 20)):
        gap = line(table, "FM-MCVRP (NS, s = 1000)", n)["gap_mean"]
        assert gap == pytest.approx(100 * (1.02 / expected[base] - 1))
    factor = 1 - 3e-3
    assert line(training, "FM-MCVRP (NS, s = 1000)")["gap_mean"] == pytest.approx(
        100 * (1.02 * factor / 1.01 - 1)
    )


def test_more_runs_of_hgs_add_no_rows_to_the_first_table() -> None:
    """Its baseline is a single run, so its numbers of samples are those of the model."""
    more = pd.concat([results(sizes=(20,)), rows("HGS", 20, 7)])
    training, lkh3, *_ = paper_tables(more)
    assert names(training, 20) == names(paper_tables(results(sizes=(20,)))[0], 20)
    assert "HGS (s = 7)" in names(lkh3, 20)


def test_a_table_without_a_gap_is_left_out() -> None:
    """Without its baseline, or without sizes beyond training."""
    everything = paper_tables(results())
    tables = {table.name for table in paper_tables(results(("AM (VS)", 20), ("AM (VS)", 600)))}
    assert {table.name for table in everything} - tables == {"am"}
    small = {table.name for table in paper_tables(results(sizes=(20,)))}
    assert {table.name for table in everything} - small == {"larger"}


def test_a_method_without_results_has_no_row() -> None:
    everything = results(("HGS", 20))
    few = everything[~((everything["method"] == "AM (VS)") & (everything["samples"] == 100))]
    tables = {table.name: table for table in paper_tables(few)}
    assert tables.keys() == {"larger", "lkh3", "am"}
    assert not [name for name in names(tables["lkh3"], 20) if name.startswith("HGS")]
    assert pd.isna(line(tables["am"], "FM-MCVRP (NS, s = 100)")["gap_mean"])


def test_an_attention_model_that_diverged_loses_every_instance() -> None:
    """As in the paper's Table 6 at 400 customers: dashes for gaps to it, all instances won."""
    diverged = [rows("AM (VS)", 400, s, failure="its training diverged in epoch 7") for s in SAMPLES]
    *_, table, _ = paper_tables(pd.concat([results(("AM (VS)", 400), sizes=(400,)), *diverged]))
    am, ours = line(table, "AM (VS, s = 1)", 400), line(table, "FM-MCVRP (NS, s = 1000)", 400)
    assert am[["cost_mean", "gap_mean", "wins", "seconds"]].isna().all()
    assert pd.isna(ours["gap_mean"])
    assert ours["wins"] == 5
    assert table.cells.loc[table.cells["Method"] == "FM-MCVRP (NS, s = 1000)", "Wins (%)"].item() == "100.0"
    assert any(
        "AM (VS): no answer on 5 of 5" in note and "diverged in epoch 7" in note for note in table.notes
    )
    for text in (to_markdown(table), to_latex(table), render_page(Page("t", "l", tables=[table]))):
        assert not re.search(r"\bnan\b|\binf\b|<NA>", text)


def test_sizes_larger_than_in_training_have_their_own_table() -> None:
    tables = paper_tables(results(sizes=(20, 30)), trained_up_to=24)
    assert [sorted(set(table.numbers["n"])) for table in tables[:4]] == [[20], [30], [20], [20]]


def test_methods_beyond_the_paper_are_rows_of_every_table() -> None:
    polished = rows("FM-MCVRP (NS) + LS", 20, 100)
    for table in paper_tables(pd.concat([results(sizes=(20,)), polished]))[:3]:
        assert names(table, 20)[-2:] == ["FM-MCVRP (NS, s = 1000)", "FM-MCVRP (NS) + LS (s = 100)"]


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("FM-MCVRP (NS) + HGS (0.05 s)", "FM-MCVRP (NS) + HGS (0.05 s, s = 50)"),
        ("FM-MCVRP (BS)", "FM-MCVRP (BS, s = 50)"),  # its width is no number of samples
    ],
)
def test_rows_that_run_once_are_compared_with_a_single_run(label: str, name: str) -> None:
    """Also if the baseline has no 50 runs."""
    everything = pd.concat([results(sizes=(20,)), rows(label, 20, 50)])
    _, lkh3, am, _ = paper_tables(everything)
    for table, factor in ((lkh3, 1.0), (am, 1.05)):
        expected = 100 * ((1 - 1e-3 * np.log10(50)) / factor - 1)
        assert line(table, name)["gap_mean"] == pytest.approx(expected)
