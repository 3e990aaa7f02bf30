"""Models: published versions, the registry of their aliases, attention models."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.storage.models.models import (
        ModelCard as ModelCard,
        load_model as load_model,
        model_card as model_card,
    )
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
