"""Settings from the environment: the only module of the live world that reads ``os.environ``.

==================== =============================================================
FARM_REDIS_URL        the server, e.g. ``redis://:password@host:6379/0``
FARM_REDIS_PASSWORD   its user's password, if the URL has none (``--redis`` too); or
                      FARM_REDIS_PASSWORD_FILE: the file whose only line it is
FARM_PREFIX           first part of every key (default ``farm:``)
FARM_HOST             name of this builder host, in which ``{hostname}`` stands for the machine's
                      (default: machine and process id)
FARM_HOST_ROOM        builders that this host plays at most (default 0: any number)
FARM_HOST_POOL        the pool whose builders alone it plays (default: any)
FARM_READY_FILE       a file that is there as long as this host plays a builder
FARM_INCARNATION      names one life of a farm that ``farm up`` keeps: no scheduler of
                      another one takes this host (default: none, and any farm may use it)
FARM_JOURNAL          a folder in which this host keeps a record of its attempts, for audits
                      (default: none is kept)
FARM_DRAIN_TIME       seconds that a host told to stop waits for its running jobs
FARM_BEAT_INTERVAL    seconds between a host's heartbeats
FARM_PLAY             the builder that this host plays on its own, as a Play command in JSON
                      (a container that is one builder), in which ``{host}`` stands for the
                      name of this host; absent: it runs the builders assigned to it
FARM_BURNER           what jobs of mode ``stress`` burn with: ``auto`` (stress-ng where it is
                      installed, the default), ``own``, ``stress-ng``
FARM_WORK_RATES       work that one idle core does in a second, ``cpu=900,memory=12000``; what is
                      left out is measured by the host, with its first job that burns
FARM_METRICS_PORT     port on which this host serves Prometheus metrics (0: any free one);
                      absent: none, or any free one if FARM_METRICS_TARGETS is given
FARM_METRICS_ADDRESS  where it serves them (default: to this machine only)
FARM_METRICS_TARGETS  folder in which it says where it serves them, in a file for Prometheus
==================== =============================================================
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import msgspec

from farm.core.errors import InputError
from farm.terminal.settings import with_password

DEFAULT_PREFIX = "farm:"


class LiveSettings(msgspec.Struct, frozen=True):
    """The settings, with defaults."""

    redis_url: str | None = None
    prefix: str = DEFAULT_PREFIX
    host: str = ""
    incarnation: str = ""
    #: see ``farm.live.wire.messages.HostUp``
    room: int = 0
    pool: str = ""
    ready_file: str = ""
    journal: str = ""
    drain_time: float = 0.0
    beat_interval: float = 1.0
    play: str = ""
    burner: str = ""
    work_rates: str = ""
    metrics_port: str = ""
    metrics_address: str = ""
    metrics_targets: str = ""


def from_environment(environ: Mapping[str, str] | None = None) -> LiveSettings:
    """Read the settings from the environment (or from the mapping given, in tests).

    Raises InputError for a FARM_HOST_ROOM that is no number of builders, or a password file that
    cannot be read.
    """
    env = os.environ if environ is None else environ
    host = env.get("FARM_HOST") or f"{{hostname}}-{os.getpid()}"
    host = host.replace("{hostname}", socket.gethostname())
    return LiveSettings(
        redis_url=with_password(env.get("FARM_REDIS_URL"), environ=env),
        prefix=env.get("FARM_PREFIX") or DEFAULT_PREFIX,
        host=host,
        incarnation=env.get("FARM_INCARNATION") or "",
        room=_room(env.get("FARM_HOST_ROOM") or "0"),
        pool=env.get("FARM_HOST_POOL") or "",
        ready_file=env.get("FARM_READY_FILE") or "",
        journal=env.get("FARM_JOURNAL") or "",
        drain_time=_seconds(env, "FARM_DRAIN_TIME", 0.0),
        beat_interval=_seconds(env, "FARM_BEAT_INTERVAL", 1.0),
        play=(env.get("FARM_PLAY") or "").replace("{host}", host),
        burner=env.get("FARM_BURNER") or "",
        work_rates=env.get("FARM_WORK_RATES") or "",
        metrics_port=env.get("FARM_METRICS_PORT") or "",
        metrics_address=env.get("FARM_METRICS_ADDRESS") or "",
        metrics_targets=env.get("FARM_METRICS_TARGETS") or "",
    )


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(env.get(name) or default)
    except ValueError:
        return default
    return value if 0 <= value < float("inf") else default


def _room(text: str) -> int:
    """Parse the number; an invalid one must not mean an unlimited host."""
    if not (text.isascii() and text.isdigit()):
        raise InputError(
            f"FARM_HOST_ROOM: found {text!r}; allowed: a number of builders, 0 for any number"
        )
    return int(text)


def environment_of_another(**more: str) -> dict[str, str]:
    """Return this process's environment for another farm: only ``more`` says anything of that."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    return ours | more


def child_environment(settings: LiveSettings) -> dict[str, str]:
    """Return this process's environment with the settings written over it, for a child."""
    return os.environ | host_environment(settings)


def host_environment(settings: LiveSettings) -> dict[str, str]:
    """Return the settings as the environment of a host that is not our child (a container)."""
    # what the settings do not say of these, the environment may
    own = {"FARM_BURNER": settings.burner, "FARM_WORK_RATES": settings.work_rates}
    return {
        "FARM_REDIS_URL": settings.redis_url or "",
        # the URL has the host's; these are the password of the process that starts it
        "FARM_REDIS_PASSWORD": "",
        "FARM_REDIS_PASSWORD_FILE": "",
        "FARM_PREFIX": settings.prefix,
        "FARM_HOST": settings.host,
        "FARM_HOST_ROOM": str(settings.room),
        "FARM_HOST_POOL": settings.pool,
        "FARM_READY_FILE": settings.ready_file,
        "FARM_JOURNAL": settings.journal,
        "FARM_INCARNATION": settings.incarnation,
        "FARM_DRAIN_TIME": repr(settings.drain_time),
        "FARM_BEAT_INTERVAL": repr(settings.beat_interval),
        "FARM_PLAY": settings.play,
        # never those of the process that starts the host: two cannot have one port
        "FARM_METRICS_PORT": settings.metrics_port,
        "FARM_METRICS_ADDRESS": settings.metrics_address,
        "FARM_METRICS_TARGETS": settings.metrics_targets,
        **{name: value for name, value in own.items() if value},
    }
