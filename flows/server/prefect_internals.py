"""Private interfaces of Prefect that mcvrp uses or replaces, all of them, as read in Prefect 3.8.8.

Each is used because no setting, hook or public method of that version does the same; the reasons are below.
What is replaced is replaced inside a context manager, which restores it.
`tests/unit/test_private_interfaces.py` lists the names and fails when a Prefect release changes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Any

from prefect import Flow, flow_engine
from prefect._internal.control_listener import configure_from_env, get_intent
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.workers import process


def listen_for_cancellation() -> None:
    """Take the address at which the worker announces that a run is cancelled from the environment.

    `python -m prefect.engine` begins with this call. Without it a cancelled run would be on record as
    crashed: the engine could not tell the worker's SIGTERM from any other.
    """
    configure_from_env()


def was_cancelled() -> bool:
    """Return whether this run was interrupted because it has been cancelled."""
    return get_intent() == "cancel"


@contextmanager
def lost_slots_tolerated() -> Iterator[None]:
    """Let a run continue without its slot in the concurrency limit of its deployment.

    The engine hard-codes ``raise_on_lease_renewal_failure=True``: it ends a run whose slot cannot be renewed
    every four minutes, so that restarting the Prefect server would end all deployed runs. Two runs that
    overlap afterwards exclude each other by the leases in the store.
    """
    maintain = flow_engine.maintain_concurrency_lease  # type: ignore[attr-defined]

    def tolerant(*args: Any, **options: Any) -> AbstractContextManager[None]:
        return maintain(*args, **(options | {"raise_on_lease_renewal_failure": False}))

    flow_engine.maintain_concurrency_lease = tolerant  # type: ignore[attr-defined, assignment]
    try:
        yield
    finally:
        flow_engine.maintain_concurrency_lease = maintain  # type: ignore[attr-defined]


@contextmanager
def no_flow_for_hooks() -> Iterator[None]:
    """Have a worker load no flow to run the hooks of a run that it has cancelled or found dead.

    Prefect's worker would import whatever code the deployment names, pull steps included, in the worker's own
    process: anybody who can open the UI could run any program there. Flows of mcvrp have no such hooks.
    """
    load = process.load_flow_from_flow_run  # type: ignore[attr-defined]
    process.load_flow_from_flow_run = _load_nothing  # type: ignore[attr-defined]
    try:
        yield
    finally:
        process.load_flow_from_flow_run = load  # type: ignore[attr-defined]


async def _load_nothing(*_: Any, **__: Any) -> Flow[Any, Any]:
    return Flow(lambda: None, name="without-hooks")


@contextmanager
def transactions_lock_first() -> Iterator[None]:
    """Have each transaction lock SQLite before it reads, and wait for the lock up to Prefect's minute.

    By default a transaction reads and then writes. SQLite refuses the write at once, "database is locked", if
    anything was written in between: no timeout applies. Prefect answers such a request with 503. It tries an
    event for an automation again at most three times, with a traceback each, and drops it: the automation
    would take a run that has ended for one that is silent.
    """
    # Imported here: it takes half a second, and only servers need it.
    from prefect.server.database.configurations import AioSqliteConfiguration

    begin: Any = AioSqliteConfiguration.begin_transaction

    def locking(self: Any, session: Any, with_for_update: bool = False) -> AbstractAsyncContextManager[Any]:
        return begin(self, session, with_for_update=True)

    AioSqliteConfiguration.begin_transaction = locking  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        AioSqliteConfiguration.begin_transaction = begin  # type: ignore[method-assign]


def drain(seconds: float) -> None:
    """Send queued events and logs for ``seconds`` and drop the rest.

    The public `drain_all` returns after its timeout, but the interpreter waits at exit for the threads that
    send: if the server is away, for as long as they have attempts left, a quarter of an hour and more.
    Setting their done events makes that wait end at once.
    """
    kinds: tuple[Any, ...] = (EventsWorker, APILogWorker)
    for kind in kinds:
        services = list(kind._instances.values())  # before draining, which empties the table
        kind.drain_all(timeout=seconds)
        for service in services:
            service._loop.call_soon_threadsafe(service._done_event.set)
