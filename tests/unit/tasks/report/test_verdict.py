"""What a model is worth in words: the figures of the results, no difference within the error, warnings."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest

from mcvrp.tasks.report.verdict import gaps_and_times, scores, verdict, warnings
from mcvrp.tasks.solvers.hgs import HGS
from tests.support.results import rows_of

BASE = [100.0 + k for k in range(120)]


def results(model: Sequence[float | None], *others: pd.DataFrame, n: int = 20) -> pd.DataFrame:
    base, ours = rows_of("HGS", n, BASE, seconds=5.0), rows_of("FM-MCVRP (BS)", n, model, 16, "no", 0.009)
    return pd.concat([base, ours, *others], ignore_index=True)


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ((1.01, 1.03), "cost 2.00 ± 0.09 % more than HGS"),
        ((0.97, 0.99), "cost 2.00 ± 0.09 % less than HGS"),
        ((0.99, 1.01), "do not differ from HGS beyond the error"),
    ],
)
def test_the_first_sentence_has_gap_error_and_time(factors: tuple[float, float], said: str) -> None:
    first = next(verdict(results([cost * factors[k % 2] for k, cost in enumerate(BASE)]), {}))
    assert said in first
    assert all(
        part in first for part in ("(beam of 16)", "9.00 ms of 1 CPU core", "HGS takes 5.00 s of 1 CPU core")
    )


def test_the_rival_is_the_quickest_that_is_as_good() -> None:
    """Whether it takes more time than the model or less; the next shorter time of its program is named."""

    def row(name: str, factor: float, seconds: float) -> pd.DataFrame:
        return rows_of(name, 20, [cost * factor for cost in BASE], seconds=seconds)

    search = [row("HGS (0.002 s)", 1.5, 0.002), row("HGS (0.02 s)", 1.125, 0.02), row("B", 1.0, 1.0)]
    greedy = row("FM-MCVRP (GS)", 1.0, 0.001)

    def said(factor: float, *others: pd.DataFrame) -> str:
        return list(verdict(results([cost * factor for cost in BASE], *others, greedy), {}))[1]

    assert "quickest that is as good is HGS (0.02 s), 12.50 % after 20.0 ms" in said(1.25, *search)
    assert "; it has 50.00 % after 2.00 ms of 1 CPU core" in said(1.25, *search)
    assert "; no shorter time was measured" in said(1.25, *search[1:])
    assert "a method is as good in as little time: HGS (0.002 s), 50.00 % after 2.00 ms" in said(2, *search)
    assert "is as good is B" in said(1.0625, *search)
    assert "No method without the model is as good" in said(0.5, *search)


def test_the_solver_of_the_labels_is_compared_if_it_is_among_the_methods() -> None:
    """In the same settings at all sizes; otherwise it is named."""
    frame = results(list(BASE), rows_of("Savings", 20, [cost * 1.25 for cost in BASE], seconds=9.0))
    base, worse, other = ({20: f"{text}"} for text in ("HGS as it comes", "Savings as it comes", "otherwise"))
    assert "labels are by HGS with the same settings" in list(verdict(frame, base))[-1]
    assert (
        "model's routes cost 20.00 ± 0.00 % less than Savings, which made its labels"
        in list(verdict(frame, worse))[-1]
    )
    assert "labels are by a solver (otherwise)" in list(verdict(frame, other))[-1]
    assert (
        "labels are by a solver (Savings as it comes)"
        in list(verdict(frame, worse | {50: "Savings as it comes"}))[-1]
    )
    assert "labels" not in " ".join(verdict(frame, {}))


def test_sizes_larger_than_in_training_have_a_sentence_of_their_own() -> None:
    frame = pd.concat([results(list(BASE)), results([cost * 1.5 for cost in BASE], n=50)])
    first, *others = verdict(frame, {}, trained_up_to=24)
    assert "do not differ from HGS" in first
    assert (
        "With 50 customers, more than in training, the model's routes cost 50.00 ± 0.00 % more than HGS."
        in others
    )
    assert "than in training" not in " ".join(verdict(frame, {}, trained_up_to=50))


def test_without_a_model_there_is_no_verdict() -> None:
    assert list(verdict(rows_of("HGS", 20, BASE), {})) == []
    assert gaps_and_times(rows_of("HGS", 20, BASE)) is None


def test_the_axis_of_gaps_tells_those_near_zero_apart_and_shows_negative_ones() -> None:
    """Beside large ones, 0.02 % are a tenth of the axis from nothing; the legend is as large as the ticks."""
    small, less = (
        rows_of(f"HGS ({k} s)", 20, [cost * (1 + change) for cost in BASE], seconds=k)
        for k, change in ((1, 2e-4), (2, -2e-4))
    )
    figure = gaps_and_times(results([cost * 1.3 for cost in BASE], small, less))
    assert figure
    figure.draw_without_rendering()
    axis, legend = figure.axes[0], figure.legends[0]
    below, zero, above = axis.transAxes.inverted().transform(
        axis.transData.transform([(1, gap) for gap in (-0.02, 0, 0.02)])
    )[:, 1]
    assert 0 < below < zero - 0.05 < above - 0.1
    assert {text.get_fontsize() for text in legend.get_texts()} == {axis.get_yticklabels()[0].get_fontsize()}


def test_the_legend_has_the_model_the_baseline_and_what_is_best_in_its_time() -> None:
    """In the order of the table; only further settings of a program are points without a name."""
    runs = ("B", 7), ("A", 0.001), ("A (5 s)", 5)
    more = [rows_of(name, 20, [2 * k for k in BASE], seconds=k) for name, k in runs]
    figure = gaps_and_times(results([cost * 3 for cost in BASE], *more))
    assert figure
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["HGS", "model, beam of 16", "B", "A", "other settings, in the table"]


def test_instances_without_an_answer_do_not_count() -> None:
    ours = scores(results([None, *(cost * 1.5 for cost in BASE[1:])]))[0]
    assert ours.gap == pytest.approx(50)
    assert ours.error == pytest.approx(0, abs=1e-9)


def test_few_instances_and_a_single_size_are_warned_of() -> None:
    many = results(list(BASE), limited(5.0))
    assert len(list(warnings(many))) == 1
    assert list(warnings(pd.concat([many, results(list(BASE), n=50)]))) == []
    few = pd.concat([many, rows_of("HGS", 50, BASE[:99])])
    assert [text for text in warnings(few) if "99 of 50 customers" in text]


def limited(limit: float, seconds: float = 5.0, samples: int = 1) -> pd.DataFrame:
    """Return runs of HGS with a time limit, of which the configuration of a real one tells."""
    rows = rows_of("HGS", 20, BASE, samples, seconds=seconds)
    return rows.assign(configuration=HGS(time_limit=limit).configuration)


def test_a_busy_machine_is_warned_of() -> None:
    """The longest time limit tells it, that of the baseline, too; shorter ones are exceeded on any machine.

    Times of several runs are their sum. Without a limit, nothing tells it, and the times are doubtful.
    """

    def busy(*rows: pd.DataFrame) -> list[str]:
        return [text for text in warnings(results(BASE, *rows)) if "busy" in text]

    short, quiet, several = limited(0.002, 0.02), limited(0.5, 0.52), limited(0.5, 5.2, samples=10)
    assert busy(short, quiet, several) == []
    assert busy(limited(0.002, 0.0034)) == []
    (text,) = busy(short, limited(0.05, 0.065))
    assert "limited to 50.0 ms of a core took 65.0 ms" in text
    (text,) = busy()
    assert "hgs-equal" in text


def test_the_widest_beam_speaks_for_the_model_whatever_its_gap() -> None:
    lucky = rows_of("FM-MCVRP (NS)", 20, [cost * 0.9 for cost in BASE], 100, seconds=1.0)
    narrow = rows_of("FM-MCVRP (BS)", 20, [cost * 0.8 for cost in BASE], 4, seconds=0.001)
    first = next(verdict(results([cost * 1.25 for cost in BASE], lucky, narrow), {}))
    assert "(beam of 16) cost 25.00 ± 0.00 % more than HGS" in first
