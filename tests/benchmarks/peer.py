"""One process of another solver: python peer.py NAME FILE.vrp SECONDS SEED THREADS prints its routes as JSON.

It runs in the environment of peers.txt, without mcvrp. SECONDS are for the search alone: imports, reading the
file and building the model are not counted, which favours it over `mcvrp solve`.
"""

from __future__ import annotations

import json
import math
import sys
import time
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import numpy as np
import vrplib

Routes = list[list[int]]  # customers are 1 to n
_MORE_VEHICLES = 1.2  # times what the demands need; best known solutions of set X have at most 1.13


def _vehicles(vrp: dict[str, Any]) -> int:
    return math.ceil(_MORE_VEHICLES * math.ceil(vrp["demand"].sum() / vrp["capacity"]))


def _costs(vrp: dict[str, Any]) -> Any:
    return np.floor(vrp["edge_weight"] + 0.5).astype(np.int64)


def by_hgs(file: str, seconds: float, seed: int, threads: int) -> tuple[Routes, float]:
    """Return routes of HGS-CVRP by its defaults, on one core; it begins anew if it ends before."""
    import hybgensea

    vrp = vrplib.read_instance(file)
    x, y = vrp["node_coord"].astype(float).T.copy()
    quiet = {"verbose": False, "extract_all_feasible": False}
    began = time.perf_counter()
    result = hybgensea.solve_cvrp(
        x, y, vrp["demand"].astype(float), float(vrp["capacity"]), seed=seed, timeLimit=seconds, **quiet
    )
    return [list(map(int, route)) for route in result.routes], time.perf_counter() - began


def by_pyvrp(file: str, seconds: float, seed: int, threads: int) -> tuple[Routes, float]:
    """Return routes of PyVRP by its defaults, on one core."""
    import pyvrp

    data = pyvrp.read(file, round_func="round")
    began = time.perf_counter()
    result = pyvrp.solve(data, pyvrp.stop.MaxRuntime(seconds), seed=seed, display=False)
    took = time.perf_counter() - began
    if not result.is_feasible():
        return [], took
    best = result.best.routes()
    return [[1 + stop.idx for stop in route.schedule() if stop.is_client()] for route in best], took


def by_ortools(file: str, seconds: float, seed: int, threads: int) -> tuple[Routes, float]:
    """Return routes of OR-Tools: savings, then guided local search, on one core.

    It is deterministic: all but the first seed permute the customers.
    """
    from ortools.constraint_solver import pywrapcp, routing_enums_pb2

    vrp = vrplib.read_instance(file)
    customers = np.arange(1, len(vrp["demand"]))
    order = np.r_[0, customers if seed == 1 else np.random.default_rng(seed).permutation(customers)]
    manager = pywrapcp.RoutingIndexManager(len(order), _vehicles(vrp), 0)
    routing = pywrapcp.RoutingModel(manager)
    transit = routing.RegisterTransitMatrix(_costs(vrp)[np.ix_(order, order)].tolist())
    routing.SetArcCostEvaluatorOfAllVehicles(transit)
    load = routing.RegisterUnaryTransitVector(vrp["demand"][order].tolist())
    routing.AddDimension(load, 0, vrp["capacity"], True, "load")
    parameters = pywrapcp.DefaultRoutingSearchParameters()
    parameters.first_solution_strategy = routing_enums_pb2.FirstSolutionStrategy.SAVINGS
    parameters.local_search_metaheuristic = routing_enums_pb2.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
    parameters.time_limit.FromMilliseconds(round(1000 * seconds))
    began = time.perf_counter()
    solution = routing.SolveWithParameters(parameters)
    took = time.perf_counter() - began
    routes: Routes = []
    for vehicle in range(routing.vehicles() if solution else 0):
        index, route = solution.Value(routing.NextVar(routing.Start(vehicle))), []
        while not routing.IsEnd(index):
            route.append(int(order[manager.IndexToNode(index)]))
            index = solution.Value(routing.NextVar(index))
        routes += [route] if route else []
    return routes, took


def by_vroom(file: str, seconds: float, seed: int, threads: int) -> tuple[Routes, float]:
    """Return routes of VROOM, exploration level 5; it is deterministic, and may end before the time limit."""
    import vroom

    vrp = vrplib.read_instance(file)
    problem = vroom.Input()
    problem.set_durations_matrix("car", _costs(vrp))
    capacity = [int(vrp["capacity"])]
    for vehicle in range(_vehicles(vrp)):
        problem.add_vehicle(vroom.Vehicle(vehicle, start=0, end=0, capacity=capacity))
    for customer, demand in enumerate(vrp["demand"].tolist()[1:], start=1):
        problem.add_job(vroom.Job(customer, location=customer, delivery=vroom.Amount([demand])))
    began = time.perf_counter()
    solution = problem.solve(5, nb_threads=threads, timeout=timedelta(seconds=seconds)).to_dict()
    took = time.perf_counter() - began
    if solution["unassigned"]:
        return [], took
    steps = [route["steps"] for route in solution["routes"]]
    return [[step["id"] for step in route if step["type"] == "job"] for route in steps], took


def main() -> None:
    """Print routes (none if the solver found no feasible ones), seconds of the search, and the program."""
    name, file, seconds, seed, threads = sys.argv[1:]
    solver, package = {
        "hgs": (by_hgs, "hybgensea"),
        "pyvrp": (by_pyvrp, "pyvrp"),
        "ortools": (by_ortools, "ortools"),
        "vroom": (by_vroom, "pyvroom"),
    }[name]
    routes, took = solver(file, float(seconds), int(seed), int(threads))
    print(json.dumps({"routes": routes, "search": took, "program": f"{package} {version(package)}"}))


if __name__ == "__main__":
    main()
