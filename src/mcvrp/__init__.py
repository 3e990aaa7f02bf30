"""From a delivery company's addresses to a model that routes any day's orders on them.

The names below are the public ones; `docs/python.md` shows them at work.
"""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.flows.day import solve as solve
    from mcvrp.model.decoding import decode as decode
    from mcvrp.model.errors import McvrpError as McvrpError
    from mcvrp.model.problem import (
        City as City,
        Instance as Instance,
        Solution as Solution,
        cost as cost,
        infeasibility as infeasibility,
    )
    from mcvrp.model.strategies import (
        Beam as Beam,
        Greedy as Greedy,
        Nucleus as Nucleus,
    )
    from mcvrp.storage.cities import load_city as load_city
    from mcvrp.storage.labels.dataset import Dataset as Dataset, load_labels as load_labels
    from mcvrp.storage.models.models import load_model as load_model
    from mcvrp.storage.store.store import Store as Store
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
