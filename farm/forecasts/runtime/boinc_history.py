"""The history of the ``boinc`` estimators, by host and job kind.

A job kind is an app version. A kind may carry a version, ``kernel@gcc-13``: kinds that differ only
in the number at its end succeed each other, and a host's record passes to the newer kind (a
toolchain upgrade keeps what was learned). Kinds with the same name before the ``@`` are one app,
whose versions are normalised together; the kinds without ``@`` form one app.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from farm.core.errors import StateError
from farm.forecasts.runtime.interface import JsonValues
from farm.upstream.boinc.claims import (
    MIN_VERSION_SAMPLES,
    Result,
    claim,
    learned,
    scales,
)
from farm.upstream.boinc.records import (
    App,
    AppVersion,
    HostAppVersion,
    VersionKey,
    after_failure,
    after_success,
    after_valid,
    predecessor,
    with_pending_counted,
)

#: maximum number of hosts; beyond that the one that learned longest ago is forgotten
HOSTS_KEPT = 10_000
DAILY_QUOTA = 100

HostRecords = dict[str, HostAppVersion]

_VERSION = re.compile(r"(?P<plan>.*?)(?P<number>\d+(?:\.\d+)*)?")


def version_key(kind: str) -> VersionKey:
    """Return the app, the plan class and the number in a kind's name."""
    app, _, suffix = kind.partition("@")
    match = _VERSION.fullmatch(suffix)
    plan, number = (match["plan"], match["number"]) if match else (suffix, None)
    parts = tuple(int(part) for part in number.split(".")) if number else ()
    return VersionKey(app=app, plan_class=plan, number=parts)


def app_of(kind: str) -> str:
    """Return the app with whose versions a kind is normalised: "" for kinds without ``@``."""
    app, at, _ = kind.partition("@")
    return app if at else ""


class _Dump(msgspec.Struct, omit_defaults=True):
    """The form in which the records are saved."""

    hosts: dict[str, HostRecords] = {}
    versions: dict[str, AppVersion] = {}
    apps: dict[str, App] = {}
    size_rate: float | None = None


class History:
    """Records per (host, kind), per kind and per app."""

    def __init__(self) -> None:
        self._hosts: dict[str, HostRecords] = {}
        self._versions: dict[str, AppVersion] = {}
        self._apps: dict[str, App] = {}
        self._kinds: dict[str, list[str]] = {}  # app -> its kinds
        #: size units per second at speed 1, from the first success with a size
        self.size_rate: float | None = None

    def version(self, kind: str) -> AppVersion | None:
        """Return the record of the kind on all hosts, or None."""
        return self._versions.get(kind)

    def app(self, kind: str) -> App:
        """Return the record of the kind's app."""
        return self._apps.get(app_of(kind), App())

    def host_record(self, host: str, kind: str) -> HostAppVersion | None:
        """Return the record of the kind on the host, or of its predecessor, or None."""
        held = self._hosts.get(host)
        if held is None:
            return None
        record = held.get(kind)
        if record is None:
            before = previous_version(held, kind)
            record = None if before is None else held[before]
        return record

    def _take(self, host: str, kind: str) -> tuple[HostRecords, HostAppVersion]:
        """Remove the kind's (or its predecessor's) record from the host's; return both."""
        held = self._hosts.pop(host, None)
        if held is None:
            held = {}
            while len(self._hosts) >= HOSTS_KEPT:
                del self._hosts[next(iter(self._hosts))]
        self._hosts[host] = held  # moves the host to the end: it learned last
        record = held.pop(kind, None)
        if record is None:
            before = previous_version(held, kind)
            record = HostAppVersion(max_jobs_per_day=DAILY_QUOTA)
            if before is not None:
                record = held.pop(before)
        return held, record

    def succeeded(
        self, host: str, kind: str, resource: str, result: Result, *, scale_check: bool = False
    ) -> None:
        """Add a valid result to all records; a validator's pass is one result long."""
        held, record = self._take(host, kind)
        version = self._versions.get(kind) or AppVersion(resource=resource)
        claimed = claim(result, record, version, self.app(kind), scale_check=scale_check)
        record, version = learned(result, claimed, record, version)
        record = after_success(record, DAILY_QUOTA)
        held[kind] = after_valid(record)
        if not result.anonymous:  # an anonymous host's app is not a version of the server's
            self._count(kind, with_pending_counted(version))

    def _count(self, kind: str, version: AppVersion) -> None:
        if kind not in self._versions:
            self._kinds.setdefault(app_of(kind), []).append(kind)
        self._versions[kind] = version
        # upstream does it every ten minutes; here there is no clock, and averages move slowly
        if version.pfc.n == MIN_VERSION_SAMPLES + 1 or version.pfc.n % MIN_VERSION_SAMPLES == 0:
            self._normalise(app_of(kind))

    def failed(self, host: str, kind: str) -> None:
        """Record a failure, which changes quota and streak, but no time."""
        held, record = self._take(host, kind)
        held[kind] = after_failure(record, DAILY_QUOTA)

    def _normalise(self, app: str) -> None:
        """Scale the app's versions again: for a new version, and at every hundredth result."""
        kinds = self._kinds[app]
        base, found = scales([self._versions[kind] for kind in kinds])
        if base is None:
            return
        self._apps[app] = App(min_avg_pfc=base)
        for kind, scale in zip(kinds, found, strict=True):
            version = self._versions[kind]
            self._versions[kind] = msgspec.structs.replace(version, pfc_scale=scale)

    def dump(self) -> JsonValues:
        """Return all records as plain JSON values."""
        everything = _Dump(self._hosts, self._versions, self._apps, self.size_rate)
        values: JsonValues = msgspec.json.decode(msgspec.json.encode(everything))
        return values

    def load(self, state: JsonValues) -> None:
        """Replace all records; StateError names what differs from a dump."""
        try:
            found = msgspec.convert(state, _Dump)
        except msgspec.ValidationError as error:
            raise StateError(f"estimator statistics: {error}") from None
        _check_numbers(state, "")
        self._hosts, self._versions, self._apps = found.hosts, found.versions, found.apps
        self.size_rate = found.size_rate or None
        self._kinds = {}
        for kind in self._versions:
            self._kinds.setdefault(app_of(kind), []).append(kind)


def previous_version(kinds: Iterable[str], kind: str) -> str | None:
    """Return the kind among these whose records a kind takes over; None: it has none to take."""
    if "@" not in kind:
        return None
    by_key = {version_key(other): other for other in kinds}
    before = predecessor(by_key, version_key(kind))
    return None if before is None else by_key[before]


def _check_numbers(value: object, where: str) -> None:
    """Raise StateError at the first invalid number (negative, not finite)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_numbers(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            _check_numbers(inner, f"{where}[{number}]")
    elif isinstance(value, int | float) and not 0 <= value <= 1e300:
        raise StateError(f"{where}: found {value}, a number from 0 up is allowed")
