"""Storage: where bytes live. Knows no Prefect and no Ray."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.storage.cities import load_city as load_city
    from mcvrp.storage.labels.dataset import Dataset as Dataset, load_labels as load_labels
    from mcvrp.storage.models.models import load_model as load_model
    from mcvrp.storage.store.store import Store as Store
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
