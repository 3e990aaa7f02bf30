"""Tests of the plan: the paper preset must give the paper's figures by arithmetic."""

from __future__ import annotations

import pytest

from mcvrp.flows.cli.plan import Cost, file_bytes, make_plan, wall_seconds
from mcvrp.flows.config.preset import load_preset


def costs(preset: str, *changes: str) -> dict[str, Cost]:
    return {cost.part: cost for cost in make_plan(load_preset(preset, changes))}


def test_the_paper_preset_has_the_figures_of_the_paper() -> None:
    """38.1 M instances of 5 s are 5.7 days on 384 cores; samples of the phases of Table 2."""
    plan = costs("paper", "label.held_out=0", "train.held_out=")
    assert plan["labels"].count == 38_100_000
    assert plan["labels"].core_hours / 384 / 24 == pytest.approx(5.74, abs=0.01)
    samples = [cost.count for part, cost in plan.items() if part.startswith("phase ")]
    assert samples == [72_771_000, 49_600_000, 18_100_000, 38_100_000]


@pytest.mark.parametrize(
    ("customers", "n", "rows", "measured"),
    [
        *((10_000, 20, 25_000, 128), (10_000, 100, 25_000, 554), (10_000, 400, 25_000, 2099)),
        *((40, 20, 125, 106), (40, 30, 20, 343)),
    ],
)
def test_the_size_of_a_row_is_near_the_measured_one(
    customers: int, n: int, rows: int, measured: float
) -> None:
    """In large files, and in small ones, of which most is schema and footer."""
    assert file_bytes(customers, n, rows) / rows == pytest.approx(measured, rel=0.15)


def test_a_phase_by_policy_costs_its_draws() -> None:
    hours = {
        samples: costs(
            "laptop", f"train.phases.4.policy.samples={samples}", "train.phases.4.policy.labels=0"
        )["phase III"].core_hours
        for samples in (8, 16)
    }
    assert 1.7 < hours[16] / hours[8] < 2.0


@pytest.mark.parametrize(
    ("preset", "least", "most"), [("smoke", 0.01, 0.04), ("laptop", 0.1, 0.3), ("evening", 1.5, 3.0)]
)
def test_a_preset_takes_about_as_long_as_it_promises(preset: str, least: float, most: float) -> None:
    """In hours; a small run consists of the starts of its parts."""
    assert least < wall_seconds(make_plan(load_preset(preset)), 2) / 3600 < most
