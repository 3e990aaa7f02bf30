"""Labels: Parquet files, their schema, manifest, statistics, and the copy that training maps."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.storage.labels.dataset import Dataset as Dataset, load_labels as load_labels
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
