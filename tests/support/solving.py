"""A store in which days can be routed: a small city, and models of it that have learnt nothing."""

from __future__ import annotations

import datetime
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from ray.exceptions import WorkerCrashedError
from safetensors.torch import save

from mcvrp.model.network import FmMcvrp, NetworkConfig
from mcvrp.model.problem import City
from mcvrp.storage import layout
from mcvrp.storage.cities import save_city, stored_city
from mcvrp.storage.models.models import ModelCard
from mcvrp.storage.models.registry import enrol
from mcvrp.storage.store.store import Store
from mcvrp.tasks.benchmark.part import Task, WorkerContext, solve_part
from mcvrp.tasks.solve.day import Solved, solve_day
from mcvrp.tasks.solve.plan import Planned, Request, plan_day
from mcvrp.tasks.solve.spec import Order, SolveSpec

CITY = City.uniform(40, seed=5)


def one_way_city() -> City:
    costs = CITY.costs(np.arange(len(CITY.xy)))
    costs = costs * np.random.default_rng(0).uniform(1, 1.5, costs.shape)
    return City(CITY.xy, matrix=costs, unit="min")


def put_model(store: Store, name: str, city: City, version: int = 1, *, alias: bool = True) -> ModelCard:
    """Write a model of random weights for ``city``; with ``alias`` it is champion or challenger."""
    torch.manual_seed(version)
    config = NetworkConfig(city.classes, dim=16, heads=2, encoder_layers=1, decoder_layers=1, ff=16)
    data = save(FmMcvrp(config).state_dict())
    sha = hashlib.sha256(data).hexdigest()
    card = ModelCard(
        name, version, city.city_id, asdict(config), "r", "d", "f", True, {}, len(data), sha, 20, 24
    )
    store.put(f"{card.folder}/model.safetensors", data)
    store.put_json(layout.model_card(name, version), asdict(card))
    if alias:
        enrol(store, name, version)
    return card


def put_day(store: Store) -> None:
    save_city(store, "small", CITY)
    put_model(store, "small", CITY)


def day_plan(
    store: Store,
    demands: dict[int, int] | str,
    capacity: int | None = 20,
    *,
    city: str | None = "small",
    model: str | None = "small",
    date: datetime.date | None = None,
    keep: str | None = None,
    **spec: Any,
) -> Planned:
    """Return the plan of a day: a file, or demands by the number of the customer in the city."""
    if isinstance(demands, str):
        orders: str | list[Order] = demands
    else:
        ids = stored_city(store, city or "").addresses.ids
        orders = [Order(customer=ids[node], demand=demand) for node, demand in demands.items()]
    checked = SolveSpec.model_validate({"threads": 1} | spec)  # other tests need the cores, too
    return plan_day(store, Request(orders, city, model, capacity, keep, date), checked)


def solved_day(
    store: Store, demands: dict[int, int] | str, capacity: int | None = 20, **options: Any
) -> Solved:
    """Return the routes of a day, with the arguments of `day_plan`."""
    return solve_day(store, day_plan(store, demands, capacity, **options), time.monotonic())


def one_dies(which: int) -> Callable[..., Iterator[tuple[Task, Any]]]:
    """Return a `windowed` of benchmark parts in this process, where a worker dies on part ``which``."""

    def solved(
        _work: object, tasks: Iterable[Task], _workers: int, context: WorkerContext, *_: Store, **__: bool
    ) -> Iterator[tuple[Task, Any]]:
        for k, task in enumerate(tasks):
            yield task, WorkerCrashedError() if k == which else solve_part(task, context)

    return solved
