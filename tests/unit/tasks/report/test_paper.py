"""The paper's four tables from results: rows, baselines, notes, published figures."""

from __future__ import annotations

import re
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from mcvrp.model.instances import Rules
from mcvrp.model.problem import City
from mcvrp.tasks.report.formats import to_csv, to_html, to_latex, to_markdown
from mcvrp.tasks.report.metrics import Line, Percentiles
from mcvrp.tasks.report.paper import (
    PAPER_METHODS,
    is_papers_setting,
    paper_tables,
    published,
    published_tests,
)
from mcvrp.tasks.report.tables import Table, beginnings
from tests.support.results import rows_of

Spread = tuple[float, float, float]  # mean, 10th and 90th percentile
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
    return [line.name for line in table.lines if line.n == n]


def line(table: Table, name: str, n: int = 20) -> Line:
    (match,) = [x for x in table.lines if (x.name, x.n) == (name, n)]
    return match


def mean_gap(table: Table, name: str, n: int = 20) -> float:
    gap = line(table, name, n).gap
    assert gap is not None
    return gap.mean


def test_rows_are_those_of_the_paper() -> None:
    tables = {table.name: table for table in paper_tables(results())}
    for name, table in tables.items():
        n = 600 if name == "larger" else 20
        papers = [(method, samples) for size, method, samples in published(name) if size == n]
        assert [(x.method, x.samples) for x in table.lines] == papers
        assert {x.n for x in table.lines} == {n}
    assert names(tables["training"], 20)[:3] == ["HGS (s = 1)", "FM-MCVRP (GS)", "FM-MCVRP (NS, s = 1)"]
    assert names(tables["am"], 20)[0] == "AM (VS, s = 1)"


def test_the_first_table_compares_with_a_single_run_and_the_others_at_equal_samples() -> None:
    """NS s = 1000: gap to HGS s = 1 in the first table, to s = 1000 in the others; no wins in the first."""
    training, larger, lkh3, am = paper_tables(results())
    expected = {"HGS": 1.01, "LKH-3": 1.0, "AM": 1.05}
    for table, base, n in ((larger, "HGS", 600), (lkh3, "LKH-3", 20), (am, "AM", 20)):
        assert mean_gap(table, "FM-MCVRP (NS, s = 1000)", n) == pytest.approx(
            100 * (1.02 / expected[base] - 1)
        )
        assert table.has_wins
    factor = 1 - 3e-3
    assert mean_gap(training, "FM-MCVRP (NS, s = 1000)") == pytest.approx(100 * (1.02 * factor / 1.01 - 1))
    assert not training.has_wins
    assert "Wins" not in to_markdown(training) + to_html(training) + to_latex(training)
    assert "Wins" in to_markdown(am)


def test_the_first_table_names_the_solver_of_the_labels() -> None:
    made = dict.fromkeys((20, 600), "HGS as it comes")
    claim = "against the solver of its labels"
    same, *others = paper_tables(results(), labelled_by=made)
    assert claim in same.caption
    assert all("labels" not in note for table in (same, *others) for note in table.notes)
    for labelled_by, text in (
        ({**made, 20: "HGS with 10,000 vehicles"}, "which are by HGS with 10,000 vehicles."),
        (None, "is unknown"),
    ):
        table = paper_tables(results(), labelled_by=labelled_by)[0]
        assert claim not in table.caption
        assert text in table.notes[-1]


def test_more_runs_of_hgs_add_no_rows_to_the_first_table() -> None:
    """Its baseline is a single run, so its numbers of samples are those of the model."""
    more = pd.concat([results(sizes=(20,)), rows("HGS", 20, 7)])
    training, _, lkh3, _ = paper_tables(more)
    assert names(training, 20) == names(paper_tables(results(sizes=(20,)))[0], 20)
    assert "HGS (s = 7)" in names(lkh3, 20)


