"""``reapi``: completed actions of the Remote Execution API, as Buildbarn's schedulers log them.

Each object is a message with the times of the execution: queued, taken by a worker, inputs
fetched, executed, outputs uploaded. Absent members are zeros. A cached result has the times of the
execution that it is a copy of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from farm.records.attempt import Attempt, Result
from farm.records.key_styles import in_camel_case
from farm.records.reading import Reading, members
from farm.records.source import Source
from farm_twin.sources.writing import stamp

CANCELLED, UNAVAILABLE, ABORTED = 1, 14, 10
#: the members of a request's metadata, by the names that fair share has for them
_MEMBERS_OF_ATTRIBUTES = {
    "tool_invocation_id": "toolInvocationId",
    "correlated_invocations_id": "correlatedInvocationsId",
    "target_id": "targetId",
}


class _Metadata(msgspec.Struct, rename="camel"):
    worker: str = ""
    queued_timestamp: str | None = None
    worker_start_timestamp: str | None = None
    worker_completed_timestamp: str | None = None
    auxiliary_metadata: list[dict[str, object]] = []


class _Result(msgspec.Struct, rename="camel"):
    exit_code: int = 0
    execution_metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Status(msgspec.Struct):
    code: int = 0


class _Response(msgspec.Struct, rename="camel"):
    result: _Result = msgspec.field(default_factory=_Result)
    cached_result: bool = False
    status: _Status = msgspec.field(default_factory=_Status)


class _Digest(msgspec.Struct):
    hash: str = ""


class _Historical(msgspec.Struct, rename="camel"):
    execute_response: _Response
    action_digest: _Digest = msgspec.field(default_factory=_Digest)


class _Completed(msgspec.Struct, rename="camel"):
    historical_execute_response: _Historical
    uuid: str = ""
    instance_name: str = ""


def knows(value: dict[str, object]) -> bool:
    """Return whether this is a completed action, or what a client has of one."""
    result = value.get("result", value)
    is_result = isinstance(result, dict) and "executionMetadata" in result
    lists_executions = any(map(_is_execution, members(value, "execution")[:1]))
    is_action = is_result or "historicalExecuteResponse" in value or _is_execution(value)
    return is_action or lists_executions


def _is_execution(found: object) -> bool:
    """Return whether this is an action in the answer of a build's page."""
    return isinstance(found, dict) and "executedActionMetadata" in found


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield the attempts: an action that is done again is a message of its own."""
    for value in reading.objects():
        actions = [one for one in members(value, "execution") if isinstance(one, dict)]
        yield from reading.attempts(actions or [value], _attempt)


def _attempt(value: dict[str, object], reading: Reading) -> Attempt:
    if not knows(value):
        allowed = "completed actions (historicalExecuteResponse), or results of actions"
        reading.refuse_other(value, allowed)
    if _is_execution(value):
        result = {**value, "executionMetadata": value["executedActionMetadata"]}
        value = {"result": result, "uuid": value.get("executionId", "")}
    whole = {"executeResponse": value if "result" in value else {"result": value}}
    completed = reading.record({"historicalExecuteResponse": whole, **value}, _Completed)
    response = completed.historical_execute_response.execute_response
    metadata = response.result.execution_metadata
    if response.cached_result:
        reading.leave_out("served from the cache")
    started_at = reading.instant(metadata.worker_start_timestamp, "workerStartTimestamp")
    finished_at = reading.instant(metadata.worker_completed_timestamp, "workerCompletedTimestamp")
    if not metadata.worker or started_at is None or finished_at is None:
        reading.leave_out("without the times of a worker")
    queued_at = reading.instant(metadata.queued_timestamp, "queuedTimestamp")
    if queued_at is None:
        reading.noted["without queuedTimestamp, their waits not known"] += 1
    request = _request(metadata.auxiliary_metadata)
    digest = completed.historical_execute_response.action_digest.hash
    attributes = {
        attribute: str(request[member])
        for attribute, member in _MEMBERS_OF_ATTRIBUTES.items()
        if request.get(member)
    }
    return Attempt(
        id=completed.uuid or f"{digest}@{started_at}/{metadata.worker}",
        submitted_at=started_at if queued_at is None else queued_at,
        eligible_at=queued_at,
        started_at=started_at,
        finished_at=finished_at,
        result=_result(response),
        runner=metadata.worker,
        platform=completed.instance_name,
        kind=str(request.get("actionMnemonic", "")),
        matrix=str(request.get("toolInvocationId", "")),
        attributes=attributes,
    )


def _result(response: _Response) -> Result:
    code = response.status.code
    if code == CANCELLED:
        return "cancelled"
    if code in (UNAVAILABLE, ABORTED):
        return "lost"
    return "failed" if code or response.result.exit_code else "succeeded"


def _request(metadata: list[dict[str, object]]) -> dict[str, object]:
    """Return whose action it was, where the scheduler passes that on."""
    for one in metadata:
        if "toolInvocationId" in one or "actionMnemonic" in one:
            return one
    return {}


def write(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    """Yield completed actions, of those that a worker ran."""
    codes = {"cancelled": CANCELLED, "lost": UNAVAILABLE}
    for one in attempts:
        if one.started_at is None or one.finished_at is None:
            continue
        request = {"actionMnemonic": one.kind, "toolInvocationId": one.matrix}
        for attribute, member in _MEMBERS_OF_ATTRIBUTES.items():
            if attribute in one.attributes:
                request[member] = one.attributes[attribute]
        metadata = {
            "worker": one.runner or "worker",
            "queuedTimestamp": stamp(one.eligible_at),
            "workerStartTimestamp": stamp(one.started_at),
            "workerCompletedTimestamp": stamp(one.finished_at),
            "auxiliaryMetadata": [request],
        }
        result = {"exitCode": int(one.result == "failed"), "executionMetadata": metadata}
        response = {"result": result, "status": {"code": codes.get(one.result, 0)}}
        yield {
            "historicalExecuteResponse": {"executeResponse": response},
            "uuid": one.id,
            "instanceName": one.platform,
        }


SOURCE = Source(read, knows, write, styles=(in_camel_case,))
