"""Training: phase by phase through DeepSpeed, from the last checkpoint, to a published model."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.train.phases import (
        PhaseSummary as PhaseSummary,
        TrainSummary as TrainSummary,
        publish as publish,
        train as train,
        train_phase as train_phase,
    )
    from mcvrp.tasks.train.spec import TrainSpec as TrainSpec
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
