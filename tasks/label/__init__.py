"""Label factory: solve what a dataset is missing, a file per unit of work, and prove it from its bytes."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.label.spec import LabelSpec as LabelSpec
    from mcvrp.tasks.label.stage import LabelSummary as LabelSummary, label_missing as label_missing
    from mcvrp.tasks.label.verify import verify_dataset as verify_dataset
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
