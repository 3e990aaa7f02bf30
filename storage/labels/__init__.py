"""Labels: Parquet files, their schema, manifest, statistics, and the copy that training maps."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.storage.labels.files import load_label as load_label
    from mcvrp.storage.labels.files import load_labels as load_labels
else:
    __getattr__, __dir__ = lazy(__name__, files="load_labels load_label")
