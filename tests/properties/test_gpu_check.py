"""The script for GPUs works, and counts operations rightly; no GPU is needed for that."""

from __future__ import annotations

import pytest
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mcvrp.model.features import CityTable
from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from tests.gpu import check
from tests.gpu.check import training_flops
from tests.support.batches import sweep_batch


@pytest.mark.slow
def test_the_script_needs_no_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On the processor and a tiny network it prints a row for each size and no error."""
    monkeypatch.setattr(check, "SECONDS", 0.0)
    assert check.main(["--device", "cpu", "--small", "--no-compile"]) == 0
    printed = capsys.readouterr().out
    assert "All is right." in printed
    assert printed.count("\n| 20 | no |") == printed.count("\n| 50 | no |") == 1


def test_operations_are_those_that_pytorch_counts() -> None:
    """The formula of the MFU agrees within 2 % with PyTorch's counter, which counts causal squares whole."""
    config = NetworkConfig(1001, dim=128, heads=4, encoder_layers=2, decoder_layers=3, ff=512, dropout=0.0)
    city = City.uniform(1000, 1)
    batch = sweep_batch(city, [50])
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        check.scaled_loss(FmMcvrp(config), CityTable.of(city), batch, bf16=False).backward()
    tokens = zip(batch.lengths.tolist(), (batch.path_lengths - 1).tolist(), strict=True)
    counted = sum(training_flops(config, *pair) for pair in tokens)
    assert counted == pytest.approx(counter.get_total_flops(), rel=0.02)
