"""Specification of a city: a synthetic one, one that was imported, or a file of addresses to import."""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal, Self

from pydantic import Field, model_validator

from mcvrp.model.instances import Range
from mcvrp.model.problem import CAPACITY_TABLE, PAPERS_DEMAND
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.support.spec import MOST_CUSTOMERS, StrictSpec

_SPARE_SHARE, _LEAST_SPARE = 10, 50  # a tenth of the addresses, and at least 50


class AddressFile(StrictSpec):
    """A file of addresses to import, or to add to a city that is there."""

    file: str = Field(
        min_length=1,
        description="CSV, Excel or Parquet with id and lat, lon or x, y, or a .vrp of CVRPLIB; store:PATH "
        "where it lies in the store",
    )
    matrix: str | None = Field(
        None, description="Travel costs: .npy in the file's order of rows, or a table of from, to, cost"
    )
    depot: str | None = Field(None, description="Id of the depot, unless a column depot marks it with 1")
    unit: str | None = Field(
        None,
        pattern=r"^[^\s<>\"'&]{1,12}$",
        description="What a cost of 1 means, else m; addresses in degrees know m, km and mi",
    )
    demand: Range | None = Field(
        None, description="Smallest and largest demand of an order in this city, else the paper's 1 to 9"
    )
    capacity: Range | None = Field(
        None, description="Smallest and largest capacity of a vehicle in this city, else the paper's table"
    )
    history: str | None = Field(
        None, description="Past orders, a table with demand, capacity or both, to take missing ranges from"
    )
    spare: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="Output classes of networks reserved for addresses to come, else a tenth, at least 50",
    )
    unrounded: bool = Field(
        False, description="Costs of a .vrp with EUC_2D as they are, not rounded to whole numbers"
    )
    extends: str | None = Field(
        None, pattern=NAME_PATTERN, description="Name of the city that these addresses are added to"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.demand and not 1 <= self.demand[0] <= self.demand[1] < 2**16:
            raise ValueError(f"demand = {list(self.demand)} is no range within 1 to 65535")
        if self.capacity and not 1 <= self.capacity[0] <= self.capacity[1] < 2**32:
            raise ValueError(f"capacity = {list(self.capacity)} is no range from 1 up")
        if self.history is None and (wrong := misfit(self.demand, self.capacity)):
            raise ValueError(wrong)
        given = [
            field for field in ("depot", "unit", "demand", "capacity", "history") if getattr(self, field)
        ]
        if self.extends and given:
            raise ValueError(f"{given[0]} is that of city {self.extends!r}, which is extended: leave it out")
        return self

    def spare_of(self, customers: int) -> int:
        """Return the classes to reserve in a city of ``customers``."""
        return max(_LEAST_SPARE, customers // _SPARE_SHARE) if self.spare is None else self.spare


def misfit(demand: Range | None, capacity: Range | None) -> str | None:
    """Return why a vehicle may be too small for an order with these ranges, None where none is."""
    largest, smallest = (demand or PAPERS_DEMAND)[1], (capacity or CAPACITY_TABLE[0][2:])[0]
    if smallest >= largest:
        return None
    return f"a vehicle may hold {smallest}, an order may be {largest}: give demand and capacity that fit"


class CitySpec(StrictSpec):
    """A city: synthetic, uniform on the unit square with the depot at its centre (Sec. 5.1), or yours."""

    name: str = Field("city", pattern=NAME_PATTERN, description="Name of the city in the store")
    source: Literal["synthetic", "imported"] = Field(
        "synthetic", description="synthetic: made of the next two; imported: from addresses, now or before"
    )
    customers: int = Field(10_000, ge=1, le=MOST_CUSTOMERS, description="Customers of a synthetic city")
    seed: int = Field(1, ge=0, description="Names a synthetic city: another seed places other customers")
    addresses: AddressFile | None = Field(
        None,
        title="Addresses",
        description="File to import the city from; none where it is in the store already",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.addresses and self.source == "synthetic":
            raise ValueError(
                "a synthetic city has no file of addresses: say source = imported, or leave it out"
            )
        return self

    @property
    def title(self) -> str:
        """The city in a few words."""
        if self.source == "synthetic":
            return f"{self.name}, {self.customers} customers"
        file = f" from {PurePath(self.addresses.file).name}" if self.addresses else ""
        return f"{self.name}, imported{file}"
