"""Carries out one fault after the other."""

from __future__ import annotations

import logging
import random
import signal
from collections.abc import Callable

from chaos.append_only_reader import truncate
from chaos.farm import ChaosFarm, send, until
from chaos.plan import Fault, FaultKind
from chaos.server_faults import ServerFaults
from farm.processes.identity import is_alive

Lift = Callable[[Callable[[], ServerFaults]], None]
"""Takes a fault back; given the way to the server, which may be another one by then, or stopped."""

log = logging.getLogger("farm.chaos")

#: seconds by which a wall clock is set wrong at most: a day
LONGEST_STEP = 86_400
#: real seconds by which a sync takes longer at most
SLOWEST_SYNC = 3.0
#: real seconds within which a server that was told to end has ended
SERVER_ENDS_WITHIN = 10.0
#: share of what a server wrote since it last rewrote its data that is cut off at most
LARGEST_LOSS = 0.6


def inject(fault: Fault, farm: ChaosFarm, server: ServerFaults) -> Lift | None:
    """Inject a fault; return what takes it back, if the farm does not do that itself.

    Raises redis errors when the server is away.
    """
    rng = random.Random(fault.dice)  # noqa: S311 - dice, not secrets
    match fault.kind:
        case FaultKind.KILL_KEEPER:
            farm.end(signal.SIGKILL)
            farm.start()
        case FaultKind.RESTART_FARM:
            farm.end(signal.SIGINT)  # at once: running jobs wait again
            farm.start()
        case FaultKind.LOSE_DATA | FaultKind.TRUNCATE_DATA:
            # what was submitted has been read: nothing is lost that the event log does not have
            farm.end(signal.SIGINT)
            lost = farm.keep_data()
            if fault.kind is FaultKind.TRUNCATE_DATA:
                truncate(lost, farm.data, rng.uniform(0.0, LARGEST_LOSS))
            farm.start()
        case FaultKind.CUT_CONNECTIONS:
            server.cut_connections()
        case FaultKind.REFUSE_WRITES:
            server.refuse_writes(on=True)
            return lambda server_now: server_now().refuse_writes(on=False)
        case FaultKind.OUT_OF_MEMORY:
            server.run_out_of_memory(on=True)
            return lambda server_now: server_now().run_out_of_memory(on=False)
        case FaultKind.GARBAGE_REPORTS:
            server.garbage_reports(rng)
        case FaultKind.GARBAGE_COMMANDS:
            server.garbage_commands(rng)
        case FaultKind.FORGED_REPORTS:
            server.forged_reports(rng)
        case FaultKind.SLOW_SYNC:
            farm.machine.set(sync_time=rng.uniform(0.2, SLOWEST_SYNC))
            return lambda server_now: _end_slow_syncs(farm, server_now)
        case FaultKind.FULL_DISK:
            farm.machine.set(disk_is_full=1.0)
            return lambda _: farm.machine.set(disk_is_full=0.0)
        case FaultKind.CLOCK_STEP:
            farm.machine.set(clock_ahead=round(rng.choice([-1, 1]) * LONGEST_STEP ** rng.random()))
        case _:
            return _signal(fault, farm, server, rng)
    return None


def _end_slow_syncs(farm: ChaosFarm, server_now: Callable[[], ServerFaults]) -> None:
    """Wait for the last of them, too: a server that is killed before loses what it put off."""
    farm.machine.set(sync_time=0.0)
    until(lambda: server_now().has_synced(), farm.supervise, SLOWEST_SYNC + 1.0)


_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "restart": signal.SIGTERM}


def _signal(fault: Fault, farm: ChaosFarm, server: ServerFaults, rng: random.Random) -> Lift | None:
    """Hit one process."""
    process = farm.find(fault.kind.target, server, rng)
    if process is None:
        log.info("fault %d (%s) has no target", fault.number, fault.kind.value)
        return None
    send(process, _SIGNALS[fault.kind.verb])
    if fault.kind is FaultKind.RESTART_SERVER:
        # it answers until it ends; a disk that fills before that costs what it has not written
        until(lambda: not is_alive(*process), farm.supervise, SERVER_ENDS_WITHIN)
    if fault.kind.verb == "stop":
        return lambda _: send(process, signal.SIGCONT)
    return None
