"""Training of the attention models that the benchmark compares with."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.attention.spec import AmSpec as AmSpec
    from mcvrp.tasks.attention.train import AmSummary as AmSummary
    from mcvrp.tasks.attention.train import train_am as train_am
else:
    __getattr__, __dir__ = lazy(__name__, spec="AmSpec", train="AmSummary train_am")
