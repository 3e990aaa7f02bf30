"""The commands of `mcvrp` and their options; what they do is imported when they run: help is fast."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from typer import Option

from mcvrp.flows.cli.app import Common, Outcome, app, arg, command, flag, group, opt
from mcvrp.flows.config.stages import STAGES
from mcvrp.model.errors import McvrpError

Text: TypeAlias = str | None
Number: TypeAlias = int | None
Range: TypeAlias = tuple[int, int] | None
_NoPrefect = Annotated[bool, flag("--no-prefect", "run without a Prefect server, which records the run")]
_Columns = Annotated[list[str], opt("FIELD=NAME", 'name of a column, such as id="Code client"')]
_Unrounded = Annotated[bool, flag("--unrounded", "do not round the EUC_2D costs of a .vrp")]
_Model = Annotated[str, arg("MODEL", "name of the model")]
_Folder = Annotated[str, arg("FOLDER", "folder of the exported model")]
_Why = Annotated[Text, opt("TEXT", "reason, kept in the model's history")]


def _stage(name: str, common: Common, no_prefect: bool, **options: str | None) -> Outcome:
    from mcvrp.flows.cli.stage import run_stage

    return run_stage(STAGES[name], common, recorded=not no_prefect, **options)


def _stage_command(name: str) -> None:
    @command(app, STAGES[name].text, STAGES[name].command, pipeline=True)
    def run(common: Common, no_prefect: _NoPrefect = False) -> Outcome:
        return _stage(name, common, no_prefect)


_stage_command("pipeline")
_stage_command("label")


@command(app, STAGES["train"].text, pipeline=True)
def train(
    common: Common,
    phase: Annotated[Text, opt(None, "train only this phase, such as II-A")] = None,
    no_prefect: _NoPrefect = False,
) -> Outcome:
    return _stage("train", common, no_prefect, phase=phase)


_stage_command("attention")


@command(app, STAGES["benchmark"].text, pipeline=True)
def benchmark(
    common: Common,
    instances: Annotated[Text, arg("[FOLDER]", "CVRPLIB instances (.vrp) with their .sol")] = None,
    no_prefect: _NoPrefect = False,
) -> Outcome:
    if instances is None:
        return _stage("benchmark", common, no_prefect)
    from mcvrp.flows.cli.stage import benchmark_files

    return benchmark_files(common, instances)


_stage_command("nightly")
_stage_command("improve")


@command(app, "estimate the cost of a run")
def plan(
    common: Common,
    core_price: Annotated[float | None, opt("MONEY", "price of a core-hour")] = None,
    gpu_price: Annotated[float | None, opt("MONEY", "price of a GPU-hour")] = None,
) -> Outcome:
    from mcvrp.flows.cli.plan import plan_run

    return plan_run(common, core_price, gpu_price)


_city = group("city", "create, import or extend a city")


@dataclass(frozen=True, kw_only=True)
class NewAddresses:
    """Addresses and their costs, for `mcvrp city import` and `extend`."""

    file: Annotated[str, arg("FILE", "addresses; store:PATH for a file in the store")]
    matrix: Annotated[Text, opt("FILE", "travel costs: .npy, or a table with from, to, cost")] = None
    spare: Annotated[Number, opt("K", "output classes reserved for future addresses")] = None
    columns: _Columns = field(default_factory=list)
    dates: Annotated[Text, opt("day-first|month-first", "order of day and month in dates: 02/11/2026")] = None


@command(_city, STAGES["city"].text)
def create(common: Common) -> Outcome:
    from mcvrp.flows.cli.city import create_city

    return create_city(common)


@command(_city, "import addresses as a city: CSV, Excel, Parquet, or a CVRPLIB .vrp", "import")
def import_(
    common: Common,
    new: NewAddresses,
    name: Annotated[Text, opt(None, "name of the city (default: the file's)")] = None,
    depot: Annotated[Text, opt("ID", "id of the depot (default: the row with depot = 1)")] = None,
    unit: Annotated[Text, opt(None, "unit of a cost of 1 (default: m); for lat, lon: m, km or mi")] = None,
    demand: Annotated[Range, opt("LO HI", "range of demands (default: the paper's)")] = None,
    capacity: Annotated[Range, opt("LO HI", "range of capacities (default: the paper's)")] = None,
    history: Annotated[Text, opt("FILE", "past orders, from which the ranges are derived")] = None,
    unrounded: _Unrounded = False,
    far: Annotated[bool, flag("--far", "accept addresses that are far outside of the others")] = False,
) -> Outcome:
    from mcvrp.flows.cli.city import import_city

    own = {"depot": depot, "unit": unit, "demand": demand, "capacity": capacity, "history": history}
    return import_city(common, new, name, **own, unrounded=unrounded or None, far=far or None)


@command(_city, "add addresses to a city; its labels and models stay valid")
def extend(
    common: Common,
    city: Annotated[str, arg("CITY", "name of the city")],
    new: NewAddresses,
    name: Annotated[str, opt(None, "name of the new city")],
) -> Outcome:
    from mcvrp.flows.cli.city import extend_city

    return extend_city(common, city, new, name)


@command(group("preset", "write a preset for a city of the store"), "write NAME.toml, a preset for a city")
def new(
    common: Common,
    name: Annotated[str, arg("NAME", "name of the preset, its labels and model")],
    city: Annotated[Text, opt("NAME", "name of the city (default: NAME)")] = None,
    sizes: Annotated[Range, opt("LO HI", "customers per day (default: those of driven days)")] = None,
) -> Outcome:
    from mcvrp.flows.cli.preset import new_preset

    return new_preset(common, name, city, sizes)


@command(app, "describe artifacts of the store")
def inspect(
    common: Common,
    path: Annotated[Text, arg("[PATH]", "artifact, MODEL@VERSION, file or folder (default: all)")] = None,
    draw: Annotated[Range, opt("N I", "draw instance (n, i) of the dataset")] = None,
    out: Annotated[Text, opt("FILE", "picture to write, with --draw")] = None,
) -> Outcome:
    from mcvrp.flows.cli import inspect
    from mcvrp.flows.cli.output import reading

    if draw:
        return inspect.draw(reading(common), path or "", *draw, out)
    if out:
        raise McvrpError("--out is the picture of --draw N I: give both, or neither")
    return inspect.inspect(reading(common), path or "")


@command(app, "verify every label of a dataset", pipeline=True)
def verify(
    common: Common,
    dataset: Annotated[Text, arg("[DATASET]", "name (default: the preset's)")] = None,
    delete: Annotated[bool, flag("--delete", "remove bad files (default: report only)")] = False,
) -> Outcome:
    from mcvrp.flows.cli.verify import verify_labels

    return verify_labels(common, dataset, delete=delete)


@command(app, "list unused artifacts; --delete removes them")
def gc(
    common: Common,
    delete: Annotated[bool, flag("--delete", "remove the listed artifacts (default: list only)")] = False,
) -> Outcome:
    from mcvrp.flows.cli.models import clean_store

    return clean_store(common, delete=delete)


_models = group("models", "list, show, export or import models")


@command(_models, "list all models with their versions", "list")
def list_(common: Common) -> Outcome:
    from mcvrp.flows.cli.models import list_models

    return list_models(common)


@command(_models, "show the versions of a model")
def show(common: Common, model: _Model) -> Outcome:
    from mcvrp.flows.cli.models import list_models

    return list_models(common, model)


@command(_models, "write a version and its city to a self-contained folder")
def export(
    common: Common,
    model: Annotated[str, arg("MODEL[@VERSION]", "version to export (default: the champion)")],
    folder: _Folder,
    city: Annotated[Text, opt("NAME", "its city, if several have the same places")] = None,
) -> Outcome:
    from mcvrp.flows.cli.models import export_model

    return export_model(common, model, folder, city)


@command(_models, "publish an exported model as the next version", "import")
def import_model(
    common: Common,
    folder: _Folder,
    name: Annotated[Text, opt(None, "name of the imported model (default: its original name)")] = None,
) -> Outcome:
    from mcvrp.flows.cli.models import publish_folder

    return publish_folder(common, folder, name)


@command(
    group("driven", "remove a driven day that was read from a wrong file"),
    "remove a day and the labels made from it; the next night reads its corrected file",
)
def remove(
    common: Common,
    day: Annotated[str, arg("DAY", "date of the day, such as 2026-01-31")],
    city: Annotated[Text, opt("NAME", "name of the city (default: the preset's)")] = None,
) -> Outcome:
    from mcvrp.flows.cli.driven import remove_driven

    return remove_driven(common, day, city)


@command(app, "make a version the champion of its model")
def promote(
    common: Common,
    model: _Model,
    version: Annotated[str, arg("VERSION", "version number, or challenger")],
    why: _Why = None,
) -> Outcome:
    from mcvrp.flows.cli.models import promote_version
    from mcvrp.flows.cli.output import writing

    return promote_version(writing(common), model, version, why)


@command(app, "restore the previous champion")
def rollback(
    common: Common,
    model: Annotated[Text, arg("[MODEL]", "name (default: the preset's)")] = None,
    why: _Why = None,
) -> Outcome:
    from mcvrp.flows.cli.models import roll_back_champion

    return roll_back_champion(common, model, why)


@dataclass(frozen=True, kw_only=True)
class Day:
    """Options of `mcvrp solve`; those that are not given may be set by a preset."""

    orders: Annotated[str, arg("ORDERS", "CSV, Excel, Parquet or .vrp: a file, s3:// URI, or store:PATH")]
    capacity: Annotated[Number, opt("C", "capacity of a vehicle (default: of the orders or the city)")] = None
    city: Annotated[Text, opt("NAME", "default: of --preset, or the only one with all customers")] = None
    date: Annotated[Text, opt("DATE", "date of the day, in files of several days the orders of it")] = None
    columns: _Columns = field(default_factory=list)
    fleet: Annotated[Number, opt("K", "maximum number of vehicles (default: unlimited)")] = None
    longest_route: Annotated[Text, opt("LENGTH", "maximum cost of a route, such as 45km")] = None
    shift: Annotated[Text, opt("DURATION", "maximum duration of a route with its stops, such as 8h")] = None
    service: Annotated[Text, opt("DURATION", "service time of an order such as 3min; with --shift")] = None
    drop: Annotated[bool, flag("--drop", "leave out customers for whom there is no room")] = False
    keep: Annotated[Text, opt("ROUTES", "decided routes, or their first stops")] = None
    unrounded: _Unrounded = False
    model: Annotated[Text, opt("NAME|FOLDER", "name (default: preset's, or the only one), or folder")] = None
    version: Annotated[Text, opt("N|champion|latest", "default: the champion, otherwise the latest")] = None
    by: Annotated[Text, opt("auto|model|SOLVER", "search by all (auto) or by one of them alone")] = None
    samples: Annotated[Number, opt("S", "number of the model's samples; 0: no model")] = None
    time_limit: Annotated[float | None, opt("SECONDS", "time limit, start-up included (default: 10)")] = None
    start: Annotated[Text, opt("ROUTES", "initial routes")] = None
    seed: Annotated[Number, opt("N", "random seed (default: 0)")] = None
    out: Annotated[Text, opt("FOLDER", "output folder (default: ./routes/NAME OF THE ORDERS-HASH)")] = None
    overwrite: Annotated[bool, flag("--overwrite", "replace routes of other orders in the folder")] = False


@command(app, "route a day's orders")
def solve(common: Common, day: Day) -> Outcome:
    from mcvrp.flows.cli.solve import solve_and_write

    return solve_and_write(common, day)


@command(app, "start the Prefect server and UI; Ctrl-C stops them", pipeline=True)
def ui(
    common: Common,
    port: Annotated[int, Option(min=1, max=65535, help="port of the UI")] = 4200,
) -> Outcome:
    import contextlib

    from mcvrp.flows.cli.output import writing
    from mcvrp.flows.server.ui import serve_stages

    with contextlib.suppress(KeyboardInterrupt):  # the regular end
        serve_stages(common.preset, common.overrides, writing(common), port)
    return Outcome({"stopped": True}, "stopped: finished work is kept")
