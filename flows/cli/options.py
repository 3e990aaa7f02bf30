"""The options of `mcvrp solve`. Nothing heavy is imported here: `mcvrp --help` answers at once."""

from __future__ import annotations

import argparse
import re
from pathlib import PurePath

from pydantic import ValidationError

from mcvrp.flows.config.errors import field_errors
from mcvrp.model.errors import McvrpError
from mcvrp.storage.cities import has_city
from mcvrp.storage.store.store import Store
from mcvrp.tasks.city.make import CitySpec

# option, what it would ask for: refused by name, as "unrecognized" would not say that nothing does it
_FLEET = ("--vehicles", "--max-vehicles", "--fleet", "--max-routes")
_TIME = ("--time-window", "--time-windows", "--service-time", "--shift")


def add_solve_options(command: argparse.ArgumentParser) -> None:
    """Give ``command`` what `mcvrp solve` is asked; what is not given is None."""
    command.add_argument(
        "orders",
        metavar="ORDERS",
        help="CSV or Parquet with the columns customer (or id) and demand: a file, an s3:// address, "
        "or one in the store as store:PATH",
    )
    command.add_argument(
        "--capacity",
        type=int,
        metavar="C",
        help="what a vehicle holds (default: the column 'capacity', or what all of the city's hold)",
    )
    command.add_argument("--city", metavar="NAME", help="of the city in the store (default: the preset's)")
    command.add_argument("--model", metavar="NAME", help="of the model (default: the preset's train.model)")
    command.add_argument(
        "--version",
        metavar="N|champion|latest",
        help="of the model (default: the champion, without one the latest)",
    )
    command.add_argument("--samples", type=int, metavar="S", help="answers of the model (default: 100)")
    command.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="for decoding and polishing; HGS gets as many again (default: 10)",
    )
    command.add_argument(
        "--polish",
        metavar="none|local-search|SOLVER",
        help="what improves the samples; a solver that goes on from them, or (default) local-search",
    )
    command.add_argument(
        "--hgs",
        action=argparse.BooleanOptionalAction,
        help="solve by HGS in equal time too, to compare (default: yes)",
    )
    command.add_argument("--seed", type=int, metavar="N", help="names everything random (default: 0)")
    command.add_argument(
        "--out", metavar="FOLDER", help="where the routes go (default: ./routes/NAME OF THE ORDERS-HASH)"
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace the routes of other orders in that folder"
    )
    for names, place in ((_FLEET, "fleet_limit"), (_TIME, "time_window")):
        for name in names:
            command.add_argument(
                name, dest=place, nargs="?", action=_Named, help=argparse.SUPPRESS, default=None
            )


class _Named(argparse.Action):
    """Keeps the name of the option that was given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, option_string)


# From the options of `mcvrp city import` and `extend` to the spec of a city

_FIELDS = ("matrix", "depot", "unit", "demand", "capacity", "history", "spare")
_NUMBER = re.compile(r"(.*)-(\d+)")


def imported(options: argparse.Namespace, store: Store) -> CitySpec:
    """Return the city that the command line asks for.

    Raises
    ------
    McvrpError
        If an option is wrong, in one sentence.
    """
    extends = options.city if options.action == "extend" else None
    given = {name: value for name in _FIELDS if (value := getattr(options, name, None)) is not None}
    addresses = {"file": options.file, **given, **({"extends": extends} if extends else {})}
    name = options.name or (next_name(store, extends) if extends else _name_of(options.file))
    data = {"name": name, "source": "imported", "addresses": addresses}
    try:
        return CitySpec.model_validate(data)
    except ValidationError as error:
        first = field_errors(error, CitySpec, data)[0].text
        raise McvrpError(first.replace("[addresses] ", "").replace("addresses.", "--")) from error


def next_name(store: Store, name: str) -> str:
    """Return the first free name behind ``name``: "lyon-2", "lyon-3", ..."""
    counted = _NUMBER.fullmatch(name)
    stem, number = (counted[1], int(counted[2])) if counted else (name, 1)
    while True:
        number += 1
        if not has_city(store, f"{stem}-{number}"):
            return f"{stem}-{number}"


def _name_of(file: str) -> str:
    """Return a name for the city of ``file``: that of the file, as far as it can be a folder's."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", PurePath(file.split(":")[-1]).stem).strip("-._")
    return stem or "city"
