"""Mathematics: the problem, features, network, loss, decoding, curriculum. Knows no files."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.model.canonical_form import canonical as canonical
    from mcvrp.model.decoding import decode as decode
    from mcvrp.model.problem import City as City
    from mcvrp.model.problem import Instance as Instance
    from mcvrp.model.problem import Solution as Solution
    from mcvrp.model.problem import cost as cost
    from mcvrp.model.problem import infeasibility as infeasibility
    from mcvrp.model.strategies import Beam as Beam
    from mcvrp.model.strategies import Greedy as Greedy
    from mcvrp.model.strategies import Nucleus as Nucleus
    from mcvrp.model.strategies import Sampling as Sampling
else:
    __getattr__, __dir__ = lazy(
        __name__,
        problem="City Instance Solution cost infeasibility",
        canonical_form="canonical",
        decoding="decode",
        strategies="Beam Greedy Nucleus Sampling",
    )
