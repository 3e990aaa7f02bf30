"""Training in the process of the test: a group of one rank, and a launcher that stops where it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch

from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.job import RankJob
from mcvrp.tasks.train.phases import Launcher
from tests.support.training import StoppedHere

Here = Callable[..., Launcher]


@pytest.fixture(scope="module")
def device(only_rank: tuple[dict[str, str], torch.device]) -> Iterator[torch.device]:
    """Have this process be the only rank of a group."""
    environment, device = only_rank
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield device


@pytest.fixture
def here(device: torch.device) -> Here:
    """Return a launcher that trains in this process, and stops before reporting step ``stop_at``."""
    from mcvrp.tasks.train.loop import prepare, run_rank

    def launcher(
        stop_at: int | None = None, hear: Callable[[Mapping[str, Any]], object] = lambda event: None
    ) -> Launcher:
        def launch(job: RankJob, progress: Progress) -> None:
            def report(event: Mapping[str, Any]) -> None:
                hear(event)
                if event["event"] == "step" and event["step"] == stop_at:
                    raise StoppedHere

            with prepare(job, report) as labels:
                run_rank(job, labels, 0, device, report)

        return launch

    return launcher
