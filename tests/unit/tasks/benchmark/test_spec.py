"""The benchmark's spec: what contradicts itself is refused in a sentence that names the field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from mcvrp.tasks.benchmark.methods import all_methods
from mcvrp.tasks.benchmark.spec import DEFAULT_TIME_LIMIT, BenchmarkSpec


def test_instances_are_one_number_or_one_for_each_size() -> None:
    """Large sizes may have fewer instances, as in the paper."""
    assert BenchmarkSpec(sizes=(20, 50), instances=7).counts == {20: 7, 50: 7}
    assert BenchmarkSpec(sizes=(20, 600), instances=(1000, 100)).counts == {20: 1000, 600: 100}


def test_a_heuristic_has_five_seconds_unless_told_otherwise() -> None:
    """The default is a time limit; iterations replace it."""
    assert BenchmarkSpec(sizes=(20,)).time_limit("hgs") == 5
    assert BenchmarkSpec(sizes=(20,), hgs_iterations=30).time_limit("hgs") is None
    assert BenchmarkSpec(sizes=(20,), pyvrp_time_limit=1).time_limit("pyvrp") == 1


def test_greedy_decoding_has_one_sample() -> None:
    """Only nucleus sampling follows `samples`, only heuristics `heuristic_samples`."""
    spec = BenchmarkSpec(sizes=(20,), samples=(1, 16), heuristic_samples=(1, 3))
    assert spec.samples_of("fm-gs") == (1,)
    assert spec.samples_of("fm-ns") == (1, 16)
    assert spec.samples_of("lkh3") == (1, 3)


def test_runs_of_hgs_alone_may_be_others() -> None:
    """The paper's tests need many of HGS, which is the baseline; of the others they would only take time."""
    spec = BenchmarkSpec(sizes=(20,), heuristic_samples=(1, 3), hgs_samples=(1, 16))
    assert {name: spec.samples_of(name) for name in ("hgs", "pyvrp", "lkh3", "hgs-equal")} == {
        "hgs": (1, 16),
        "pyvrp": (1, 3),
        "lkh3": (1, 3),
        "hgs-equal": (1,),
    }


def test_what_goes_on_from_samples_does_so_from_all_of_them() -> None:
    """Re-construction and searches have one outcome of the largest number; equal time is one run."""
    spec = BenchmarkSpec(sizes=(20,), samples=(1, 16), heuristic_samples=(1, 3), beam_width=5)
    assert {spec.samples_of(method) for method in ("fm-rrc", "fm-hgs", "fm-pyvrp")} == {(16,)}
    assert {spec.samples_of(method) for method in ("hgs-equal", "pyvrp-equal")} == {(1,)}
    assert {spec.samples_of(method) for method in ("am", "fm-ls", "random-ls")} == {(1, 16)}
    assert spec.samples_of("fm-bs") == (5,)


def test_equal_time_is_the_same_for_all_that_claim_it() -> None:
    """Alone or from samples, by either program, whatever the budget of their other rows."""
    spec = BenchmarkSpec(sizes=(20,), equal_time=0.5, hgs_iterations=30, pyvrp_time_limit=1)
    claiming = [name for name, method in all_methods().items() if method.equal_time]
    assert len(claiming) == 4
    assert {spec.time_limit(method) for method in claiming} == {0.5}
    assert BenchmarkSpec(sizes=(20,)).equal_time == DEFAULT_TIME_LIMIT


def test_every_method_has_a_name_and_samples() -> None:
    """No two share a name in the tables; those that need a model are told from the others."""
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
def test_what_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    """The error names the field that was given."""
    with pytest.raises(ValidationError) as error:
        BenchmarkSpec(**fields)
    assert list(fields)[-1].split("_")[0] in str(error.value)
