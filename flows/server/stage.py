"""Declaration of flows and tasks: checked parameters, one-sentence errors, retries, outages of Prefect."""

from __future__ import annotations

import contextlib
import copy
import functools
import time
import traceback
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from prefect import Flow, tags
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import FlowRun, State, TaskRun
from prefect.context import FlowRunContext, TagsContext
from prefect.exceptions import MissingContextError
from prefect.flow_engine import run_flow
from prefect.logging import get_run_logger
from prefect.settings import (
    PREFECT_CLIENT_MAX_RETRIES,
    PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED,
    temporary_settings,
)
from prefect.states import Completed, Failed
from pydantic import BaseModel

from mcvrp.flows.config import settings
from mcvrp.flows.config.logs import lines, log_to_prefect, one_line, redact
from mcvrp.flows.config.parameters import of_worker, parameters_of, parsed
from mcvrp.flows.config.stages import STAGES
from mcvrp.flows.server.deployments import COMMAND_TAG
from mcvrp.flows.server.records import Records, is_outage
from mcvrp.model.errors import IncompleteError, McvrpError
from mcvrp.storage.cities import StoredCity, stored_city
from mcvrp.storage.store.errors import StoreSilent
from mcvrp.storage.store.store import Store

RETRIES = 1
RETRY_SECONDS = 2.0
HOUR = 3600.0
DAY = 24 * HOUR
BEGIN_SECONDS, PAUSE_SECONDS = 1800.0, 2.0  # longest wait of a stage in an outage, between attempts
_LONGEST_MESSAGE = 300  # characters of an unexpected error in the state of a run
_TRY_AGAIN = "the run's logs have the traceback; started again, the run keeps what is finished"

# Tasks of a stage that runs without a record: they ask the server nothing but its version.
_WITHOUT_SERVER = {PREFECT_CLIENT_MAX_RETRIES: 0, PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED: False}

P = ParamSpec("P")
R = TypeVar("R")


class StageFlow(Flow[P, R]):
    """Prefect flow that continues while the Prefect server is away, and notes its runs in `Records`.

    Prefect's client retries the requests of a run that has begun, five times in a minute by default; then
    Prefect's engine ends the run. It creates the run of a stage within another one without a retry.
    """

    records: Records | None = None

    def recorded_in(self, records: Records) -> StageFlow[P, R]:
        """Return this stage with ``records`` for its runs and for those of the stages that it calls."""
        stage = copy.copy(self)
        stage.records = records
        return stage

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:  # type: ignore[override]
        """Run the stage as a flow run of its own, noted in the records of the stage that calls it."""
        records = self.records or running_records() or Records()
        call = functools.partial(Flow.__call__, **kwargs)
        with contextlib.nullcontext() if settings.worked_run() else tags(COMMAND_TAG):
            return cast(
                R, self._run(records, lambda stage: call(stage, *args), lambda: self.fn(*args, **kwargs))
            )

    def run_deployed(self, run: FlowRun, records: Records) -> None:
        """Run the stage as the flow run ``run``, which a worker executes."""
        # Without a state the engine would raise the error of a failed run, and log it once more.
        engine = functools.partial(run_flow, flow_run=run, return_type="state")
        self._run(records, engine, lambda: cast(Callable[..., Any], self.fn)(**run.parameters))

    def _run(
        self, records: Records, run: Callable[[StageFlow[P, R]], Any], run_unrecorded: Callable[[], Any]
    ) -> Any:
        """Return what ``run`` returns; if the server is away, what the function of the stage returned.

        A stage that has not begun yet waits for the server, and is run without a record in the end.
        """
        outcomes: list[Any] = []
        stack = contextlib.ExitStack()

        @functools.wraps(self.fn)
        def noted(*args: P.args, **kwargs: P.kwargs) -> R:
            outcomes.append(outcome := self.fn(*args, **kwargs))
            context = FlowRunContext.get()
            if context and context.flow_run:
                records.add(context.flow_run, outcome)
            if records.given_up.is_set():  # for the engine, which reports the end of the run: no retries
                stack.enter_context(temporary_settings(_WITHOUT_SERVER))
            return outcome

        stage, until = self.recorded_in(records), time.monotonic() + BEGIN_SECONDS
        stage.fn = noted
        with stack:
            while not outcomes:
                try:
                    return run(stage)
                except Exception as error:
                    # The function of a stage raises nothing: a request of the engine has failed.
                    if not is_outage(error):
                        raise
                    records.report_outage(error)
                if outcomes:
                    break
                if records.given_up.is_set() or time.monotonic() > until:
                    records.given_up.set()  # the stages after this one do not wait again
                    with temporary_settings(_WITHOUT_SERVER):
                        outcomes.append(run_unrecorded())
                else:
                    time.sleep(PAUSE_SECONDS)
        return outcomes[-1].result() if isinstance(outcomes[-1], State) else outcomes[-1]


