"""From a delivery company's addresses to a model that routes any day's orders on them.

The names below are the public ones; `docs/python.md` shows them at work.
"""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.flows.day import solve as solve
    from mcvrp.model import (
        Beam as Beam,
        City as City,
        Greedy as Greedy,
        Instance as Instance,
        McvrpError as McvrpError,
        Nucleus as Nucleus,
        Sampling as Sampling,
        Solution as Solution,
        cost as cost,
        decode as decode,
        infeasibility as infeasibility,
    )
    from mcvrp.storage import (
        Dataset as Dataset,
        Store as Store,
        load_city as load_city,
        load_labels as load_labels,
        load_model as load_model,
    )
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
