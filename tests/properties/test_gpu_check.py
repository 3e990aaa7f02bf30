"""The script for GPUs works; no GPU is needed for that."""

from __future__ import annotations

import pytest

from tests.gpu import check


@pytest.mark.slow
def test_the_script_needs_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """On the processor and a tiny network it prints a row for each batch and precision, and no error."""
    assert check.main(["--device", "cpu", "--small"]) == 0
    printed = capsys.readouterr().out
    assert "All is right." in printed
    assert printed.count("| fp32 |") == printed.count("| bf16 |") == 2
