"""Mathematics: the problem, features, network, loss, decoding, curriculum. Knows no files."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.model.canonical_form import canonical as canonical
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
        Sampling as Sampling,
    )
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
