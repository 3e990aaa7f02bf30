"""Training in the process of the test: a group of one rank, and a launcher that stops at a given step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from mcvrp.storage import layout
from mcvrp.storage.store.store import Store
from mcvrp.storage.training.metrics import StepMetrics
from mcvrp.tasks.support.progress import Progress
from mcvrp.tasks.train.job import RankEvent, RankJob
from mcvrp.tasks.train.phases import Launcher
from tests.support.training import CITY, StoppedHere, write_dataset

Here = Callable[..., Launcher]


def filled(uri: str | Path) -> Store:
    """Return a store with the datasets "tiny" and, held out, "apart"."""
    store = Store.open(uri)
    write_dataset(store, CITY, range(20, 23), 30)
    write_dataset(store, CITY, range(20, 23), 2, "apart")
    store.put_json(layout.label_spec("apart"), {"split": "valid"})
    return store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return filled(tmp_path / "store")


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
    from mcvrp.tasks.train.trainer import Trainer, prepare

    def launcher(
        stop_at: int | None = None, hear: Callable[[RankEvent], object] = lambda event: None
    ) -> Launcher:
        def launch(job: RankJob, progress: Progress) -> None:
            def report(event: RankEvent) -> None:
                hear(event)
                if isinstance(event, StepMetrics) and event.step == stop_at:
                    raise StoppedHere

            Trainer(job, prepare(job), 0, device, report).run()

        return launch

    return launcher
