"""``taskcluster``: the tasks of a datastore.json, as the Taskcluster simulator writes it.

Arrivals are counted from the first one; a task that did not end there has no known length and is
left out.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from farm.core.errors import TraceError
from farm.scenario.workload import TraceOptions
from farm.workload.traces.content import read_bytes
from farm.workload.traces.records import Records


class _DataStore(msgspec.Struct):
    """The part of the file that is read."""

    duration: float
    events: list[list[object]]


def read(path: Path, options: TraceOptions) -> Records:  # noqa: ARG001 - a reader's signature
    """Return the tasks that ended; TraceError names the event (from 1) that is wrong."""
    try:
        store = msgspec.json.decode(read_bytes(path), type=_DataStore)
    except msgspec.MsgspecError as error:
        raise TraceError(f"{path}: not a datastore: {error}") from None
    created: dict[str, float] = {}
    started: dict[str, float] = {}
    ended: dict[str, float] = {}
    kinds = {"task-created": created, "task-started": started, "task-resolved": ended}
    for number, event in enumerate(store.events, 1):
        if len(event) < 3 or not isinstance(event[0], int | float) or not isinstance(event[2], str):
            raise TraceError(
                f"{path}: event {number}: found {event!r:.60}; allowed: time, name, id"
            )
        if (found := kinds.get(str(event[1]))) is not None:
            found[event[2]] = float(event[0])
    ids = [task for task in ended if task in started and task in created]
    if not ids:
        raise TraceError(f"{path}: found no task that ended; allowed: at least one")
    ids.sort(key=created.__getitem__)
    arrived = np.array([created[task] for task in ids]) / 1000.0
    service = np.array([ended[task] - started[task] for task in ids]) / 1000.0
    open_ = len(created) - len(ids)
    left_out = {"of tasks that did not end": open_} if open_ else {}
    return Records(arrived - arrived[0], service, ids, left_out=left_out)
