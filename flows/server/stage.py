"""Declaration of flows and tasks: checked parameters, records, one-sentence errors, retries."""

from __future__ import annotations

import contextlib
import functools
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, cast

from prefect import Flow
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger
from prefect.states import Failed

from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import log_to_prefect, one_line, redact
from mcvrp.flows.config.parameters import of_worker, parameters_of, parsed
from mcvrp.flows.config.preflight import is_checked
from mcvrp.flows.server.records import flow_hooks, task_hooks
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.store.errors import StoreSilent
from mcvrp.storage.store.store import Store

RETRIES = 1
RETRY_SECONDS = 2.0
HOUR = 3600.0
DAY = 24 * HOUR
_MOST_CHARACTERS = 300  # characters of an unexpected error in a run's state
_TRY_AGAIN = "the run's logs have the whole story; started again, it keeps what is finished"

P = ParamSpec("P")
R = TypeVar("R")


def stage(
    name: str, run_name: str | Callable[..., str], *, timeout: float
) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """Declare a flow that takes specs and says in a sentence what is wrong.

    What it is called with is checked by us, not by Prefect, so that a person reads in the run's
    state what the command would have said. A `McvrpError` fails the run with its message alone;
    of any other error the traceback is in the run's logs.

    Parameters
    ----------
    run_name
        Of its runs, with the arguments in braces: "label {label.dataset}"; or what makes it of them.
    timeout
        Seconds after which a run is ended as failed.
    """

    def declare(body: Callable[P, R]) -> Flow[P, R]:
        model = parameters_of(body)

        def named() -> str:
            context = FlowRunContext.get()
            try:
                values = parsed(model, context.parameters or {} if context else {})
                return run_name(**values) if callable(run_name) else run_name.format(**values)
            except McvrpError:
                return f"{name}, refused"

        @functools.wraps(body)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            log_to_prefect()
            try:
                given = dict(zip(model.model_fields, args, strict=False)) | kwargs
                values = parsed(model, given)
                return cast(Callable[..., R], body)(**(of_worker(values) if _deployed() else values))
            except McvrpError as error:  # returned, not raised: Prefect would log a traceback
                return cast(R, Failed(message=one_line(error), data=error))
            except Exception as error:
                return cast(R, Failed(message=_unexpected(error), data=error))

        hooks: dict[str, Any] = flow_hooks()
        return Flow(
            checked,
            name=name,
            flow_run_name=named,
            timeout_seconds=timeout,
            validate_parameters=False,  # we do, in `checked`: the sentence is that of the command
            persist_result=False,  # it is in the store; Prefect would pickle it
            **hooks,
        )

    return declare


def _unexpected(error: Exception) -> str:
    """Log the traceback with the run; return what its state says."""
    with contextlib.suppress(MissingContextError):  # a test calls the bare function
        get_run_logger().error(redact("".join(traceback.format_exception(error))))
    return f"unexpected {type(error).__name__}: {one_line(error)[:_MOST_CHARACTERS]}: {_TRY_AGAIN}"


def task_options() -> dict[str, Any]:
    """Return what every task is declared with: presence in the store means done, not Prefect's cache."""
    return {"cache_policy": NO_CACHE, **task_hooks()}


def resuming_task_options() -> dict[str, Any]:
    """Return the options of a task that goes on from what it finds: tried again when it was cut off."""
    return {
        **task_options(),
        "retries": RETRIES,
        "retry_delay_seconds": RETRY_SECONDS,
        "retry_condition_fn": was_cut_off,
    }


def was_cut_off(task: Any, run: Any, state: Any) -> bool:
    """Return whether a task ended early through no fault of its input: a lost worker, a failed network."""
    try:
        state.result()
    except Exception as error:
        return isinstance(error, IncompleteError | OSError) and not isinstance(error, StoreSilent)
    return False


def _deployed() -> bool:
    """Return whether a worker was asked for the running flow; not for a stage of that flow."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    # of what the server says of a run nothing counts here: whoever asks for a run says it
    return run is not None and str(run.id) == settings.worked_run()


def open_store(uri: str | None) -> Store:
    """Return the store of a flow, outlasting silence; without ``uri`` the one that the environment names.

    It is tried now, and has to answer at once, unless whoever began this flow has tried it.
    """
    address = settings.store_uri(uri)
    return (Store.at(address) if is_checked() else Store.open(address)).outlasting()


class Clock:
    """Seconds that a stage took."""

    seconds: float = 0.0


@contextmanager
def clock() -> Iterator[Clock]:
    """Measure the wall-clock time of the context."""
    measured, began = Clock(), time.monotonic()
    try:
        yield measured
    finally:
        measured.seconds = time.monotonic() - began