def stage(
    name: str, run_name: str | Callable[..., str], *, timeout: float
) -> Callable[[Callable[P, R]], StageFlow[P, R]]:
    """Declare a flow that takes specs and reports errors in one sentence.

    Parameters are validated here instead of by Prefect, so that the state of a run has the same message as
    the command line. A `McvrpError` fails the run with its message alone; the traceback of any other error is
    in the logs of the run. ``run_name`` is a template of the arguments, "label {label.dataset}", or a
    function of them; ``timeout`` is in seconds.
    """

    def declare(body: Callable[P, R]) -> StageFlow[P, R]:
        model = parameters_of(body)

        def named() -> str:
            context = FlowRunContext.get()
            try:
                values = parsed(model, context.parameters or {} if context else {})
                return run_name(**values) if callable(run_name) else run_name.format(**values)
            except McvrpError:
                return f"{name}, refused"

        return StageFlow(
            _checked(name, body, model),
            name=name,
            flow_run_name=named,
            timeout_seconds=timeout,
            validate_parameters=False,  # `_checked` does
            persist_result=False,  # results are in the store; Prefect would pickle them
        )

    return declare


def _checked(name: str, body: Callable[P, R], model: type[BaseModel]) -> Callable[P, R]:
    """Return ``body`` with its parameters validated by ``model``, and errors returned as failed states.

    The last lines in the log of a run are its result; what it lacks is the message of its state, too.
    """

    @functools.wraps(body)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        log_to_prefect()
        try:
            values = parsed(model, dict(zip(model.model_fields, args, strict=False)) | kwargs)
            # Without the tag of the run: a task with tags asks the server for a slot each time.
            with TagsContext(current_tags=set()):
                result = cast(Callable[..., R], body)(**(of_worker(values) if _deployed() else values))
            lacks = _log_result(name, result, values)
            return cast(R, Completed(message=redact(lacks), data=result)) if lacks else result
        except McvrpError as error:  # returned instead of raised: Prefect would log a traceback
            return cast(R, Failed(message="\n".join(lines(error)), data=error))
        except Exception as error:
            return cast(R, Failed(message=_unexpected(error), data=error))

    return checked


def _log_result(name: str, result: object, parameters: dict[str, Any]) -> str:
    """Log the figures of ``result``, where it is, and as a warning what it lacks, with the run alone.

    Returns what it lacks. The command prints the same on its terminal.
    """
    if (stage := STAGES.get(name)) is None:  # of a test
        return ""
    store, lacks = Store.at(settings.store_uri(parameters.get("store"))), str(stage.summary("lacks", result))
    with contextlib.suppress(MissingContextError):  # a test calls the bare function
        log = get_run_logger()
        if figures := stage.figures_in(store, result, parameters):
            log.info("\n".join(["result:", *(f"{title}: {value}" for title, value in figures.items())]))
        if lacks:
            log.warning(lacks)
    return lacks


def _unexpected(error: Exception) -> str:
    """Log the traceback with the run; return the message of its state."""
    with contextlib.suppress(MissingContextError):  # a test calls the bare function
        get_run_logger().error(redact("".join(traceback.format_exception(error))))
    return f"unexpected {type(error).__name__}: {one_line(error)[:_LONGEST_MESSAGE]}: {_TRY_AGAIN}"


def running_records() -> Records | None:
    """Return the records of the running stage; None outside of one."""
    context = FlowRunContext.get()
    flow = context.flow if context else None
    return flow.records if isinstance(flow, StageFlow) else None


def _add_to_records(task: Any, task_run: TaskRun, state: State[Any]) -> None:
    """Add a task run that has ended to the records of its stage; a state hook of Prefect."""
    if records := running_records():
        records.add(task_run, state)


TASK_OPTIONS: dict[str, Any] = {
    # done means that the output is in the store: Prefect's cache would not know that it was removed
    "cache_policy": NO_CACHE,
    "on_completion": [_add_to_records],
    "on_failure": [_add_to_records],
}


def was_cut_off(task: Any, run: Any, state: Any) -> bool:
    """Return whether a task failed through no fault of its input: a lost worker, a failed network."""
    try:
        state.result()
    except Exception as error:
        # after StoreSilent, ten minutes of retries are over already
        return isinstance(error, IncompleteError | OSError) and not isinstance(error, StoreSilent)
    return False


# Options of a task that resumes from its own output: retried once if it was cut off.
RESUMING_TASK_OPTIONS: dict[str, Any] = {
    **TASK_OPTIONS,
    "retries": RETRIES,
    "retry_delay_seconds": RETRY_SECONDS,
    "retry_condition_fn": was_cut_off,
}


def _deployed() -> bool:
    """Return whether a worker executes the running flow; false for the stages that this flow calls."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    # Nothing else that the server reports of the run is trusted here: whoever requests a run writes it.
    return run is not None and str(run.id) == settings.worked_run()


def open_store(uri: str | None) -> Store:
    """Return the store of a flow, which retries during outages; without ``uri`` that of the environment.

    The store has to answer now, at once, unless the command or flow that began this one has checked that.
    """
    address, records = settings.store_uri(uri), running_records()
    checked = records is not None and records.cities is not None
    return (Store.at(address) if checked else Store.open(address)).outlasting()


def inputs(
    check: Callable[..., None], uri: str | None, city: str, *specs: object
) -> tuple[Store, StoredCity]:
    """Return store and city of the running stage, after its preflight ``check`` unless that is done."""
    store, records = open_store(uri), running_records()
    cities = records.cities if records else None
    read = (cities or {}).get((store.uri, city)) or stored_city(store, city)
    if cities is None:
        check(store, read, *specs)
    return store, read
