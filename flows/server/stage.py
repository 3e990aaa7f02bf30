"""Declaration of flows and tasks: checked parameters, errors of one sentence.

Without a Prefect server, a flow and its tasks are the functions that they are made of.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from prefect import Flow, Task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger
from prefect.settings import PREFECT_API_URL
from prefect.states import Completed, Failed

from mcvrp.flows.config.logs import lines, log_to_prefect, mute, one_line, redact
from mcvrp.flows.config.stages import STAGES
from mcvrp.flows.config.validation import of_form, parameters_of, parsed
from mcvrp.flows.server.server import refusal_of
from mcvrp.model.errors import McvrpError

HOUR = 3600.0
DAY = 24 * HOUR
_INCOMPLETE = "Incomplete"  # name of a state
_TRY_AGAIN = "the run's logs have the traceback; started again, the run keeps what is finished"

P = ParamSpec("P")
R = TypeVar("R")


class StageFlow(Flow[P, R]):
    """Prefect flow that is the function ``plain`` if no Prefect server is configured."""

    plain: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:  # type: ignore[override]
        if FlowRunContext.get() is None and not PREFECT_API_URL.value():
            return self.plain(*args, **kwargs)
        try:
            return cast(R, cast(Any, super()).__call__(*args, **kwargs))
        except Exception as error:
            if refusal := refusal_of(error):
                raise refusal from error
            raise


class StageTask(Task[P, R]):
    """Prefect task that is its function outside of a flow run."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:  # type: ignore[override]
        if FlowRunContext.get() is None:
            return self.fn(*args, **kwargs)
        return cast(R, cast(Any, super()).__call__(*args, **kwargs))


def stage(
    name: str, run_name: str | Callable[..., str], *, timeout: float
) -> Callable[[Callable[P, R]], StageFlow[P, R]]:
    """Declare a flow that takes specs and reports errors in one sentence.

    Parameters are validated here instead of by Prefect, so that the state of a run has the same message as
    the command line. A `McvrpError` fails the run with its message alone; the traceback of any other error is
    in the logs of the run. A run whose result lacks something completes in a state of another name, which an
    automation can tell, with a message of what it lacks. ``run_name`` is a template of the arguments, "label
    {label.dataset}", or a function of them; ``timeout`` is in seconds.
    """

    def declare(body: Callable[P, R]) -> StageFlow[P, R]:
        model = parameters_of(body)

        def named() -> str:
            context = FlowRunContext.get()
            try:
                values = parsed(model, _given(context.parameters or {}) if context else {})
                return run_name(**values) if callable(run_name) else run_name.format(**values)
            except McvrpError:
                return f"{name}, refused"

        @functools.wraps(body)
        def plain(*args: P.args, **kwargs: P.kwargs) -> R:
            given = dict(zip(model.model_fields, args, strict=False)) | kwargs
            return cast(Callable[..., R], body)(**parsed(model, _given(given)))

        @functools.wraps(body)
        def reported(*args: P.args, **kwargs: P.kwargs) -> R:
            log_to_prefect()
            try:
                result = plain(*args, **kwargs)
                lacks = str(STAGES[name].summary("lacks", result)) if name in STAGES else ""  # none of a test
                if not lacks:
                    return result
                return cast(R, Completed(name=_INCOMPLETE, message=redact(lacks), data=result))
            except Exception as error:  # returned instead of raised: Prefect would log a traceback
                mute(error)
                known = isinstance(error, McvrpError)
                message = "\n".join(lines(error)) if known else _unexpected(error)
                return cast(R, Failed(message=message, data=error))

        flow = StageFlow(
            reported,
            name=name,
            flow_run_name=named,
            timeout_seconds=timeout,
            validate_parameters=False,  # `reported` does
            persist_result=False,  # results are in the store; Prefect would pickle them
        )
        flow.plain = plain
        return flow

    return declare


def task(name: str, run_name: str) -> Callable[[Callable[P, R]], StageTask[P, R]]:
    """Declare a task, which Prefect neither caches nor retries: what is finished is in the store."""
    return lambda body: StageTask(body, name=name, task_run_name=run_name, cache_policy=NO_CACHE)


def _unexpected(error: Exception) -> str:
    """Log the traceback with the run; return the message of its state."""
    get_run_logger().error(redact("".join(traceback.format_exception(error))))
    return f"unexpected {type(error).__name__}: {one_line(error)}: {_TRY_AGAIN}"


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of the running flow: ``values``, if it was not started from a deployment.

    Otherwise what a group lacks is that of the deployment, and relative paths are files in the store.
    """
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if not run or not run.deployment_id:  # also of the stages that a deployed flow calls
        return values
    with get_client(sync_client=True) as client:
        own = client.read_deployment(run.deployment_id).parameters
    return of_form(completed(values, own, without_null=run.auto_scheduled))


def completed(
    values: Mapping[str, Any], own: Mapping[str, Any], *, without_null: bool = False
) -> dict[str, Any]:
    """Return the parameters ``values``, with fields from ``own`` where their groups lack them.

    A schedule that Prefect's page has made or changed has null for each optional field, and no others but
    those that were changed: these are ``without_null``.
    """
    given = {name: value for name, value in values.items() if value is not None or not without_null}
    for name, value in given.items():
        if isinstance(value, Mapping) and isinstance(own.get(name), Mapping):
            fields = {key: each for key, each in value.items() if each is not None or not without_null}
            given[name] = {**own[name], **fields}
    return {**own, **given}
