"""Commands that run stages, plan, inspect and route; what they do is imported when they run: help is fast."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from typer import Option

from mcvrp.flows.cli.app import (
    Columns,
    Common,
    Number,
    Outcome,
    Range,
    Sheet,
    Text,
    Unrounded,
    WithPreset,
    app,
    arg,
    command,
    flag,
    group,
    opt,
)
from mcvrp.flows.config.stages import STAGES

_NoPrefect = Annotated[bool, flag("--no-prefect", "run without a Prefect server, which records the run")]


def _stage_command(name: str) -> None:
    @command(app, STAGES[name].text, STAGES[name].command, pipeline=True)
    def run(common: WithPreset, no_prefect: _NoPrefect = False) -> Outcome:
        from mcvrp.flows.cli.stage import run_stage

        return run_stage(STAGES[name], common, recorded=not no_prefect)


for _name in ("pipeline", "label", "train", "attention", "benchmark", "nightly"):
    _stage_command(_name)


@command(app, "estimate the cost of a run")
def plan(common: WithPreset) -> Outcome:
    from mcvrp.flows.cli.plan import plan_run

    return plan_run(common)


_preset = group("preset", "list presets, write one for a city, describe the fields")


@command(_preset, "list the included presets", "list")
def presets(common: Common) -> Outcome:
    from mcvrp.flows.config.preset import described_presets

    found = described_presets()
    return Outcome(found, "\n".join(f"{name:10}{text}" for name, text in found.items()))


@command(_preset, "write NAME.toml, a preset for a city")
def new(
    common: WithPreset,
    name: Annotated[str, arg("NAME", "name of the preset, its labels and model")],
    city: Annotated[Text, opt("NAME", "name of the city (default: NAME)")] = None,
    sizes: Annotated[Range, opt("LO HI", "customers per day (default: those of driven days)")] = None,
) -> Outcome:
    from mcvrp.flows.cli.preset import new_preset

    return new_preset(common, name, city, sizes)


@command(_preset, "describe the fields of a preset")
def fields(
    common: Common,
    path: Annotated[Text, arg("[SECTION]", "section or field, such as train.phases (default: all)")] = None,
) -> Outcome:
    from mcvrp.flows.config.fields import described

    found = described(path or "")
    return Outcome([field._asdict() for field in found], "\n".join(map(str, found)))


@command(app, "describe artifacts of the store")
def inspect(
    common: Common,
    path: Annotated[Text, arg("[PATH]", "artifact, MODEL@VERSION, file or folder (default: all)")] = None,
) -> Outcome:
    from mcvrp.flows.cli import inspect
    from mcvrp.flows.cli.output import reading

    return inspect.inspect(reading(common), path or "")


@dataclass(frozen=True, kw_only=True)
class Day:
    """Options of `mcvrp solve`; those that are not given may be set by a preset."""

    orders: Annotated[str, arg("ORDERS", "CSV, Excel, Parquet or .vrp: a file, s3:// URI, or store:PATH")]
    capacity: Annotated[Number, opt("C", "capacity of a vehicle (default: of the orders or the city)")] = None
    city: Annotated[Text, opt("NAME", "city (default: of --preset, or the only one of the store)")] = None
    date: Annotated[Text, opt("DATE", "date of the day, in files of several days the orders of it")] = None
    columns: Columns = field(default_factory=list)
    sheet: Sheet = None
    fleet: Annotated[Number, opt("K", "maximum number of vehicles (default: unlimited)")] = None
    longest_route: Annotated[Text, opt("LENGTH", "maximum cost of a route, such as 45km")] = None
    shift: Annotated[Text, opt("DURATION", "maximum duration of a route with its stops, such as 8h")] = None
    service: Annotated[Text, opt("DURATION", "service time of a stop such as 3min")] = None
    start_time: Annotated[Text, opt("HH:MM", "departure, for arrival times of costs in seconds")] = None
    drop: Annotated[bool, flag("--drop", "leave out customers for whom there is no room")] = False
    keep: Annotated[Text, opt("ROUTES", "decided routes, beside which the rest is planned")] = None
    unrounded: Unrounded = False
    roads: Annotated[Text, opt("URL|FILE", "OSRM server or extract of the city's costs, for the map")] = None
    model: Annotated[Text, opt("NAME", "name of the model (default: the preset's, or the only one)")] = None
    version: Annotated[Text, opt("N|champion|latest", "default: the champion, otherwise the latest")] = None
    by: Annotated[Text, opt("auto|model|SOLVER", "search by all (auto) or by one of them alone")] = None
    samples: Annotated[Number, opt("S", "number of the model's samples; 0: no model")] = None
    time_limit: Annotated[float | None, opt("SECONDS", "time limit, start-up included (default: 10)")] = None
    seed: Annotated[Number, opt("N", "random seed (default: 0)")] = None
    out: Annotated[Text, opt("FOLDER", "output folder (default: ./routes/NAME OF THE ORDERS-HASH)")] = None
    overwrite: Annotated[bool, flag("--overwrite", "replace routes of other orders or capacity")] = False


@command(app, "route a day's orders")
def solve(common: WithPreset, day: Day) -> Outcome:
    from mcvrp.flows.cli.solve import solve_and_write

    return solve_and_write(common, day)


@command(app, "start the Prefect server and UI; Ctrl-C stops them", pipeline=True)
def ui(
    common: WithPreset,
    port: Annotated[int, Option(min=1, max=65535, help="port of the UI")] = 4200,
) -> Outcome:
    import contextlib

    from mcvrp.flows.cli.output import writing
    from mcvrp.flows.server.deployments import serve_stages

    with contextlib.suppress(KeyboardInterrupt):  # the regular end
        serve_stages(common.preset, common.overrides, writing(common), port)
    return Outcome({"stopped": True}, "stopped: finished work is kept")
