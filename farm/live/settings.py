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
FARM_DRAIN_TIME       seconds that a host that is asked to stop waits for its running jobs
FARM_BEAT_INTERVAL    seconds between a host's heartbeats
FARM_START_TIMEOUT    seconds that a farm's processes may take to come up (default 300: a machine
                      may be busy with others)
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
from typing import Annotated, Any

import msgspec

from farm.core.errors import InputError
from farm.core.fields import Field, FieldError, fields_of, limit
from farm.terminal.settings import with_password
from farm.units import many

DEFAULT_PREFIX = "farm:"

ROOM = limit("a number of builders, 0 for any number", lambda found: found >= 0)
DRAIN = limit("a number of seconds", lambda found: 0 <= found < 1e9)
ABOVE_0 = limit("a number of seconds above 0", lambda found: 0 < found < 1e9)


class LiveSettings(msgspec.Struct, frozen=True, rename=lambda name: f"FARM_{name.upper()}"):
    """The settings, with defaults; each is read from the variable of its name."""

    redis_url: str | None = None
    prefix: str = DEFAULT_PREFIX
    host: str = ""
    incarnation: str = ""
    #: see ``farm.live.wire.messages.HostUp``
    room: Annotated[int, ROOM] = msgspec.field(default=0, name="FARM_HOST_ROOM")
    pool: str = msgspec.field(default="", name="FARM_HOST_POOL")
    ready_file: str = ""
    journal: str = ""
    drain_time: Annotated[float, DRAIN] = 0.0
    #: the default is that of ``live.heartbeat``
    beat_interval: Annotated[float, ABOVE_0] = 1.0
    start_timeout: Annotated[float, ABOVE_0] = 300.0
    play: str = ""
    burner: str = ""
    work_rates: str = ""
    metrics_port: str = ""
    metrics_address: str = ""
    metrics_targets: str = ""


def from_environment(environ: Mapping[str, str] | None = None) -> LiveSettings:
    """Read the settings from the environment (or from the mapping given, in tests).

    An empty variable counts as absent. Raises InputError for a number that is none, or a password
    file that cannot be read.
    """
    env = os.environ if environ is None else environ
    fields = [field for field in fields_of(LiveSettings).values() if env.get(field.key)]
    settings = LiveSettings(**{field.name: _value(field, env[field.key]) for field in fields})
    host = settings.host or f"{{hostname}}-{os.getpid()}"
    host = host.replace("{hostname}", socket.gethostname())
    return msgspec.structs.replace(
        settings,
        host=host,
        play=settings.play.replace("{host}", host),
        redis_url=with_password(settings.redis_url, environ=env),
    )


def _value(field: Field, text: str) -> Any:
    try:
        return field.of_text(text)
    except FieldError as error:
        raise InputError(f"{field.key}: {error}") from None


def start_limit(timeout: float) -> str:
    """Return what is to be said of a start that took longer than FARM_START_TIMEOUT allows."""
    return (
        f"{timeout:g}s (load {os.getloadavg()[0]:.0f} on {many(os.cpu_count() or 1, 'processor')}; "
        "FARM_START_TIMEOUT=SECONDS waits longer)"
    )


def environment_of_another(**more: str) -> dict[str, str]:
    """Return this process's environment for another farm: only ``more`` says anything of that."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
    return ours | more


def child_environment(settings: LiveSettings) -> dict[str, str]:
    """Return this process's environment with the settings written over it, for a child."""
    return os.environ | host_environment(settings)


def host_environment(settings: LiveSettings) -> dict[str, str]:
    """Return the settings as the environment of a host that is not our child (a container)."""
    texts = {name: str(value or "") for name, value in msgspec.to_builtins(settings).items()}
    for name in ("FARM_BURNER", "FARM_WORK_RATES"):
        if not texts[name]:  # what the settings do not give of these, the environment may
            del texts[name]
    # the URL has the host's password; these are of the process that starts it
    return texts | {"FARM_REDIS_PASSWORD": "", "FARM_REDIS_PASSWORD_FILE": ""}
