"""Failure detection: which hosts are silent or stuck, and which attempts their host has lost.

Pure, in real seconds (``now`` is given): heartbeats are compared with what hosts ought to hold,
and what may merely have got lost on the way is sent again first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

import msgspec

from farm.live.protocol.roster import Dispatch, HostState, Roster
from farm.live.wire.messages import Beat, HostCommand

#: heartbeats in a row that do not show an attempt whose start was sent and is not confirmed, before
#: it counts as missing: when the first was written, the host may just have taken the command
MISSED_BEATS = 2


class Patience(msgspec.Struct, frozen=True):
    """How long the scheduler waits before it does something about silence (real seconds)."""

    #: a host that says nothing for so long is lost (the scenario's ``live.lost_after``)
    silence: float = 5.0
    #: a command that should show in heartbeats by now
    grace: float = 2.0
    #: a host that beats but leaves its commands untouched for so long (for ``silence``, if that is
    #: longer) is lost: its Celery process hangs. One that is only busy with its commands beats, too
    stuck: float = 20.0
    #: how often an attempt is sent, the first time counted, before it is given up: a host that
    #: shows none of these will hardly show the next one
    sendings: int = 4

    @property
    def gap(self) -> float:
        """How long hosts may go unheard: two heartbeats fit into the silence, so one is left."""
        return self.silence / 2

    @property
    def stuck_after(self) -> float:
        """How long a host that beats may leave its commands: never less than one may be silent."""
        return max(self.stuck, self.silence)


class FailureDetector:
    """Says which of the roster's hosts, and of their commands, are lost."""

    def __init__(self, roster: Roster, patience: Patience) -> None:
        self._roster, self.patience = roster, patience

    def restart_timeouts(self, now: float) -> None:
        """Restart all time-outs: no host could send or receive anything, or none was heard."""
        for host in self._roster.hosts.values():
            host.heard_at = max(host.heard_at, now)
            host.sent_at = dict.fromkeys(host.sent_at, now)
            for dispatch in host.dispatches.values():
                dispatch.sent_at = dispatch.cancel_sent_at = now

    def silent(self, now: float) -> list[HostState]:
        """Return the hosts that have been silent for too long."""
        latest = now - self.patience.silence
        return [host for host in self._roster.hosts.values() if host.heard_at < latest]

    def next_silence(self) -> float:
        """Return when the first host has been silent for too long, if nothing is heard of it."""
        heard = min((host.heard_at for host in self._roster.hosts.values()), default=math.inf)
        return heard + self.patience.silence

    def misses_something(self, host: HostState, beat: Beat, now: float) -> bool:
        """Return whether ``check`` depends on how many commands lie on the host's list."""
        old = now - self.patience.grace
        dispatches = host.dispatches.values()
        return _oldest_command(host, beat) < old or any(
            dispatch.cancel is not None for dispatch in dispatches
        )

    def check(
        self, host: HostState, beat: Beat, now: float, queued: int
    ) -> tuple[list[HostCommand], list[Dispatch], bool]:
        """Compare a heartbeat with what the host ought to hold.

        Returns the commands to send again, the attempts that the host has lost, and whether it is
        stuck (it beats but does not take its ``queued`` commands). An unconfirmed attempt counts as
        missing only if no command is on its way any more; a confirmed one that is not held, and
        whose end has not come before this heartbeat, is lost. A host that leaves takes no commands.
        """
        old = now - self.patience.grace
        again: list[HostCommand] = []
        lost: list[Dispatch] = []
        held = set(beat.held)
        for token, dispatch in list(host.dispatches.items()):
            if token in held:
                dispatch.missed = 0
                if dispatch.cancel is not None and dispatch.cancel_sent_at < old and not queued:
                    dispatch.cancel_sent_at = now
                    again.append(dispatch.cancel)
            elif not beat.covers(token[0]):
                pass  # another part of the heartbeat says it
            elif dispatch.confirmed:
                if token not in host.begun_since_beat:
                    lost.append(dispatch)
            elif beat.leaving:  # it takes no more commands: this one will never be obeyed
                lost.append(dispatch)
            elif dispatch.sent_at < old and not queued:
                self._missing(dispatch, now, again, lost)
        if beat.leaving:
            return again, lost, False
        if not queued:
            again.extend(self._missing_builders(host, beat, now))
        stuck = queued > 0 and _oldest_command(host, beat) < now - self.patience.stuck_after
        return again, lost, stuck

    def _missing(
        self, dispatch: Dispatch, now: float, again: list[HostCommand], lost: list[Dispatch]
    ) -> None:
        dispatch.missed += 1
        if dispatch.missed < MISSED_BEATS:
            return
        if dispatch.cancel is not None or dispatch.sendings >= self.patience.sendings:
            lost.append(dispatch)
            return
        dispatch.missed = 0
        dispatch.sendings += 1
        dispatch.sent_at = now
        again.append(dispatch.command)

    def _missing_builders(self, host: HostState, beat: Beat, now: float) -> list[HostCommand]:
        """Return the commands to play and retire builders that a heartbeat does not show.

        They are sent again without a limit: no job is lost with them, and a host that takes no
        commands at all is found stuck.
        """
        old = now - self.patience.grace
        again: list[HostCommand] = []
        for builder in list(_not_shown(host, beat)):
            if host.sent_at[builder] >= old:
                continue
            if builder in host.joined or builder in beat.builders:
                again.append(self._roster.retire(host, builder, now))
            else:
                host.sent_at[builder] = now
                again.append(host.plays[builder])
        return again


def _not_shown(host: HostState, beat: Beat) -> Iterator[str]:
    """Yield the builders whose play or retire command does not show in a heartbeat.

    Mostly all do. Every host beats once a second, so that is found out by sets as a whole.
    """
    not_played = host.plays.keys() - host.joined - set(beat.builders)
    not_retiring = (host.plays.keys() & host.retiring) - set(beat.retiring)
    if not (not_played or not_retiring):
        return
    for builder in filter(beat.covers, host.plays):
        if builder in not_played or builder in not_retiring:
            yield builder


def _oldest_command(host: HostState, beat: Beat) -> float:
    """Return when the longest unconfirmed command was sent."""
    starts = (d.sent_at for d in host.dispatches.values() if not d.confirmed)
    others = (host.sent_at[builder] for builder in _not_shown(host, beat))
    return min(chain(starts, others), default=float("inf"))
