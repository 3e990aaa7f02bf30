"""Spec of a benchmark: contradictions are refused in one sentence that names the field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.spec import DEFAULT_TIME_LIMIT, BenchmarkSpec
from mcvrp.tasks.solvers.registry import SOLVERS


def test_instances_are_one_number_or_one_for_each_size() -> None:
    """Large sizes may have fewer instances, as in the paper."""
    assert BenchmarkSpec(sizes=(20, 50), instances=7).counts == {20: 7, 50: 7}
    assert BenchmarkSpec(sizes=(20, 600), instances=(1000, 100)).counts == {20: 1000, 600: 100}


def test_a_heuristic_has_five_seconds_by_default() -> None:
    """Iterations replace the default time limit."""
    assert BenchmarkSpec(sizes=(20,)).time_limit("hgs") == 5
    assert BenchmarkSpec(sizes=(20,), hgs_iterations=30).time_limit("hgs") is None
    assert BenchmarkSpec(sizes=(20,), pyvrp_time_limit=1).time_limit("pyvrp") == 1


def test_numbers_of_samples_depend_on_the_method() -> None:
    """Sampling has `samples`, heuristics their runs, warm starts all samples, greedy and equal time one."""
    fields: dict[str, Any] = {"samples": (1, 16), "heuristic_samples": (1, 3), "beam_width": 5}
    spec = BenchmarkSpec(sizes=(20,), hgs_samples=(1, 8), **fields)
    samples = {name: spec.samples_of(name) for name in all_methods()}
    assert samples == {
        "hgs": (1, 8),
        **dict.fromkeys(SOLVERS.keys() - {"hgs"}, (1, 3)),
        **dict.fromkeys(("am", "fm-ns", "fm-ls", "random-ls"), (1, 16)),
        **dict.fromkeys(("fm-gs", "hgs-equal", "pyvrp-equal"), (1,)),
        **dict.fromkeys(("fm-rrc", "fm-hgs", "fm-pyvrp"), (16,)),
        "fm-bs": (5,),
    }
    assert BenchmarkSpec(sizes=(20,), **fields).samples_of("hgs") == (1, 3)


def test_equal_time_is_the_same_for_all_methods() -> None:
    """From scratch or from samples, with any solver and any budget of its other rows."""
    spec = BenchmarkSpec(sizes=(20,), equal_time=0.5, hgs_iterations=30, pyvrp_time_limit=1)
    timed = [name for name, method in all_methods().items() if method.equal_time]
    assert len(timed) == 4
    assert {spec.time_limit(method) for method in timed} == {0.5}
    assert BenchmarkSpec(sizes=(20,)).equal_time == DEFAULT_TIME_LIMIT


def test_every_method_has_a_name_and_samples() -> None:
    """Names in the tables are unique; the methods that need a model are known."""
    names = tuple(all_methods())
    assert len({method.label for method in all_methods().values()}) == len(names)
    spec = BenchmarkSpec(sizes=(20,), methods=names)
    assert all(spec.samples_of(method) for method in names)
    assert spec.neural == tuple(name for name in names if name.startswith("fm-"))


@pytest.mark.parametrize(
    "fields",
    [
        {"sizes": ()},
        {"sizes": (50, 20)},
        {"sizes": (0,)},
        {"sizes": (20,), "samples": (16, 1)},
        {"sizes": (20,), "samples": (1, 1)},
        {"sizes": (20,), "instances": (5, 5)},
        {"sizes": (20,), "instances": 0},
        {"sizes": (20,), "methods": ("hgs", "hgs")},
        {"sizes": (20,), "methods": ("simulated-annealing",)},
        {"sizes": (20,), "hgs_iterations": 5, "hgs_time_limit": 5.0},
        {"sizes": (20,), "p": 0.0},
        {"sizes": (20,), "top_k": 0},
        {"sizes": (20,), "temperature": 0.0},
        {"sizes": (20,), "beam_width": 0},
        {"sizes": (20,), "rounds": 0},
        {"sizes": (20,), "part_customers": 0},
        {"sizes": (20,), "part_samples": 0},
        {"sizes": (20,), "equal_time": 0.0},
        {"sizes": (20,), "attention": "a/b"},
        {"sizes": (20,), "run": "a/b"},
        {"sizes": (20,), "unknown": 1},
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, Any]) -> None:
    """The error names the field."""
    with pytest.raises(ValidationError) as error:
        BenchmarkSpec(**fields)
    assert list(fields)[-1].split("_")[0] in str(error.value)
