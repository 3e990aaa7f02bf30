"""Notes on the conditions: configuration, seeds, hardware, other load on the machine."""

from __future__ import annotations

import pandas as pd
import pytest

from mcvrp.tasks.report.metrics import run_on
from mcvrp.tasks.report.tables import conditions

ROW = {
    "method": "HGS",
    "samples": 100,
    "seed": 3,
    "device": "1 CPU core",
    "workers": 48,
    "machine": "48 cores of a processor",
    "other_cores": 0.1,
    "version": "hybgensea 0.2.0",
    "configuration": "HGS-CVRP, 5 s, fleet default",
}


def notes(**changes: object) -> str:
    (note,) = conditions(pd.DataFrame([ROW | changes] * 2))
    return note


def test_a_note_names_configuration_program_seeds_and_hardware() -> None:
    assert notes() == (
        "HGS: HGS-CVRP, 5 s, fleet default (hybgensea 0.2.0); seeds 3 and up; 1 CPU core per instance, "
        "48 in parallel, on a machine with 48 cores of a processor; no other load on the machine."
    )
    assert "seed 3;" in notes(samples=1)


@pytest.mark.parametrize(
    ("others", "text"),
    [
        (0.4, "no other load"),  # operating system and driver
        (2.5, "other processes kept 2.5 cores"),
        (None, "was not recorded"),
    ],
)
def test_other_load_is_reported(others: float | None, text: str) -> None:
    assert text in notes(other_cores=others)


def test_a_note_lists_all_settings_of_a_method() -> None:
    rows = [ROW, ROW | {"version": "hybgensea 0.3.0", "machine": "2 cores of another", "other_cores": 1.9}]
    (note,) = conditions(pd.DataFrame(rows))
    assert all(part in note for part in ("0.2.0", "0.3.0", "other processes kept 1.9 cores"))
    # a solver that is not installed has its reason in another note
    assert list(conditions(pd.DataFrame([ROW | {"machine": ""}]))) == []


def test_processor_time_is_added_if_it_differs_from_wall_clock_time() -> None:
    block = pd.DataFrame([ROW | {"device": "4 CPU cores", "workers": 1}])
    assert run_on(block, 1.0) == "4 CPU cores (CPU time 4.00 s)"
    joined = [ROW | {"device": device, "workers": 1} for device in ("1 CPU core", *["2 CPU cores"] * 2)]
    assert run_on(pd.DataFrame(joined), 1.0) == "2 CPU cores (CPU time 2.00 s)"  # the most frequent one
    assert run_on(pd.DataFrame([ROW]), 5.0) == "1 CPU core, 48 at once"
    assert run_on(block.assign(device="GPU (H200)"), 1.0) == "GPU (H200)"
    for mixed in ("GPU (H200) + 1 CPU core", "4 CPU cores, then 1 CPU core"):
        assert run_on(block.assign(device=mixed), 1.0) == mixed  # the share of each is unknown
