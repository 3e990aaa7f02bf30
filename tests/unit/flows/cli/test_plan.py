"""Tests of the plan: the paper preset must give the paper's figures by arithmetic."""

from __future__ import annotations

import json

import pytest

from mcvrp.flows.cli.output import plain
from mcvrp.flows.cli.plan import START_SECONDS, BenchmarkPlan, PhasePlan, make_plan, plan_text, row_bytes
from mcvrp.flows.config.preset import load_preset


def test_the_paper_preset_has_the_figures_of_the_paper() -> None:
    """38.1 M instances of 5 s are 5.7 days on 384 cores; samples and steps of the phases of Table 2."""
    plan = make_plan(load_preset("paper"), "paper", cores=2)
    label, phases = plan.label, plan.phases
    assert label.instances == 38_100_000
    assert label.core_hours == pytest.approx(38.1e6 * 5 / 3600, rel=1e-3)
    assert label.cluster_seconds / 86400 == pytest.approx(5.74, abs=0.01)
    assert label.cache_bytes == pytest.approx(40.4e9, rel=0.01)
    assert [phase.samples for phase in phases] == [72_771_000, 49_600_000, 18_100_000, 38_100_000]
    assert [round(phase.steps / 1000) for phase in phases] == [284, 194, 71, 149]
    assert plan.parameters == pytest.approx(206e6, rel=0.01)
    text = plan_text(plan)
    for part in ("38,100,000 instances", "5.7 days on 384 cores", "284,261", "148,828", "206,", "52 h (I)"):
        assert part in text


def test_tokens_are_counted_sample_by_sample() -> None:
    spec = load_preset("smoke")
    curriculum = spec.curriculum("I")
    shown = [n for last in range(20, 23) for n in range(20, last + 1) for _ in range(16)]
    assert len(shown) == curriculum.samples
    phase = make_plan(spec, "smoke", cores=2).phases[0]
    assert phase.trains == "encoder"
    assert phase.tokens == sum(n + 1 for n in shown)


def test_sizes_above_the_table_of_the_paper_are_planned() -> None:
    """With ranges of capacities of their own, as only the table ends at 1,000 customers."""
    changes = ["benchmark.capacity=[100,120]", "benchmark.instances=10", "city.customers=5000"]
    small, large = (
        make_plan(load_preset("evening", [*changes, f"benchmark.sizes={sizes}"]), "evening", cores=2)
        for sizes in ([20, 1000], [20, 1500])
    )
    assert large.benchmark.seconds > small.benchmark.seconds


def test_twice_the_cores_halve_the_work() -> None:
    spec = load_preset("paper")
    two, four = make_plan(spec, "paper", cores=2), make_plan(spec, "paper", cores=4)
    assert two.label.seconds == pytest.approx(2 * four.label.seconds, rel=1e-3)
    assert two.label.core_hours == four.label.core_hours
    assert make_plan(load_preset("paper", ["label.workers=2"]), "paper", cores=64).label.cores == 2


@pytest.mark.parametrize(
    ("customers", "n", "measured"), [(10_000, 20, 128), (10_000, 100, 554), (10_000, 400, 2099)]
)
def test_the_size_of_a_row_is_near_the_measured_one(customers: int, n: int, measured: float) -> None:
    assert row_bytes(customers, n) == pytest.approx(measured, rel=0.15)


def test_a_plan_is_json() -> None:
    document = json.loads(json.dumps(plain(make_plan(load_preset("laptop"), "laptop", cores=2))))
    assert document["label"]["instances"] == 5 * load_preset("laptop").label.count
    assert [phase["phase"] for phase in document["phases"]] == ["I", "II-A", "II-B", "II-C", "III"]


