"""Spec of a day: search, model version, samples, time limit and limits of the routes."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from mcvrp.model.errors import McvrpError, shown
from mcvrp.tasks.solvers.registry import finishers
from mcvrp.tasks.solvers.solver import Limits
from mcvrp.tasks.solvers.strategies import Decoding, sampling_strategies
from mcvrp.tasks.support.machine import local_cores
from mcvrp.tasks.support.registry import OneOf
from mcvrp.tasks.support.spec import (
    MOST_CUSTOMERS,
    ColumnNames,
    KeptShare,
    ModelVersion,
    PolishTemperature,
    Rotations,
    SheetName,
    StrictSpec,
    Temperature,
    unset,
)
from mcvrp.tasks.support.text import METRES, SECONDS, is_seconds, unit_text

AUTO, MODEL = "auto", "model"
MOST_SECONDS = 604_800  # of a shift or a stop: a week
CLOCK = r"^([01]?[0-9]|2[0-3]):[0-5][0-9]$"
LENGTH_PATTERN = r"^([0-9]+[.,]?[0-9]*|[.,][0-9]+) ?(m|km|mi|s|min|h)$"

_PART = r"(?:([0-9]+\.?[0-9]*|\.[0-9]+) ?{})?"
_DURATION = re.compile(" ?".join(map(_PART.format, ("h", "min", "s"))))


def seconds_with_unit(text: str) -> float | None:
    """Return the seconds of "8h" or "7h 30min", None for other text and numbers without a unit."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or not any(match.groups()):
        return None
    parts = zip(match.groups(), (3600, 60, 1), strict=True)
    return sum(float(number) * seconds for number, seconds in parts if number)


def _pointed(value: object) -> object:
    """Return text with a decimal point instead of a comma; ValueError if it may separate thousands."""
    if not isinstance(value, str):
        return value
    if re.search(r"(?<!\d)[1-9]\d{0,2},\d{3}(?!\d)", value):
        raise ValueError(f"{shown(value)} may have a separator of thousands: write it without")
    return re.sub(r"(?<=\d),(?=\d)", ".", value)


def _with_unit(value: object) -> object:
    """Return the seconds of text with a unit: "2" would be two seconds, and was meant as hours."""
    if not isinstance(value := _pointed(value), str):
        return value
    if (seconds := seconds_with_unit(value)) is None:
        raise ValueError(f"{shown(value)} is not a duration with a unit such as 8h, 7.5h or 7h 30min")
    if seconds > MOST_SECONDS:
        raise ValueError(f"{shown(value)} is more than a week")
    return seconds


_OfRoute = Annotated[float, Field(gt=0, le=MOST_SECONDS)]
_OfStop = Annotated[float, Field(ge=0, le=MOST_SECONDS)]
_Shift = Annotated[_OfRoute | None, BeforeValidator(_with_unit, json_schema_input_type=_OfRoute | str | None)]
_Service = Annotated[_OfStop | None, BeforeValidator(_with_unit, json_schema_input_type=_OfStop | str | None)]


