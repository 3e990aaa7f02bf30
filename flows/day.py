"""`mcvrp.solve`: routes of a day's orders, for the command and for notebooks, which show them with a map."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import PlainValidator

from mcvrp.flows.config import settings
from mcvrp.flows.config.validation import checked
from mcvrp.model.errors import McvrpError, shown
from mcvrp.model.problem import City
from mcvrp.storage.store.store import Store
from mcvrp.tasks.files.cells import dates
from mcvrp.tasks.files.cvrplib import is_vrp
from mcvrp.tasks.files.file_bytes import IN_STORE
from mcvrp.tasks.solve.day import Solved, solve_day
from mcvrp.tasks.solve.outputs import (
    Place,
    day_name,
    require_free,
    solve_figures,
    stop_table,
    summary,
    write_day,
)
from mcvrp.tasks.solve.plan import Request, plan_day
from mcvrp.tasks.solve.spec import SolveSpec
from mcvrp.tasks.solve.stops import stops_of
from mcvrp.tasks.solve.streets import on_streets
from mcvrp.tasks.support.spec import StrictSpec

logger = logging.getLogger(__name__)

_HEIGHT = 560  # pixels of the map
ROUTES = "routes"  # default parent of output folders


@dataclass(frozen=True, eq=False)
class RoutedDay(Solved):
    """Routes of a day's orders; a notebook shows it as a table of figures and the map.

    ``folder`` and ``files`` are what `solve` has written.
    """

    folder: str = ""
    files: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"RoutedDay({len(self.costs)} routes, cost {self.cost:g}, found by {self.found_by})"

    @property
    def routes(self) -> list[list[str]]:
        """Ids of the customers of each route, in the order of the stops."""
        return [[stop.customer for stop in stops[1:-1]] for stops in stops_of(self)]

    @property
    def costs(self) -> list[float]:
        """Cost of each route, in the city's unit."""
        return [stops[-1].cumulative_cost for stops in stops_of(self)]

    @property
    def summary(self) -> dict[str, Any]:
        """Figures of the day, the fields of summary.json."""
        return summary(self)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows of routes.csv: one per stop, the depot included."""
        return stop_table(self)

    def write(self, folder: str | Path, *, overwrite: bool = False) -> tuple[str, ...]:
        """Write the files of `mcvrp solve` into ``folder`` and return their addresses.

        Raises McvrpError if it has other files, or without ``overwrite`` routes of other orders or another
        capacity.
        """
        place = Place(Store.open(folder))
        require_free(place, self.planned, overwrite)
        return write_day(place, self)

    def _repr_html_(self) -> str:
        """Return figures, notes and the map, in a frame of its own."""
        from mcvrp.tasks.solve.map import map_page  # Matplotlib, for which no search should wait

        figures = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in solve_figures(self).items()
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        page = escape(map_page(self), quote=True)
        frame = f'<iframe srcdoc="{page}" style="width: 100%; height: {_HEIGHT}px; border: 0"></iframe>'
        return f"<table>{figures}</table><ul>{notes}</ul>{frame}"


def _date(value: object) -> datetime.date | None:
    day = value.date() if isinstance(value, datetime.datetime) else value
    try:
        return None if day is None else datetime.date.fromisoformat(str(day))
    except ValueError:
        (found,) = dates(pd.Series([str(day)]))  # as in files
        if pd.isna(found):
            raise ValueError(f"{shown(value)} is not a date like 2026-01-31 or 31.01.2026") from None
        return found.date()


class _Day(StrictSpec):
    capacity: int | None
    date: Annotated[datetime.date | None, PlainValidator(_date)]


def solve(
    orders: str | Path | pd.DataFrame | Mapping[str, int] | Sequence[Mapping[str, Any]],
    city: str | City | None = None,
    *,
    model: str | None = None,
    store: Store | str | Path | None = None,
    capacity: int | str | None = None,
    keep: str | Path | None = None,
    unrounded: bool = False,
    date: datetime.date | str | None = None,
    out: str | Path | Literal[True] | None = None,
    overwrite: bool = False,
    began: float | None = None,
    usual_model: str | None = None,
    roads: str | None = None,
    **options: Any,
) -> RoutedDay:
    """Return the routes of a day's orders, as `mcvrp solve` finds them.

    Parameters
    ----------
    orders
        A file, a table with its columns, rows as dictionaries, or the demand of each customer by its id.
    city
        Name in the store, or a city with its own ids (without: "1", "2", …); None for a CVRPLIB instance, or
        the only city of the store.
    model
        Name in the store; None: search without a model.
    store
        Default: $MCVRP_STORE, otherwise ./store. Not needed with a city of its own, without a model and
        files of the store ("store:PATH").
    capacity, keep, unrounded, date, options
        As the options of the command: ``time_limit=5``, ``fleet=6``, ``columns={"id": "Code client"}``, …
        (docs/solve.md).
    out, overwrite
        Folder for the files of the command, True: as of the command; None: no file is written.
    began
        Start of the time limit, by `time.monotonic` (default: now).
    usual_model
        Model to use without ``model`` if it is one of the city, otherwise the city's only one; None: none.
    roads
        Address of an OSRM server, or extract of the city's costs, to draw the routes along streets (default:
        that of the city, if it is there).

    Raises
    ------
    McvrpError
        Invalid input, or no routes within the limits are found.

    Notes
    -----
    If a model or a solver fails, the routes of the others are returned, and a warning is logged: see
    ``failures``.
    """
    began = time.monotonic() if began is None else began
    spec = checked(SolveSpec, options)
    dated = checked(_Day, {"capacity": capacity, "date": date})
    if model and not spec.with_model:
        without = f"--by {spec.by}" if spec.samples else "--samples 0"
        raise McvrpError(f"--model {model} is for a search by a model, not for {without}: omit one")
    if overwrite and out is None:
        raise McvrpError("overwrite: there is no folder to write to, give out")
    given = [str(file) for file in (orders, keep) if isinstance(file, str | Path)]
    in_store = [file for file in given if file.startswith(IN_STORE)]
    if not isinstance(store, Store):
        own_city = isinstance(city, City) or (city is None and is_vrp(orders))
        stored = not own_city or in_store or model is not None or usual_model is not None
        uri = None if store is None else str(store)
        store = Store.open(settings.store_uri(uri) if stored else ".", writable=False)
    if isinstance(orders, Path):
        orders = str(orders)
    elif isinstance(orders, Mapping):
        orders = pd.DataFrame({"customer": list(orders), "demand": list(orders.values())})
    elif not isinstance(orders, str):
        orders = pd.DataFrame(orders)
    request = Request(
        orders,
        city,
        model,
        dated.capacity,
        keep=None if keep is None else str(keep),
        date=dated.date,
        unrounded=unrounded,
        usual_model=usual_model,
        roads=roads,
    )
    planned, cache = plan_day(store, request, spec), settings.cache_dir()
    if out is None:
        routed = RoutedDay(**vars(on_streets(solve_day(store, planned, began), cache)))
    else:
        place = Place(Store.open(Path(ROUTES) / day_name(planned) if out is True else out))
        require_free(place, planned, overwrite)
        solved = on_streets(solve_day(store, planned, began), cache)
        files = write_day(place, solved)
        routed = RoutedDay(**vars(solved), folder=place.url, files=files)
    for failure in routed.failures:
        logger.warning(failure)
    return routed
