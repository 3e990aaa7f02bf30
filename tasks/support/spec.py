"""Shared parts of the stages' specs: unknown fields, ranges of orders, heads of networks, decoding.

Fields that several specs have are types here, and each spec declares them in its own place: specs are
stored, and hashed, in the order of their fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from mcvrp.model.instances import Range, Rules
from mcvrp.model.problem import City

MOST_CUSTOMERS = 1_000_000  # of a city
MOST_SAMPLES = 100_000  # of an instance, however they are drawn
MOST_SECONDS = 1_000_000.0  # of an instance: eleven days
MOST_PASSES = 10_000  # through the labels of a phase
MOST_OF_SOLVERS = 2**31 - 1  # of iterations and the like, as solvers in C count
_LARGEST = 2**32 - 1  # of any whole number; of a seed, which only names, 64 bits
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
TopK = Annotated[int | None, Field(ge=1, le=MOST_CUSTOMERS, description="top-k (default: all nodes)")]
Temperature = Annotated[
    float,
    Field(gt=0, description="Sampling temperature"),
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
    """Return whether a later field has its default: it is left out, so that the JSON of before stays."""
    return not value


PolishTemperature = Annotated[
    float | None,
    Field(
        gt=0,
        exclude_if=unset,
        description="Sampling temperature of the samples for local search (default: temperature)",
    ),
]


def require_number(given: object, number: object) -> None:
    """Raise pydantic's error if ``number`` was read from what is none: true, or "1_0"."""
    other = isinstance(given, bool) or (isinstance(given, str) and "_" in given)
    if other and isinstance(number, int | float) and not isinstance(number, bool):
        raise PydanticKnownError("int_type" if isinstance(number, int) else "float_type")


class StrictSpec(BaseModel):
    """Spec that cannot be changed; refuses a field that it does not know, and numbers beyond all use."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="wrap")
    @classmethod
    def _countable(cls, given: Any, validate: ValidatorFunctionWrapHandler, field: ValidationInfo) -> Any:
        value = validate(given)
        most = _LARGEST_SEED if field.field_name == "seed" else _LARGEST
        several = isinstance(value, tuple) and isinstance(given, list | tuple)
        parts = zip(given, value, strict=True) if several else [(given, value)]
        for said, number in parts:
            require_number(said, number)
            if isinstance(number, int) and number > most:
                raise PydanticKnownError("less_than_equal", {"le": most})
        return value


class HeadsSpec(StrictSpec):
    """Spec of a network with attention: its heads share the ``dim`` numbers of a node or token equally."""

    if TYPE_CHECKING:  # each spec declares them where its order of fields has them
        dim: int
        heads: int

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} is not a multiple of heads {self.heads}")
        return self


class OrdersSpec(StrictSpec):
    """Spec of a stage that draws orders: with its city, ``demand`` and ``capacity`` are rules."""

    if TYPE_CHECKING:  # each spec declares them where its order of fields has them
        demand: Range | None
        capacity: Range | None

    def rules_in(self, city: City | None) -> Rules:
        """Return the rules of drawing demands and capacities in ``city``; None is one without ranges."""
        return Rules.of(city, self.demand, self.capacity)

    def in_city(self, city: City) -> Self:
        """Return the spec with the ranges that hold in ``city``, the same however they came about."""
        rules = self.rules_in(city)
        return self.model_copy(update={"demand": rules.demand, "capacity": rules.capacity})