def _time_of_day(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(CLOCK, value):
        raise ValueError(f"{shown(value)} is not a time of day such as 08:00")
    return value


_TimeOfDay = Annotated[str, BeforeValidator(_time_of_day), Field(pattern=CLOCK)]


def seekers() -> tuple[str, ...]:
    """Return the values of ``by``: all, the model, or a solver that can start from solutions."""
    return (AUTO, MODEL, *finishers())


class Order(StrictSpec, extra="allow", coerce_numbers_to_str=True):
    """One order of a form; other fields are treated like columns of a file."""

    customer: str = Field(description="Id of the customer in the city", min_length=1)
    demand: int = Field(ge=1, description="Demand, in the unit of the capacity")


class LimitsSpec(StrictSpec):
    """Limits of the routes, and the times that count in them."""

    fleet: int | None = Field(
        None, ge=1, le=MOST_CUSTOMERS, exclude_if=unset, description="Maximum number of vehicles"
    )
    longest_route: Annotated[
        Annotated[float, Field(ge=1e-6, le=1e15)] | Annotated[str, Field(pattern=LENGTH_PATTERN)] | None,
        BeforeValidator(_pointed),
    ] = Field(
        None,
        exclude_if=unset,
        description="Maximum cost of a route such as 45km or 90min; a number if costs have another unit",
    )
    shift: _Shift = Field(
        None,
        exclude_if=unset,
        description="Maximum duration of a route with its stops, in seconds or such as 8h; requires a city "
        "whose costs are in seconds",
    )
    start_time: _TimeOfDay | None = Field(
        None,
        exclude_if=unset,
        description="Time of day at which vehicles leave the depot, such as 08:00, for arrival times; "
        "requires a city whose costs are in seconds",
    )
    service: _Service = Field(
        None,
        exclude_if=unset,
        description="Service time of a stop, in seconds or such as 3min, or of orders without one in their "
        "column `service`; requires a shift or a start time",
    )
    drop: bool = Field(
        False,
        exclude_if=unset,
        description="Leave out customers for whom there is no room in a vehicle or within the limits, "
        "those of the lowest `priority` first",
    )


class SearchSpec(StrictSpec):
    """Search: the solvers and the version of the model, their time and cores."""

    by: Annotated[str, OneOf(seekers)] = Field(
        AUTO, description="Search by the model and a solver on each core (auto), or by one of them alone"
    )
    version: ModelVersion = None
    time_limit: float = Field(
        10.0,
        gt=0,
        le=86_400,
        description="Wall-clock time limit in seconds, start-up included; the search ends before if nothing "
        "has improved for long",
    )
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="Number of cores for the search (default: all)"
    )
    seed: int = Field(0, ge=0, description="Random seed")
    columns: ColumnNames = Field(default_factory=dict)
    sheet: SheetName = None


class DecodingSpec(StrictSpec):
    """Decoding of the model's samples."""

    samples: int = Field(
        100,
        ge=0,
        le=100_000,
        description="Number of the model's samples, each improved by local search; 0: no model",
    )
    strategy: Annotated[str, OneOf(sampling_strategies)] = Field(
        "ns",
        exclude_if=lambda name: name == "ns",  # what is written of a day says what differs
        description="Decoding strategy; ns: nucleus sampling",
    )
    p: KeptShare = 0.9
    temperature: Temperature = 1.0
    polish_temperature: PolishTemperature = None
    rotations: Rotations = 1000


class SolveSpec(DecodingSpec, SearchSpec, LimitsSpec):
    """Search for a day's routes, limits and decoding: groups of a form, one section of a preset."""

    @property
    def groups(self) -> dict[str, StrictSpec]:
        """The groups of a form by their names."""
        kinds: dict[str, type[StrictSpec]] = {
            "limits": LimitsSpec,
            "search": SearchSpec,
            "decoding": DecodingSpec,
        }
        return {
            name: kind.model_validate(self.model_dump(include=set(kind.model_fields)))
            for name, kind in kinds.items()
        }

    def in_unit(self, unit: str) -> SolveSpec:
        """Return this spec with its limits in ``unit``, that of a city's costs.

        McvrpError if costs are lengths or times and a limit is not, or the other way round.
        """
        if (longest := self.longest_route) is None:
            return self
        unit = "s" if is_seconds(unit) else unit
        number, own = re.findall(LENGTH_PATTERN, longest)[0] if isinstance(longest, str) else (longest, "")
        text = longest if own else f"{longest:.10g}"
        units, example = (METRES, "km") if unit in METRES else (SECONDS, "min")
        example = f"a limit such as 30{example}" if own else f"{text}{example}"
        if unit not in units:
            units, example = {"": 1.0, unit: 1.0}, "a number in that unit"
        if own not in units:
            costs = f"costs of the city are in {unit_text(unit)}"
            raise McvrpError(f"--longest-route {text}, but {costs}: give {example}")
        return self.model_copy(update={"longest_route": float(number) * units[own] / units[unit]})

    @property
    def limits(self) -> Limits:
        """Limits of the routes, a length after `in_unit`; the service times of a shift are in the orders."""
        assert not isinstance(self.longest_route, str)
        return Limits(self.fleet, self.shift or self.longest_route, None if self.shift is None else {})

    @property
    def timed(self) -> bool:
        """Whether service times count, in a shift or in arrival times."""
        return self.shift is not None or self.start_time is not None

    @property
    def with_model(self) -> bool:
        """Whether the model searches, if there is one."""
        return self.by in (AUTO, MODEL) and self.samples > 0

    @property
    def cores(self) -> int:
        return self.threads or local_cores()

    @property
    def decoding(self) -> Decoding:
        return Decoding(self.p, self.polish_temperature or self.temperature)
