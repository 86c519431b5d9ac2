"""Carries out one fault after the other."""

from __future__ import annotations

import contextlib
import logging
import random
import signal
from collections.abc import Callable

import msgspec

from farm.app.long_running.farm_place import targets_of
from farm.core.model import Job
from farm.live.operating.client import FarmClient
from farm.processes.identity import is_alive
from farm_chaos.append_only_reader import truncate
from farm_chaos.crowds import (
    RawConnection,
    flood,
    metrics_addresses,
    silent_readers,
    slow_clients,
    strangers,
)
from farm_chaos.farm import ChaosFarm, Process, deny_files, send, until
from farm_chaos.plan import NO_FILES, Fault, FaultKind
from farm_chaos.rivals import Rivals
from farm_chaos.server_faults import ServerFaults

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
#: ids for which two clients contend
CONTESTED = 10
#: what keeps a server busy, and what keeps it from being ended without the server
WITHOUT_END = "while true do end"
WRITE = "redis.call('SET', KEYS[1], '1') "


class Scene(msgspec.Struct, frozen=True):
    """What a fault is done to."""

    farm: ChaosFarm
    server: ServerFaults
    rivals: Rivals
    #: one like the farm's others
    job: Job


def inject(fault: Fault, scene: Scene) -> Lift | None:
    """Inject a fault; return what takes it back, if the farm does not do that itself.

    Raises redis errors when the server is away.
    """
    farm, server = scene.farm, scene.server
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
        case FaultKind.SET_BACK_LEASE:
            leader = farm.find("scheduler", server, rng)
            if leader is not None:
                send(leader, signal.SIGSTOP)
                farm.machine.set(clock_ahead=-round(LONGEST_STEP ** rng.uniform(0.5, 1.0)))
                return lambda _: send(leader, signal.SIGCONT)
        case FaultKind.SILENT_READERS:
            return _closing(silent_readers(server.client.url, server.questions))
        case FaultKind.FLOOD_OF_QUESTIONS:
            return _closing(_flood(scene))
        case FaultKind.STRANGERS:
            return _closing(strangers(server.client.url))
        case FaultKind.SLOW_HTTP:
            return _closing(slow_clients(metrics_addresses(targets_of(farm.state))))
        case FaultKind.DELETE_LOG:
            server.delete_log()
        case FaultKind.TORN_LOG:
            farm.machine.set(log_is_torn=rng.choice([1.0, 2.0]))
            return lambda _: farm.machine.set(log_is_torn=0.0)
        case FaultKind.ENDLESS_SCRIPT | FaultKind.ENDLESS_WRITER:
            writes = fault.kind is FaultKind.ENDLESS_WRITER
            connection = RawConnection(server.client.url)
            connection.send("EVAL", (WRITE if writes else "") + WITHOUT_END, "1", "endless")
            return _closing(connection.close)
        case FaultKind.SAME_ID:
            names = (f"contested-{fault.number}-{n}" for n in range(CONTESTED))
            jobs = [msgspec.structs.replace(scene.job, id=name) for name in names]
            scene.rivals.submit_differently(_connect(scene), jobs)
        case FaultKind.SAME_RETRY:
            if name := server.ended_job(rng):
                scene.rivals.retry_at_once(_connect(scene), name)
        case FaultKind.CANCEL_RUN:
            server.cancel_run(rng)
        case FaultKind.RETRY_FAILED:
            if name := server.failed_job(rng):
                scene.rivals.retry_at_once(_connect(scene), name, clients=1)
        case FaultKind.REMOVE_STATE:
            farm.forget_place()
        case _ if fault.kind in NO_FILES:
            return _deny_files(fault, farm, server, rng)
        case _:
            return _signal(fault, farm, server, rng)
    return None


def _closing(close: Callable[[], None]) -> Lift:
    return lambda _: close()


def _connect(scene: Scene) -> Callable[[], FarmClient]:
    """Return what makes further clients of the farm."""
    client = scene.server.client
    return lambda: FarmClient(client.url, client.keys.prefix)


def _flood(scene: Scene) -> Callable[[], None]:
    """Begin to ask the server and the scheduler, over two connections; return what ends it."""
    connect = _connect(scene)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect()) for _ in range(2)]
        first, second = (
            stack.enter_context(contextlib.closing(ServerFaults(client))) for client in clients
        )
        stack.callback(flood(first.ask_all, second.ask_scheduler))
        return stack.pop_all().close


def _end_slow_syncs(farm: ChaosFarm, server_now: Callable[[], ServerFaults]) -> None:
    """Wait for the last of them, too: a server that is killed before loses what it put off."""
    farm.machine.set(sync_time=0.0)
    until(lambda: server_now().has_synced(), farm.supervise, SLOWEST_SYNC + 1.0)


def _deny_files(
    fault: Fault, farm: ChaosFarm, server: ServerFaults, rng: random.Random
) -> Lift | None:
    """Let a process open no more files; from the keeper, the standby is taken at that moment."""
    process = farm.find(fault.kind.target, server, rng)
    if process is None:
        return None
    allow = deny_files(process)
    if fault.kind is FaultKind.NO_FILES_KEEPER:
        # to start another one takes files
        _kill(farm.find("standby", server, rng))
    return _closing(allow)


def _kill(process: Process | None) -> None:
    if process is not None:
        send(process, signal.SIGKILL)


#: roles of the processes that are hit at the same moment
_TOGETHER = {
    FaultKind.KILL_SCHEDULERS: ("scheduler", "standby"),
    FaultKind.KILL_SERVER_AND_SCHEDULER: ("scheduler", "server"),
}
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "restart": signal.SIGTERM}


def _signal(fault: Fault, farm: ChaosFarm, server: ServerFaults, rng: random.Random) -> Lift | None:
    """Hit one process, or several at once."""
    if together := _TOGETHER.get(fault.kind):
        for process in [farm.find(role, server, rng) for role in together]:
            _kill(process)
        return None
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