def test_a_method_without_results_keeps_its_rows_and_has_a_reason() -> None:
    everything = results(("AM (VS)", 20), ("AM (VS)", 600), ("LKH-3", 20))
    few = everything[~((everything["method"] == "HGS") & (everything["samples"] == 100))]
    _, _, lkh3, am = paper_tables(few)
    assert names(am, 20) == [x.name for x in paper_tables(results())[3].lines]
    assert line(am, "AM (VS, s = 100)").cost is None
    assert line(am, "FM-MCVRP (NS, s = 100)").gap is None
    remedy = "not among the methods of this benchmark: add am to benchmark.methods."
    assert f"AM (VS) has no figures: {remedy}" in am.notes
    assert "LKH-3 has no figures: not run yet on 20 customers." in lkh3.notes
    assert "HGS (s = 100) has no figures: not run with s = 100 yet." in lkh3.notes


def test_an_attention_model_that_diverged_shows_dashes_and_loses_every_instance() -> None:
    """As in the paper's Table 6 at 400 customers: dashes for AM and gaps to it, all instances won."""
    diverged = [rows("AM (VS)", 400, s, failure="its training diverged in epoch 7") for s in SAMPLES]
    table = paper_tables(pd.concat([results(("AM (VS)", 400), sizes=(400,)), *diverged]))[3]
    am, ours = line(table, "AM (VS, s = 1)", 400), line(table, "FM-MCVRP (NS, s = 1000)", 400)
    assert (am.cost, am.gap, am.wins, am.seconds) == (None, None, None, None)
    assert (ours.gap, ours.wins) == (None, 5)
    assert "AM (VS) has no figures: its training diverged in epoch 7." in table.notes
    for text in (to_markdown(table), to_latex(table), to_html(table)):
        assert not re.search(r"\bnan\b|\binf\b", text)
    papers = paper_tables(results(sizes=(400,)), is_papers_setting=True)[3]
    assert "(–)" in to_markdown(papers)
    assert "<small>(–)</small>" in to_html(papers)
    assert "the paper &  & -- & --" in to_latex(papers)
    absent = paper_tables(results(("AM (VS)", 400), sizes=(400,)))[3]
    assert line(absent, "FM-MCVRP (NS, s = 1000)", 400).wins is None  # unknown, not won


def test_sizes_larger_than_in_training_have_their_own_table() -> None:
    tables = paper_tables(results(sizes=(20, 30)), trained_up_to=24)
    assert [sorted({x.n for x in table.lines}) for table in tables] == [[20], [30], [20], [20]]
    larger = paper_tables(results(sizes=(20,)), trained_up_to=24)[1]
    assert larger.lines == ()
    assert "no size of more than 24 customers" in larger.notes[0]
    assert all((to_markdown(larger), to_html(larger), to_latex(larger), to_csv(larger)))


def test_methods_beyond_the_paper_are_rows_of_every_table() -> None:
    polished = rows("FM-MCVRP (NS) + LS", 20, 100)
    for table in paper_tables(pd.concat([results(sizes=(20,)), polished])):
        if table.name != "larger":
            assert names(table, 20)[-2:] == ["FM-MCVRP (NS, s = 1000)", "FM-MCVRP (NS) + LS (s = 100)"]
            assert beginnings(table)[-1] == "beyond"
            assert to_html(table).count('<tr class="beyond">') == 1
            before, _ = to_latex(table).split("FM-MCVRP (NS) + LS (s~=~100)")
            assert "\\cmidrule{2-" in before.splitlines()[-2]
            assert "Not in the paper: FM-MCVRP (NS) + LS." in table.notes


def test_rows_of_equal_time_are_compared_with_a_single_run() -> None:
    """Their time is that of one run of the baseline, for any number of samples."""
    label = "FM-MCVRP (NS) + HGS (equal time)"
    everything = pd.concat([results(sizes=(20,)), rows(label, 20, 1000)])
    _, _, lkh3, am = paper_tables(everything)
    name = "FM-MCVRP (NS) + HGS (equal time, s = 1000)"
    for table, factor in ((lkh3, 1.0), (am, 1.05)):
        assert mean_gap(table, name) == pytest.approx(100 * ((1 - 3e-3) / factor - 1))
    assert "Gaps and wins of equal-time rows are relative to a single run of LKH-3." in lkh3.notes


