"""Searches where costs there and back differ: days of the city of `tests.benchmarks.helsinki`, eight minutes.

Costs are relative to PyVRP's on the same instances, in the same processor time of one core. The mean of both
directions is symmetric; routes found on it are driven in the cheaper direction.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mcvrp.model.problem import City, Instance, Solution, cost
from mcvrp.storage.cities import load_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.solvers.hgs import HGS
from mcvrp.tasks.solvers.pyvrp import PyVRP
from tests.benchmarks.common import Gap, arguments, heading, instances_of, row

CASES = [(n, seconds, 10) for n in (50, 100, 200, 400) for seconds in (0.2, 1.0)]
CASES += [(200, 10.0, 5), (400, 10.0, 5)]  # customers, seconds, instances
MEAN_SECONDS = 1.0  # for more, the mean of both directions is left out
START_SHARE = 0.3  # of the time, for the start of PyVRP


def hgs(city: City, day: Instance, seconds: float) -> Solution:
    return HGS(seconds, tuned=True).search(city, day, 1)


def pyvrp(city: City, day: Instance, seconds: float) -> Solution:
    return PyVRP(seconds, tuned=True).search(city, day, 1)


def of_the_mean(city: City, day: Instance, seconds: float) -> Solution:
    """Return routes for the mean of both directions, each in its cheaper direction."""
    assert city.matrix is not None
    mean = replace(city, matrix=(city.matrix + city.matrix.T) / 2)
    return oriented(city, hgs(mean, replace(day, city_id=mean.city_id), seconds))


def from_the_mean(city: City, day: Instance, seconds: float) -> Solution:
    start = of_the_mean(city, day, START_SHARE * seconds)
    return PyVRP((1 - START_SHARE) * seconds, tuned=True).search(city, day, 1, [start])


def oriented(city: City, solution: Solution) -> Solution:
    """Return ``solution`` with each route in its cheaper direction."""
    return Solution(
        tuple(
            min(route, route[::-1], key=lambda way: cost(city, Solution((way,)))) for route in solution.routes
        )
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("store", help="store of the city")
    city = load_city(Store.open(parser.parse_args().store), "helsinki")
    heading("n", "s", "days", "PyVRP", "HGS", "HGS, cheaper direction", "HGS on the mean", "PyVRP from that")
    for n, seconds, count in CASES:
        days = instances_of(city, n, count)
        searches = (pyvrp, hgs, of_the_mean, from_the_mean)[: 4 if seconds <= MEAN_SECONDS else 2]
        answers = [[search(city, day, seconds) for day in days] for search in searches]
        answers.insert(2, [oriented(city, solution) for solution in answers[1]])
        base, *others = (np.array([cost(city, each) for each in found]) for found in answers)
        gaps = [*(Gap.of(each, base) for each in others), "", ""][:4]
        row(n, f"{seconds:g}", count, f"{base.mean():,.0f}", *gaps)


if __name__ == "__main__":
    main()
