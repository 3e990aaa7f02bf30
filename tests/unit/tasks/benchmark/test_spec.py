"""Spec of a benchmark: contradictions are refused in one sentence that names the field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.prepare import heuristic
from mcvrp.tasks.benchmark.spec import BenchmarkSpec
from mcvrp.tasks.solvers.registry import SOLVERS, takers

TIMED = takers("time_limit")


def test_defaults_of_counts_and_budgets() -> None:
    """Large sizes may have fewer instances, as in the paper; iterations replace the default time limit."""
    assert BenchmarkSpec(sizes=(20, 50), instances=7).counts == {20: 7, 50: 7}
    assert BenchmarkSpec(sizes=(20, 600), instances=(1000, 100)).counts == {20: 1000, 600: 100}
    assert BenchmarkSpec(sizes=(20,)).time_limit("hgs") == BenchmarkSpec(sizes=(20,)).equal_time == 5
    assert BenchmarkSpec(sizes=(20,), hgs_iterations=30).time_limit("hgs") is None
    spec = BenchmarkSpec(sizes=(20,), pyvrp_time_limit=1)
    assert (spec.time_limit("hgs"), spec.time_limit("pyvrp")) == (5, 1)


def test_numbers_of_samples_depend_on_the_method() -> None:
    """Sampling has `samples`, heuristics their runs, greedy and equal time one."""
    fields: dict[str, Any] = {"samples": (1, 16), "heuristic_samples": (1, 3), "beam_width": 5}
    spec = BenchmarkSpec(sizes=(20,), **fields)
    samples = {name: spec.samples_of(name) for name in all_methods()}
    assert samples == {
        **dict.fromkeys(SOLVERS, (1, 3)),
        **dict.fromkeys(("am", "fm-ns", "fm-ls", "random-ls"), (1, 16)),
        **dict.fromkeys(("fm-gs", "hgs-own-equal", *(f"{name}-equal" for name in TIMED)), (1,)),
        "fm-bs": (5,),
    }
    beams = BenchmarkSpec(sizes=(20,), **fields | {"beam_width": (1, 5, 9)})
    assert [beams.samples_of(name) for name in ("fm-bs", "fm-gs", "fm-ns")] == [(1, 5, 9), (1,), (1, 16)]


def test_equal_time_is_the_same_for_all_methods() -> None:
    spec = BenchmarkSpec(sizes=(20,), equal_time=0.5, hgs_iterations=30, pyvrp_time_limit=1)
    timed = [name for name, method in all_methods().items() if method.equal_time]
    assert len(timed) == len(TIMED) + 1 >= 3
    assert {spec.time_limit(method) for method in timed} == {0.5}
    several = spec.model_copy(update={"equal_time": (0.002, 0.5, 2.0)})
    rows = {method: all_methods()[method].specs(several) for method in timed}
    labels = {method: [all_methods()[method].label_in(row) for row in rows[method]] for method in timed}
    assert labels["hgs-equal"] == ["HGS (0.002 s)", "HGS (0.5 s)", "HGS (2 s)"]
    assert {tuple(row.time_limit(method) for row in rows[method]) for method in timed} == {(0.002, 0.5, 2.0)}
    assert {several.seconds_of(method, 20) for method in timed} == {2.502}


def test_rows_at_equal_time_are_tuned_beside_hgs_of_its_own() -> None:
    """PyVRP of a time limit is tuned, too."""
    spec = BenchmarkSpec(sizes=(20,), hgs_time_limit=1, pyvrp_time_limit=1)
    tuned = {name: "tuned" in heuristic(spec, name).configuration for name in TIMED}
    assert tuned == {name: name != "hgs" for name in TIMED}
    own = {name: "tuned" in heuristic(spec, name).configuration for name in ("hgs-equal", "hgs-own-equal")}
    assert own == {"hgs-equal": True, "hgs-own-equal": False}


def test_labels_are_unique_and_networks_need_a_model() -> None:
    names = tuple(all_methods())
    assert len({method.label for method in all_methods().values()}) == len(names)
    spec = BenchmarkSpec(sizes=(20,), methods=names)
    assert spec.neural == tuple(name for name in names if name.startswith("fm-"))


@pytest.mark.parametrize(
    "fields",
    [
        {"sizes": (50, 20)},
        {"samples": (1, 1)},
        {"methods": ("hgs", "hgs")},
        {"hgs_iterations": 5, "hgs_time_limit": 5.0},
        {"p": 0.0},
        {"temperature": 0.0},
        {"beam_width": 0},
        {"beam_width": ()},
        {"beam_width": (16, 4)},
        {"beam_width": (4, 0)},
        {"attention": "a/b"},
        {"run": "a/b"},
        {"unknown": 1},
    ],
)
def test_invalid_fields_are_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as error:
        BenchmarkSpec(**{"sizes": (20,), **fields})
    assert list(fields)[-1].split("_")[0] in str(error.value)
