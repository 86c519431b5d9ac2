"""Which faults, in which order: drawn from a seed, known before anything is started."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from enum import Enum

import msgspec


class FaultKind(Enum):
    """What is done to the farm; ``text`` is the same for people."""

    KILL_SCHEDULER = "kill-scheduler"
    KILL_STANDBY = "kill-standby"
    KILL_PROVISIONER = "kill-provisioner"
    KILL_HOST = "kill-host"
    KILL_SERVER = "kill-server"
    KILL_KEEPER = "kill-keeper"
    STOP_SCHEDULER = "stop-scheduler"
    STOP_STANDBY = "stop-standby"
    STOP_PROVISIONER = "stop-provisioner"
    STOP_HOST = "stop-host"
    STOP_SERVER = "stop-server"
    STOP_KEEPER = "stop-keeper"
    RESTART_SCHEDULER = "restart-scheduler"
    RESTART_STANDBY = "restart-standby"
    RESTART_PROVISIONER = "restart-provisioner"
    RESTART_HOST = "restart-host"
    RESTART_SERVER = "restart-server"
    RESTART_FARM = "restart-farm"
    LOSE_DATA = "lose-data"
    TRUNCATE_DATA = "truncate-data"
    CUT_CONNECTIONS = "cut-connections"
    REFUSE_WRITES = "refuse-writes"
    OUT_OF_MEMORY = "out-of-memory"
    GARBAGE_REPORTS = "garbage-reports"
    GARBAGE_COMMANDS = "garbage-commands"
    FORGED_REPORTS = "forged-reports"
    SLOW_SYNC = "slow-sync"
    FULL_DISK = "full-disk"
    CLOCK_STEP = "clock-step"
    KILL_SCHEDULERS = "kill-schedulers"
    KILL_SERVER_AND_SCHEDULER = "kill-server-and-scheduler"
    SET_BACK_LEASE = "set-back-lease"
    SILENT_READERS = "silent-readers"
    FLOOD_OF_QUESTIONS = "flood-of-questions"
    STRANGERS = "strangers"
    SLOW_HTTP = "slow-http"
    DELETE_LOG = "delete-log"
    TORN_LOG = "torn-log"
    ENDLESS_SCRIPT = "endless-script"
    ENDLESS_WRITER = "endless-writer"
    NO_FILES_SCHEDULER = "no-files-scheduler"
    NO_FILES_PROVISIONER = "no-files-provisioner"
    NO_FILES_HOST = "no-files-host"
    NO_FILES_SERVER = "no-files-server"
    NO_FILES_KEEPER = "no-files-keeper"
    SAME_ID = "same-id"
    SAME_RETRY = "same-retry"
    CANCEL_RUN = "cancel-run"
    RETRY_FAILED = "retry-failed"
    REMOVE_STATE = "remove-state"

    @property
    def verb(self) -> str:
        """What is done, such as ``kill``, ``stop`` or ``restart``."""
        return self.value.partition("-")[0]

    @property
    def target(self) -> str:
        """The target of the fault."""
        if self in NO_FILES:
            return self.value.removeprefix("no-files-")
        return self.value.partition("-")[2]


#: troubles of the machine, which not every machine can be made to show
FAKED = (
    FaultKind.SLOW_SYNC,
    FaultKind.FULL_DISK,
    FaultKind.CLOCK_STEP,
    FaultKind.SET_BACK_LEASE,
    FaultKind.TORN_LOG,
)
#: a process may open no more files, nor connections
NO_FILES = (
    FaultKind.NO_FILES_SCHEDULER,
    FaultKind.NO_FILES_PROVISIONER,
    FaultKind.NO_FILES_HOST,
    FaultKind.NO_FILES_SERVER,
    FaultKind.NO_FILES_KEEPER,
)
#: the farm works on while they last: a job is awaited before they are taken back. A server that
#: accepts no connection is not among them
ENDURED = (
    FaultKind.SET_BACK_LEASE,
    FaultKind.SILENT_READERS,
    FaultKind.FLOOD_OF_QUESTIONS,
    FaultKind.STRANGERS,
    FaultKind.SLOW_HTTP,
    FaultKind.TORN_LOG,
    FaultKind.ENDLESS_SCRIPT,
    FaultKind.ENDLESS_WRITER,
    FaultKind.NO_FILES_SCHEDULER,
    FaultKind.NO_FILES_PROVISIONER,
    FaultKind.NO_FILES_HOST,
    FaultKind.NO_FILES_KEEPER,
)
#: real seconds that a fault holds: shorter and longer than every lease and patience
_HOLDS = {
    FaultKind.STOP_SCHEDULER: (0.5, 6.0),
    FaultKind.STOP_STANDBY: (0.5, 6.0),
    FaultKind.STOP_PROVISIONER: (0.5, 6.0),
    FaultKind.STOP_HOST: (0.5, 8.0),
    FaultKind.STOP_SERVER: (0.5, 4.0),
    FaultKind.STOP_KEEPER: (0.5, 3.0),
    FaultKind.REFUSE_WRITES: (0.5, 3.0),
    FaultKind.OUT_OF_MEMORY: (0.5, 3.0),
    FaultKind.SLOW_SYNC: (2.0, 8.0),
    FaultKind.FULL_DISK: (1.0, 5.0),
    FaultKind.SILENT_READERS: (2.0, 8.0),
    FaultKind.FLOOD_OF_QUESTIONS: (2.0, 8.0),
    FaultKind.STRANGERS: (2.0, 8.0),
    FaultKind.SLOW_HTTP: (2.0, 8.0),
    FaultKind.TORN_LOG: (1.0, 5.0),
    **dict.fromkeys(NO_FILES, (1.0, 8.0)),
}


class Fault(msgspec.Struct, frozen=True):
    """One fault of a plan."""

    number: int
    kind: FaultKind
    #: real seconds before it, counted from the farm's recovery from the last one
    pause: float
    #: real seconds after which it is lifted; 0: there is nothing to lift
    holds: float
    #: chooses among several targets, and the content of invalid messages
    dice: int


def plan(faults: int, seed: int, only: Sequence[FaultKind] = ()) -> tuple[Fault, ...]:
    """Return this many faults; every kind comes before any comes again, in an order of its own.

    ``only``: these kinds; empty: all.
    """
    rng = random.Random(f"chaos/{seed}")  # noqa: S311 - dice, not secrets
    kinds = _shuffled(only or tuple(FaultKind), rng)
    return tuple(_fault(number, next(kinds), rng) for number in range(1, faults + 1))


def _shuffled(kinds: Sequence[FaultKind], rng: random.Random) -> Iterator[FaultKind]:
    while True:
        yield from rng.sample(kinds, len(kinds))


def _fault(number: int, kind: FaultKind, rng: random.Random) -> Fault:
    least, most = _HOLDS.get(kind, (0.0, 0.0))
    # as often short as long: a third of the longest ones are beyond every patience
    holds = rng.uniform(least, most)
    return Fault(number, kind, rng.uniform(0.0, 0.5), holds, rng.getrandbits(32))
