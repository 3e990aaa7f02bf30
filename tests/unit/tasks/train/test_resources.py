"""Resources of the ranks that variables of libraries choose."""

from __future__ import annotations

import pytest
import torch

from mcvrp.model.errors import McvrpError
from mcvrp.tasks.train.resources import require_accelerator, require_cores


@pytest.mark.parametrize(("gpu", "device"), [(True, "cuda"), (False, "cpu")])
@pytest.mark.parametrize("chosen", ["cuda", "cpu", "xpu", ""])
def test_deepspeed_has_the_device_of_the_ranks(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, device: str, chosen: str
) -> None:
    """Ranks with another accelerator would fail one attempt after the other."""
    monkeypatch.delenv("DS_ACCELERATOR", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    require_accelerator()
    monkeypatch.setenv("DS_ACCELERATOR", chosen)
    if chosen == device:
        require_accelerator()
        return
    with pytest.raises(McvrpError, match=f"DS_ACCELERATOR={chosen}, but this machine trains on {device}: r"):
        require_cores(1, 1)
