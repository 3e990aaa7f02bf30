"""Training of the attention models that the benchmark compares with."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.attention.spec import AttentionSpec as AttentionSpec
    from mcvrp.tasks.attention.train import (
        AttentionSummary as AttentionSummary,
        train_attention as train_attention,
    )
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
