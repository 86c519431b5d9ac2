"""Audits a recorded run: its story makes sense, and a fresh scheduler decides the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from farm.core.driver import Handler
from farm.core.errors import InvariantError
from farm.results.audit.auditor import Auditor
from farm.results.log.reader import Entry
from farm.results.log.replay import replay
from farm.results.run_directory import Run


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit of a run found."""

    events: int
    jobs: int
    #: the first thing that is wrong; empty: nothing is
    wrong: str = ""


def audit_run(run: Run, scheduler: Handler | None) -> Audit:
    """Check a run's event log; with a fresh scheduler like the run's own, replay it too.

    Of a run that was killed the last event may lack commands, and jobs may have no end. Raises
    InputError for a log that cannot be read.
    """
    auditor, wrong = Auditor(), ""
    entries = _audited(run.entries(), auditor)
    try:
        if scheduler is None:
            deque(entries, maxlen=0)
        elif (difference := replay(entries, scheduler)) is not None:
            wrong = f"a fresh scheduler decides otherwise at {difference}"
        if not wrong:
            auditor.close(expect_all_ended=run.meta.state == "finished")
    except InvariantError as error:
        wrong = str(error)
    return Audit(events=auditor.events, jobs=len(auditor.jobs), wrong=wrong)


def _audited(entries: Iterable[Entry], auditor: Auditor) -> Iterator[Entry]:
    for entry in entries:
        if not entry.cut:
            auditor(entry.event, entry.commands)
        yield entry