def test_a_phase_by_policy_costs_its_draws() -> None:
    def planned(**changes: float) -> PhasePlan:
        overrides = [f"train.phases.4.policy.{field}={value}" for field, value in changes.items()]
        return make_plan(load_preset("laptop", overrides), "laptop", cores=2).phases[4]

    plan = {samples: planned(samples=samples, labels=0) for samples in (8, 16)}
    policy = load_preset("laptop").train.phases[4].policy
    assert policy is not None
    assert (plan[8].steps, plan[8].samples) == (policy.steps, policy.steps * policy.instances)
    assert plan[8].trains == "policy"
    assert 1.7 < (plan[16].seconds - START_SECONDS) / (plan[8].seconds - START_SECONDS) < 2.0
    assert planned(samples=8).seconds > plan[8].seconds


def test_attention_models_are_counted_where_the_benchmark_has_them() -> None:
    plan = make_plan(load_preset("paper", ['benchmark.methods=["am"]']), "paper", cores=2)
    assert plan.attention is not None
    assert (plan.attention.models, plan.attention.instances) == (7, 128_000_000)
    assert plan.seconds > plan.attention.seconds > 0
    assert "7 of 128,000,000 instances each" in plan_text(plan)
    without = make_plan(load_preset("paper", ['benchmark.methods=["hgs"]']), "paper", cores=2)
    assert without.attention is None
    assert "attention" not in plan_text(without)


def test_a_flat_budget_is_shown_beside_cheaper_ones() -> None:
    plan = make_plan(load_preset("paper", []), "paper")
    assert list(plan.label.by_budget) == ["converged", "thrifty"]
    assert plan.label.by_budget["thrifty"] < 0.1 * plan.label.core_hours
    assert plan.label.by_budget["converged"] < 2 / 3 * plan.label.core_hours
    assert "converged" in plan_text(plan)
    assert make_plan(load_preset("laptop", []), "laptop").label.by_budget == {}


def test_what_is_held_out_is_counted() -> None:
    with_it, without = (
        make_plan(load_preset("laptop", changes), "laptop", cores=2)
        for changes in ([], ["label.held_out=0", "train.held_out="])
    )
    assert with_it.label.held_out == 5 * 40
    assert without.label.held_out == 0
    assert with_it.label.instances == without.label.instances
    assert with_it.label.core_hours / without.label.core_hours == pytest.approx(1 + 40 / 12_000)
    assert "and 200 held out" in plan_text(with_it)
    assert "held out" not in plan_text(without)
    assert with_it.phases == without.phases


@pytest.mark.parametrize(("preset", "most"), [("laptop", 20 * 60), ("evening", 3 * 3600)])
def test_a_preset_takes_no_longer_than_it_promises(preset: str, most: float) -> None:
    assert make_plan(load_preset(preset), preset, cores=2).seconds < most


def test_the_gpu_preset_fits_its_promise() -> None:
    plan = make_plan(load_preset("gpu"), "gpu", cores=16)
    assert [plan.customers, plan.parameters] == [1000, pytest.approx(25e6, rel=0.02)]
    assert plan.label.bytes == pytest.approx(65e6, rel=0.05)  # as its file says


def test_every_method_of_the_benchmark_costs_what_it_may() -> None:
    def plan(*methods: str) -> BenchmarkPlan:
        change = f"benchmark.methods={list(methods)}"
        return make_plan(load_preset("paper", [change]), "paper", cores=2).benchmark

    assert plan("hgs-equal").core_hours == pytest.approx(5200 * 5 / 3600)
    equal = ("hgs-equal", "fm-hgs", "pyvrp-equal", "fm-pyvrp")
    assert len({(plan(method).core_hours, plan(method).seconds) for method in equal}) == 1
    assert plan("hgs").core_hours == pytest.approx(5200 * 5 * 1000 / 3600, rel=1e-3)
    assert plan("fm-gs").core_hours == plan("fm-rrc").core_hours == 0
    greedy, beam, sampled, again = (plan(m).seconds for m in ("fm-gs", "fm-bs", "fm-ns", "fm-rrc"))
    assert greedy < beam < sampled
    assert sampled == plan("fm-ls").seconds
    assert again / sampled == pytest.approx((1000 + 20 * 16) / (1 + 100 + 1000), rel=1e-3)
