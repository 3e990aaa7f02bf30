"""From a delivery company's addresses to a model that routes any day's orders on them.

The names below are the public ones; `docs/python.md` shows them at work.
"""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.model import (
        Beam as Beam,
    )
    from mcvrp.model import (
        City as City,
    )
    from mcvrp.model import (
        Greedy as Greedy,
    )
    from mcvrp.model import (
        Instance as Instance,
    )
    from mcvrp.model import (
        Nucleus as Nucleus,
    )
    from mcvrp.model import (
        Sampling as Sampling,
    )
    from mcvrp.model import (
        Solution as Solution,
    )
    from mcvrp.model import (
        cost as cost,
    )
    from mcvrp.model import (
        decode as decode,
    )
    from mcvrp.model import (
        infeasibility as infeasibility,
    )
    from mcvrp.storage import Dataset as Dataset
    from mcvrp.storage import Store as Store
    from mcvrp.storage import load_city as load_city
    from mcvrp.storage import load_labels as load_labels
    from mcvrp.storage import load_model as load_model
else:
    __getattr__, __dir__ = lazy(
        __name__,
        model="Beam City Greedy Instance Nucleus Sampling Solution cost decode infeasibility",
        storage="Dataset Store load_city load_labels load_model",
    )
