"""``kueue``: Workloads of Kueue, a list of them or a watch's events.

A workload waits for quota from its creation until it is admitted; then its pods start. After a
pre-emption the conditions have the times of the last admission only, so such waits are rough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from farm.records.attempt import Attempt, Result, by_word
from farm.records.reading import Reading, members
from farm.records.source import Source
from farm_twin.sources.writing import second

_DELETED = "OwnerNotFound"
_RESULTS: dict[str, Result] = by_word(
    {"succeeded": "Succeeded JobFinished", "cancelled": f"{_DELETED} OutOfSync"}
)


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

    def platform(self, queue: str) -> str:
        """Return the platform; ``queue``: of the workload, where it has no cluster queue."""
        flavors = {flavor for one in self.pod_set_assignments for flavor in one.flavors.values()}
        return ",".join([self.cluster_queue or queue, *sorted(flavors)])

    @property
    def slots(self) -> int:
        """How many pods it is for, at least 1."""
        return max(1, sum(one.count for one in self.pod_set_assignments))


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
    is_workload = isinstance(inner, dict) and (
        inner.get("kind") == "Workload" or _has_pods(inner.get("spec"))
    )
    is_empty = value.get("kind") == "List" and value.get("items") == []
    return is_workload or is_empty or value.get("kind") == "WorkloadList"


def _has_pods(spec: object) -> bool:
    """Return whether this says for which pods a workload is: Go's lists of them have no kind."""
    return isinstance(spec, dict) and "podSets" in spec


def read(reading: Reading) -> Iterator[Attempt]:
    """Yield the workloads; of those that a watch saw several times, the last state.

    And the admissions that it saw end, each as an attempt: the last state forgets their times.
    """
    seen: dict[str, _Seen] = {}
    for value in reading.objects():
        if value.get("type") in ("BOOKMARK", "ERROR"):
            reading.left_out["events of a watch without a workload"] += 1
            continue
        if not knows(value):
            reading.refuse_other(value, "Workloads (kubectl get workloads -A -o json)")
        listed = members(value, "items") if "items" in value else [value.get("object", value)]
        for workload in reading.made(listed, _workload):
            metadata = workload.metadata
            metadata.is_deleted = value.get("type") == "DELETED"
            uid = metadata.uid or f"{metadata.namespace}/{metadata.name}"
            seen.setdefault(uid, _Seen(workload)).take(workload, reading)
    last = reading.attempts(seen.items(), _attempt)
    found = [attempt for one in last for attempt in _attempts(one, seen[one.id])]
    # before its admission a workload names no cluster queue: others of its queue were given one
    places = {_queue(one): one.platform for one in found if one.started_at is not None}
    for one in found:
        if one.started_at is None and one.platform == one.attributes.get("queue"):
            one.platform = places.get(_queue(one), one.platform)
        yield one


def _workload(value: object, reading: Reading) -> _Workload:
    """Return a workload whose times can be read, each."""
    workload = reading.record(value, _Workload)
    reading.needed(workload.metadata.creation_timestamp, "creationTimestamp")
    reading.instant(workload.metadata.deletion_timestamp, "deletionTimestamp")
    for condition in workload.status.conditions:
        reading.instant(condition.last_transition_time, condition.type)
    return workload


def _queue(one: Attempt) -> tuple[str, str]:
    return one.user, one.attributes.get("queue", "")


class _Seen:
    """A workload as a watch saw it: its last state, and the admissions that ended by eviction."""

    def __init__(self, workload: _Workload) -> None:
        self.workload = workload
        #: when each began and ended, and what was given
        self.ended: list[tuple[float, float, _Admission]] = []
        self._present: tuple[float, _Admission] | None = None

    @property
    def since(self) -> float | None:
        """When the last of them ended; None: none did."""
        return self.ended[-1][1] if self.ended else None

    def take(self, workload: _Workload, reading: Reading) -> None:
        """Read the next state."""
        self.workload = workload
        at = {one.type: one for one in workload.status.conditions}
        times = {
            name: reading.instant(at[name].last_transition_time, name)
            for name in ("Evicted", "Admitted")
            if name in at
        }
        evicted_at = (
            times["Evicted"] if "Evicted" in at and at["Evicted"].status == "True" else None
        )
        if self._present and evicted_at is not None and evicted_at >= self._present[0]:
            began_at, given = self._present
            self.ended.append((began_at, evicted_at, given))
            self._present = None
        admitted_at = times.get("Admitted")
        if admitted_at is None or at["Admitted"].status != "True" or evicted_at is not None:
            return
        if self.since is None or admitted_at >= self.since:
            self._present = admitted_at, workload.status.admission or _Admission()


def _attempts(last: Attempt, seen: _Seen) -> Iterator[Attempt]:
    if seen.since is None:
        yield last
        return
    uid, eligible_at = last.id, last.submitted_at
    for number, (began_at, ended_at, given) in enumerate(seen.ended, 1):
        yield replace(
            last,
            id=f"{uid}/{number}",
            job=uid,
            attempt=number,
            submitted_at=eligible_at,
            eligible_at=eligible_at,
            started_at=began_at,
            finished_at=ended_at,
            result="lost",
            platform=given.platform(seen.workload.spec.queue_name),
            slots=given.slots,
        )
        eligible_at = ended_at
    last.job, last.attempt = uid, len(seen.ended) + 1
    last.submitted_at = last.eligible_at = eligible_at
    if last.started_at is not None and last.started_at < eligible_at:
        last.started_at = None  # its pods still end
    yield last


def _attempt(known: tuple[str, _Seen], reading: Reading) -> Attempt:
    uid, seen = known
    workload, status, metadata = seen.workload, seen.workload.status, seen.workload.metadata
    true = {one.type: one for one in status.conditions if one.status == "True"}
    if metadata.deletion_timestamp:
        gone = _Condition("Finished", "True", _DELETED, metadata.deletion_timestamp)
        true.setdefault(gone.type, gone)
    true_at = {kind: reading.instant(one.last_transition_time, kind) for kind, one in true.items()}
    created_at = reading.needed(metadata.creation_timestamp, "creationTimestamp")
    admitted_at = true_at.get("Admitted") if true_at.get("QuotaReserved") is not None else None
    if admitted_at is None and not workload.spec.active:
        reading.leave_out("held (spec.active is false)")
    statistics = status.scheduling_stats
    evictions = sum(one.count for one in statistics.evictions) if statistics else 0
    if max(evictions, any(one.type == "Evicted" for one in status.conditions)) > len(seen.ended):
        reading.noted["evicted once or more, with one wait for all their admissions"] += 1
    finished_at = true_at.get("Finished")
    if finished_at is None and metadata.is_deleted:
        reading.leave_out("deleted, it is not known when")
    given, queue = status.admission or _Admission(), workload.spec.queue_name
    result: Result = "open"
    if finished_at is not None:
        ended = _RESULTS.get(true["Finished"].reason or "Succeeded", "failed")
        result = ended if admitted_at is not None else "cancelled"
    return Attempt(
        id=uid,
        submitted_at=created_at,
        eligible_at=created_at,
        started_at=admitted_at,
        finished_at=finished_at,
        result=result,
        kind=metadata.name,
        user=metadata.namespace,
        attributes={"queue": queue} if queue else {},
        platform=given.platform(queue),
        slots=given.slots,
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


SOURCE = Source(read, knows, write, resolution=1.0)
