"""``taskcluster``: the tasks of a datastore.json, as the Taskcluster simulator writes it.

Arrivals are counted from the first one. A task that did not end there has no known length, and one
that ended before it started has none at all: they are left out.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path

import msgspec
import numpy as np

from farm.columns import Coded
from farm.core.errors import TraceError
from farm.records.attempt import Happened
from farm.records.reading import read_bytes
from farm.records.traces.trace_records import Records

LATEST = 1e300
"""Milliseconds: JSON's whole numbers have no limit, and a difference of times must be finite."""


class _DataStore(msgspec.Struct):
    """The part of the file that is read."""

    duration: float
    events: list[list[object]]


def read(path: Path) -> Records:
    """Return the tasks that ended; TraceError names the event (from 1) that is wrong."""
    try:
        store = msgspec.json.decode(read_bytes(path).removeprefix(BOM_UTF8), type=_DataStore)
    except msgspec.MsgspecError as error:
        raise TraceError(f"{path}: not a datastore: {error}") from None
    created: dict[str, float] = {}
    started: dict[str, float] = {}
    ended: dict[str, float] = {}
    runners: dict[str, str] = {}
    kinds = {"task-created": created, "task-started": started, "task-resolved": ended}
    for number, event in enumerate(store.events, 1):
        at, name, task = event[:3] if len(event) > 2 else (None, None, None)
        if not (isinstance(at, (int, float)) and abs(at) < LATEST and isinstance(task, str)):
            raise TraceError(
                f"{path}: event {number}: found {event!r:.60}; allowed: time, name, id"
            )
        if (found := kinds.get(str(name))) is not None:
            found[task] = float(at)
            if found is started and len(event) > 3:
                runners[task] = str(event[3])
    complete = [task for task in ended if task in started and task in created]
    ids = [task for task in complete if ended[task] >= started[task]]
    if not ids:
        raise TraceError(f"{path}: found no task that ended after its start; allowed: at least one")
    ids.sort(key=created.__getitem__)
    arrived = np.array([created[task] for task in ids]) / 1000.0
    begun = np.array([started[task] for task in ids])
    over = np.array([ended[task] for task in ids])
    service = (over - begun) / 1000.0
    names = Coded.of([runners.get(task, "") for task in ids])
    left_out = {
        "of tasks that did not end": len(created) - len(complete),
        "ended before the start": len(complete) - len(ids),
    }
    happened = Happened.between(
        arrived, begun / 1000.0, over / 1000.0, names, Coded.same("succeeded", len(ids))
    )
    return Records(arrived - arrived[0], service, ids, left_out=left_out, happened=happened)
