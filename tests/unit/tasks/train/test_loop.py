"""What a rank says when it cannot go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from mcvrp.tasks.train import loop as train_loop
from mcvrp.tasks.train.loop import take_part


@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried ...\nmore")]
)
def test_memory_that_runs_out_beside_the_micro_batches_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Weights that do not fit do not fit the next time either: one sentence with the hint, no restart."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(train_loop, "prepare", fail)
    reports: list[Mapping[str, Any]] = []
    refusal = take_part(None, 1, 1, reports.append)  # type: ignore[arg-type]
    assert [report["event"] for report in reports] == ["refused"]
    assert "train.zero=1" in str(refusal)
    assert "\n" not in str(refusal)


def test_a_bug_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other error leaves the rank as it is, and its traceback in the log."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(train_loop, "prepare", fail)
    with pytest.raises(ZeroDivisionError):
        take_part(None, 0, 1, lambda _: None)  # type: ignore[arg-type]
