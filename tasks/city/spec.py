"""Specification of a city: synthetic, already imported, or to be imported from a file of addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, Self

from pydantic import Field, model_validator

from mcvrp.model.instances import CAPACITY_TABLE, PAPERS_DEMAND, Range
from mcvrp.model.problem import City
from mcvrp.storage.cities import Addresses, DateOrder, RoadFacts
from mcvrp.storage.layout import NAME_PATTERN
from mcvrp.tasks.support.spec import (
    MOST_CUSTOMERS,
    ColumnNames,
    OrdersSpec,
    SheetName,
    StrictSpec,
    unset,
)

UNIT_PATTERN = r"^[^\s<>\"'&]{1,12}$"
_SPARE_SHARE, _LEAST_SPARE = 10, 50  # one in ten addresses, at least 50


class RoadsSpec(StrictSpec):
    """Roads to take travel costs from."""

    source: str = Field(
        min_length=1,
        description="Address of an OSRM server (http://127.0.0.1:5000), or an extract of OpenStreetMap "
        "(region.osm.pbf)",
    )
    by: Literal["time", "distance"] | None = Field(
        None, description="Costs: time in seconds (default), or distance in metres"
    )
    profile: str | None = Field(
        None, min_length=1, description="Profile of an extract: car (default), bicycle, foot, or a .lua file"
    )
    snap: float | None = Field(
        None, gt=0, description="Largest distance of an address to its road in metres (default: 300)"
    )
    leave_out: bool = Field(
        False, description="Leave out addresses that are too far from any road, or that no road connects"
    )

    @model_validator(mode="after")
    def _address(self) -> Self:
        if self.is_server:
            if not re.fullmatch(r"https?://[^\s@?#]+", self.source):
                raise ValueError(
                    "the address of an OSRM server is http://HOST:PORT, without user, password or query"
                )
            if self.profile:
                raise ValueError("an OSRM server has the profile of its own roads: leave profile out")
        return self

    @property
    def is_server(self) -> bool:
        return "://" in self.source


class AddressFile(OrdersSpec):
    """A file of addresses to import, or to extend a city with."""

    file: str = Field(
        min_length=1,
        description="CSV, Excel or Parquet with id and lat, lon or x, y, or a CVRPLIB .vrp; store:PATH "
        "(in a form also PATH) for a file in the store",
    )
    matrix: str | None = Field(
        None, description="Travel costs: .npy in the row order of the file, or a table of from, to, cost"
    )
    roads: RoadsSpec | None = Field(
        None, exclude_if=unset, title="Roads", description="Roads that give the travel costs"
    )
    depot: str | None = Field(None, description="Id of the depot (default: the row with depot = 1)")
    unit: str | None = Field(
        None,
        pattern=UNIT_PATTERN,
        description="Unit of a cost of 1 (default: m); for addresses in degrees m, km or mi",
    )
    demand: Range | None = Field(None, description="Range of demands in this city (default: the paper's 1–9)")
    capacity: Range | None = Field(
        None, description="Range of vehicle capacities in this city (default: the paper's Table 1)"
    )
    spare: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="Output classes reserved for future addresses (default: 10 %, at least 50)",
    )
    unrounded: bool = Field(False, description="Do not round the EUC_2D costs of a .vrp to integers")
    extends: str | None = Field(None, pattern=NAME_PATTERN, description="City that these addresses extend")
    columns: ColumnNames = Field(default_factory=dict)
    sheet: SheetName = None
    dates: DateOrder | None = Field(
        None, exclude_if=unset, description="Order of day and month in dates such as 02/11/2026 in the files"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        largest, smallest = (self.demand or PAPERS_DEMAND)[1], (self.capacity or CAPACITY_TABLE[0][2:])[0]
        if smallest < largest:
            raise ValueError(
                f"a capacity may be {smallest}, less than a demand of {largest}: give ranges that fit"
            )
        if self.roads and (second := [name for name in ("matrix", "unit") if getattr(self, name)]):
            raise ValueError(f"roads give the costs and their unit: leave {second[0]} out")
        fields = ("depot", "unit", "demand", "capacity")
        if self.extends and (inherited := [field for field in fields if getattr(self, field)]):
            raise ValueError(f"{inherited[0]} is inherited from city {self.extends!r}: leave it out")
        return self

    def spare_of(self, customers: int) -> int:
        """Return the number of output classes to reserve for ``customers``."""
        return max(_LEAST_SPARE, customers // _SPARE_SHARE) if self.spare is None else self.spare


class CitySpec(StrictSpec):
    """A city: synthetic, uniform on the unit square with the depot at its centre (Sec. 5.1), or imported."""

    name: str = Field("city", pattern=NAME_PATTERN, description="Name of the city in the store")
    source: Literal["synthetic", "imported"] = Field(
        "synthetic", description="synthetic: generated from customers and seed; imported: from addresses"
    )
    customers: int = Field(
        10_000, ge=1, le=MOST_CUSTOMERS, description="Number of customers of a synthetic city"
    )
    seed: int = Field(1, ge=0, description="Random seed of a synthetic city")
    addresses: AddressFile | None = Field(
        None,
        title="Addresses",
        description="File to import the city from; not needed if the city is in the store",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.addresses and self.source == "synthetic":
            raise ValueError(
                "a synthetic city has no addresses: set source to imported, or remove the addresses "
                "(on the command line: --set city.addresses=)"
            )
        return self

    @property
    def title(self) -> str:
        if self.source == "synthetic":
            return f"{self.name}, {self.customers} customers"
        file = f" from {PurePath(self.addresses.file).name}" if self.addresses else ""
        return f"{self.name}, imported{file}"


@dataclass(frozen=True)
class PlannedCity:
    """A city as described by a spec, with notes on its import; ``exists`` if the store has it as it is."""

    city: City
    addresses: Addresses | None  # of an imported city
    roads: RoadFacts | None = None  # that its costs are from
    notes: tuple[str, ...] = ()
    exists: bool = False
