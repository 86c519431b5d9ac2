"""``kueue``: Workloads of Kueue, a list of them or a watch's events.

A workload waits for quota from its creation until it is admitted; then its pods start. After a
pre-emption the conditions have the times of the last admission only, so such waits are rough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from farm.records.attempt import Attempt, Result
from farm.records.reading import Reading, members
from farm.records.writing import second

_DELETED = "OwnerNotFound"
_RESULTS: dict[str, Result] = {"Succeeded": "succeeded", "JobFinished": "succeeded",
                               "": "succeeded", _DELETED: "cancelled",
                               "OutOfSync": "cancelled"}  # fmt: skip


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    is_deleted: bool = False


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class _Assignment(msgspec.Struct):
    count: int = 1
    flavors: dict[str, str] = {}


class _Admission(msgspec.Struct, rename="camel"):
    cluster_queue: str = ""
    pod_set_assignments: list[_Assignment] = []


class _Eviction(msgspec.Struct):
    count: int = 0


class _Statistics(msgspec.Struct):
    evictions: list[_Eviction] = []


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] = []
    admission: _Admission | None = None
    scheduling_stats: _Statistics | None = None


class _Spec(msgspec.Struct, rename="camel"):
    queue_name: str = ""
    active: bool = True


class _Workload(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def knows(value: dict[str, object]) -> bool:
    """Return whether this is a Workload, a list of them, or a watch's event."""
    inner = [*members(value, "items"), value.get("object", value)][0]
    is_workload = isinstance(inner, dict) and inner.get("kind") == "Workload"
    return is_workload or value.get("kind") == "WorkloadList"


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield the workloads; of those that a watch saw several times, the last state."""
    latest: dict[str, _Workload] = {}
    for value in reading.objects():
        if value.get("type") in ("BOOKMARK", "ERROR"):
            reading.leave_out("events of a watch without a workload")
            continue
        if not knows(value):
            if value.get("kind") == "List" and not members(value, "items"):
                continue
            reading.refuse_other(value, "Workloads (kubectl get workloads -A -o json)")
        for one in members(value, "items") if "items" in value else [value.get("object", value)]:
            workload = reading.record(one, _Workload)
            metadata = workload.metadata
            metadata.is_deleted = value.get("type") == "DELETED"
            latest[metadata.uid or f"{metadata.namespace}/{metadata.name}"] = workload
    made = (_attempt(uid, workload, reading) for uid, workload in latest.items())
    found = [one for one in made if one is not None]
    # before its admission a workload names no cluster queue: others of its queue were given one
    places = {_queue(one): one.platform for one in found if one.started_at is not None}
    for one in found:
        if one.started_at is None and one.platform == one.attributes.get("queue"):
            one.platform = places.get(_queue(one), one.platform)
        yield one


def _queue(one: Attempt) -> tuple[str, str]:
    return one.user, one.attributes.get("queue", "")


def _attempt(uid: str, workload: _Workload, reading: Reading) -> Attempt | None:
    status, metadata = workload.status, workload.metadata
    true = {one.type: one for one in status.conditions if one.status == "True"}
    if metadata.deletion_timestamp:
        gone = _Condition("Finished", "True", _DELETED, metadata.deletion_timestamp)
        true.setdefault(gone.type, gone)
    true_at = {kind: reading.instant(one.last_transition_time, kind) for kind, one in true.items()}
    created_at = reading.needed(metadata.creation_timestamp, "creationTimestamp")
    admitted_at = true_at.get("Admitted") if true_at.get("QuotaReserved") is not None else None
    if admitted_at is None and not workload.spec.active:
        reading.leave_out("held (spec.active is false)")
        return None
    statistics = status.scheduling_stats
    if statistics and sum(one.count for one in statistics.evictions):
        reading.noted["evicted once or more, with one wait for all their admissions"] += 1
    finished_at = true_at.get("Finished")
    if finished_at is None and metadata.is_deleted:
        reading.leave_out("deleted, it is not known when")
        return None
    admission = status.admission or _Admission()
    flavors = {flavor for one in admission.pod_set_assignments for flavor in one.flavors.values()}
    result: Result = "open"
    if finished_at is not None:
        ended = _RESULTS.get(true["Finished"].reason, "failed")
        result = ended if admitted_at is not None else "cancelled"
    return Attempt(
        id=uid,
        submitted_at=created_at,
        eligible_at=created_at,
        started_at=admitted_at,
        finished_at=finished_at,
        result=result,
        slots=max(1, sum(one.count for one in admission.pod_set_assignments)),
        platform=",".join([admission.cluster_queue or workload.spec.queue_name, *sorted(flavors)]),
        kind=metadata.name,
        user=metadata.namespace,
        attributes={"queue": workload.spec.queue_name} if workload.spec.queue_name else {},
    )


def write(attempts: Iterable[Attempt]) -> Iterator[dict[str, object]]:
    """Yield a list of Workloads, which name no machine."""
    items = []
    for one in attempts:
        times = {
            "QuotaReserved": one.started_at,
            "Admitted": one.started_at,
            "Finished": one.finished_at,
        }
        words = {"succeeded": "Succeeded", "cancelled": _DELETED}
        reasons = {"Finished": words.get(one.result, "Failed")}
        conditions = [
            {
                "type": kind,
                "status": "True",
                "reason": reasons.get(kind, kind),
                "lastTransitionTime": second(at),
            }
            for kind, at in times.items()
            if at is not None
        ]
        queue, _, flavor = one.platform.partition(",")
        assignment = {"count": one.slots, "flavors": {"cpu": flavor} if flavor else {}}
        admission = {"clusterQueue": queue, "podSetAssignments": [assignment]}
        metadata = {
            "name": one.kind,
            "namespace": one.user,
            "uid": one.id,
            "creationTimestamp": second(one.arrived_at),
        }
        status = {"conditions": conditions, "admission": admission}
        items.append({"kind": "Workload", "metadata": metadata, "status": status})
    yield {"apiVersion": "v1", "kind": "List", "items": items}