def test_published_figures_are_shown_in_the_papers_setting_only() -> None:
    ours, both = (paper_tables(results(), is_papers_setting=where)[3] for where in (False, True))
    assert "8.53" not in to_csv(ours) + to_markdown(ours)
    assert "paper" not in to_csv(ours)
    assert [any("10,000 vehicles" in note for note in table.notes) for table in (ours, both)] == [False, True]
    assert line(both, "AM (VS, s = 1)").published == published("am")[20, "AM (VS)", 1]
    assert "(5.17) | " in to_markdown(both)
    assert "<small>(5.17)</small>" in to_html(both)
    assert "\\itshape the paper &  & 5.17 & 4.54 -- 5.84" in to_latex(both)
    assert "paper_cost_mean" in to_csv(both)


def test_wins_are_shares_because_the_paper_had_more_instances() -> None:
    table = paper_tables(results(sizes=(200, 800)), is_papers_setting=True)[3]
    row = line(table, "FM-MCVRP (NS, s = 1000)", 200)
    assert row.published is not None
    assert (row.wins, row.instances, row.published.instances) == (5, 5, 1000)
    assert "| 100.0 (98.1) |" in to_markdown(table)
    assert published("larger")[800, "FM-MCVRP (GS)", 1].instances == 100
    counts = pd.read_csv(StringIO(to_csv(table))).set_index(["n", "method", "samples"])
    assert counts.loc[(200, "FM-MCVRP (NS)", 1000), ["wins", "paper_wins"]].tolist() == [5, 981]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("table", "key", "wins", "cost", "gap", "seconds"),
    [  # one line of each table, copied by hand, times in seconds
        (
            "training",
            (400, "FM-MCVRP (NS)", 1000),
            None,
            (34.71, 32.87, 36.45),
            (-1.05, -1.82, -0.29),
            3788.4,
        ),
        ("larger", (800, "FM-MCVRP (GS)", 1), 3, (58.35, 55.56, 61.03), (2.29, 0.64, 4.73), 20.87),
        ("lkh3", (100, "HGS", 100), 88, (12.38, 11.67, 13.15), (0.47, 0.0, 1.05), 11.73),
        ("am", (200, "FM-MCVRP (NS)", 1000), 981, (19.54, 18.55, 20.55), (-2.02, -3.23, -0.88), 918.0),
    ],
)
def test_published_figures_are_the_papers(
    table: str, key: tuple[int, str, int], wins: int | None, cost: Spread, gap: Spread, seconds: float
) -> None:
    line = published(table)[key]
    assert (line.wins, line.cost, line.gap) == (wins, Percentiles(*cost), Percentiles(*gap))
    assert line.seconds == pytest.approx(seconds)


def test_published_figures_are_complete() -> None:
    """124 lines in four tables, costs within their ranges, and two tests of significance."""
    tables = {name: published(name) for name in ("training", "larger", "lkh3", "am")}
    assert [len(table) for table in tables.values()] == [25, 14, 50, 35]
    for figures in (figures for table in tables.values() for figures in table.values()):
        assert figures.cost is None or figures.cost.low <= figures.cost.mean <= figures.cost.high
        assert figures.gap is None or figures.gap.low <= figures.gap.high
    dashes = [key for key, figures in tables["am"].items() if figures.cost is None]
    assert dashes == [(400, "AM (VS)", s) for s in SAMPLES]
    assert {figures["t"] for figures in published_tests().values()} == {-53.43, -62.84}


def test_the_papers_setting_is_its_city_size_frame_and_rules() -> None:
    city = City.uniform(10_000, seed=7)
    assert is_papers_setting(city, Rules())
    assert not is_papers_setting(city, Rules(capacity=(30, 39)))
    assert not is_papers_setting(City.uniform(100, seed=7), Rules())
    assert not is_papers_setting(City(city.xy, unit="m"), Rules())
