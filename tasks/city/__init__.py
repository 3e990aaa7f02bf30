"""Cities: synthetic, imported from a file of addresses, extended."""

from typing import TYPE_CHECKING

from mcvrp.face import lazy

if TYPE_CHECKING:
    from mcvrp.tasks.city.make import make_city as make_city, plan_city as plan_city
    from mcvrp.tasks.city.spec import CitySpec as CitySpec
else:
    __getattr__, __dir__ = lazy(__name__, __file__)
