"""Shared parts of specs: validation, ranges of orders, attention heads, decoding.

Fields of several specs are types here, and declared by each spec: specs are stored and hashed in the order of
their fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from mcvrp.model.errors import shown
from mcvrp.model.instances import Range, Rules
from mcvrp.model.problem import City
from mcvrp.tasks.support.registry import OneOf

MOST_CUSTOMERS = 1_000_000  # of a city
MOST_SAMPLES = 100_000  # per instance
MOST_SECONDS = 1_000_000.0  # per instance: eleven days
MOST_PASSES = 10_000  # over the labels of a phase
MOST_OF_SOLVERS = 2**31 - 1  # iterations and the like: solvers in C use 32-bit integers
_LARGEST = 2**32 - 1  # of all integers but seeds
_LARGEST_SEED = 2**64 - 1

Size = Annotated[int, Field(ge=1, le=MOST_CUSTOMERS)]
DemandRange = Annotated[
    Range | None,
    Field(
        description="Range of demands, in units of the capacity (default: the city's range, otherwise 1–9)"
    ),
]
CapacityRange = Annotated[
    Range | None,
    Field(
        description="Range of vehicle capacities, in units of demand (default: the city's "
        "range, otherwise Table 1)"
    ),
]
KeptShare = Annotated[float, Field(gt=0, le=1, description="top-p (nucleus sampling)")]
Temperature = Annotated[float, Field(gt=0, description="Sampling temperature")]
ModelVersion = Annotated[
    Literal["champion", "challenger", "latest"] | Annotated[int, Field(ge=1)] | None,
    Field(description="Version of the model (default: the champion, otherwise the latest)"),
]
Rotations = Annotated[
    int,
    Field(
        ge=1,
        le=MOST_SAMPLES,
        description="Number of rotations that the samples share, if the model was trained with rotation",
    ),
]


def unset(value: object) -> bool:
    """Return whether a field added later has its default, and is omitted so that stored JSON is unchanged."""
    return not value


PolishTemperature = Annotated[
    float | None,
    Field(
        gt=0,
        exclude_if=unset,
        description="Sampling temperature of the samples for local search (default: temperature)",
    ),
]


# Fields of tables of addresses, orders and routes whose columns a user may call otherwise (--columns).
COLUMN_FIELDS = (
    *("id", "lat", "lon", "x", "y", "depot", "demand", "capacity", "service", "priority"),
    *("date", "route", "stop", "kept"),
)


def _by_field(names: Any) -> Any:
    if not isinstance(names, Mapping) or "customer" not in names:
        return names
    if "id" in names:
        raise ValueError("customer and id are the same field: keep one of them")
    return {"id" if field == "customer" else field: names[field] for field in names}


ColumnNames = Annotated[
    dict[Annotated[str, OneOf(lambda: COLUMN_FIELDS)], Annotated[str, Field(min_length=1, max_length=100)]],
    BeforeValidator(_by_field),
    Field(
        exclude_if=unset,
        description='Names of columns in the files, by field, such as {"id": "Code client"}; the fields are '
        + ", ".join(COLUMN_FIELDS),
    ),
]
SheetName = Annotated[
    Annotated[str, Field(min_length=1, max_length=100)] | None,
    Field(
        exclude_if=unset,
        description="Sheet of the file, a workbook (default: the first visible one)",
    ),
]


def require_number(value: object, number: object) -> None:
    """Raise pydantic's error if ``number`` was parsed from a ``value`` that is not one: true, or "1_0"."""
    invalid = isinstance(value, bool) or (isinstance(value, str) and "_" in value)
    if invalid and isinstance(number, int | float) and not isinstance(number, bool):
        raise PydanticKnownError("int_type" if isinstance(number, int) else "float_type")


class StrictSpec(BaseModel):
    """Immutable spec that rejects unknown fields and numbers out of range."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="wrap")
    @classmethod
    def _in_range(cls, value: Any, validate: ValidatorFunctionWrapHandler, field: ValidationInfo) -> Any:
        parsed = validate(value)
        largest = _LARGEST_SEED if field.field_name == "seed" else _LARGEST
        several = isinstance(parsed, tuple) and isinstance(value, list | tuple)
        for part, number in zip(value, parsed, strict=True) if several else [(value, parsed)]:
            require_number(part, number)
            if isinstance(number, int) and number > largest:
                raise ValueError(
                    f"{shown(number)} is above the largest number, {largest}"
                )  # pydantic's: a float
        return parsed


class HeadsSpec(StrictSpec):
    """Spec of a network with attention, whose ``heads`` divide the embedding dimension ``dim``."""

    if TYPE_CHECKING:  # declared by each spec, in the order of its fields
        dim: int
        heads: int

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not a multiple of heads {self.heads}")
        return self


class OrdersSpec(StrictSpec):
    """Spec of a stage that samples orders from the ranges ``demand`` and ``capacity``."""

    if TYPE_CHECKING:  # declared by each spec, in the order of its fields
        demand: Range | None
        capacity: Range | None

    @model_validator(mode="after")
    def _valid_ranges(self) -> Self:
        if self.demand and not 1 <= self.demand[0] <= self.demand[1] < 2**16:
            raise ValueError(f"demand = {list(self.demand)} is not a range within 1 to 65535")
        least = self.demand[1] if self.demand else 1
        if self.capacity and not least <= self.capacity[0] <= self.capacity[1] < 2**32:
            raise ValueError(
                f"capacity = {list(self.capacity)} is not a range from the smallest to the largest capacity, "
                f"at least the largest demand, {least}"
            )
        return self

    def rules_in(self, city: City | None) -> Rules:
        """Return the rules for sampling demands and capacities in ``city``; None is a city without ranges."""
        return Rules.of(city, self.demand, self.capacity)

    def in_city(self, city: City) -> Self:
        """Return the spec with explicit ranges, by default those of ``city``."""
        rules = self.rules_in(city)
        return self.model_copy(update={"demand": rules.demand, "capacity": rules.capacity})
