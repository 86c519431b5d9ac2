"""The builders of a live farm: listed, drained and undrained."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from farm.core.errors import InputError, not_among
from farm.core.events import DrainRequested, UndrainRequested
from farm.core.state.snapshot import BuilderRecord
from farm.live.operating.client import FarmClient
from farm.live.wire.messages import UNSTAMPED
from farm.units import format_roughly, many


def builders_of(
    client: FarmClient, pattern: str = "*", state: str | None = None, pool: str | None = None
) -> list[dict[str, object]]:
    """Return the present, booting and recently lost builders, sorted by id, as plain values.

    ``pattern``: a shell pattern of ids. Raises InputError if there is no such pool.
    """
    if pool is not None and pool not in (pools := client.pools()):
        raise InputError(f"--pool: {not_among(pool, sorted(pools))}")
    rows = [
        row
        for row in _rows(client)
        if fnmatchcase(row["builder"], pattern)
        and (state is None or row["state"] == state)
        and (pool is None or row["pool"] == pool)
    ]
    return sorted(rows, key=lambda row: natural_order(row["builder"]))


def natural_order(name: str) -> tuple[str, int, str]:
    """Return the key that sorts builder-9 before builder-10."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number), "") if number.isdecimal() and len(number) < 19 else (name, 0, "")


def _rows(client: FarmClient) -> list[dict[str, Any]]:
    status = client.status()
    there = client.builders()
    rows = [_row(name, record) for name, record in there.items()]
    for pool, report in client.pools().items():
        rows += [
            _absent(name, pool, "booting", "requested_at_s", at, "requested")
            for name, at in report.requested.items()
            if name not in there
        ]
    rows += [
        _absent(lost.builder, lost.pool, "lost", "lost_at_s", lost.at, lost.reason)
        for lost in status.lost
        if lost.builder not in there
    ]
    return rows


def _absent(name: str, pool: str, state: str, since: str, at: float, why: str) -> dict[str, object]:
    remark = f"{why} at {format_roughly(at)}"
    return {"builder": name, "pool": pool, "state": state, since: at, "remark": remark}


def _row(name: str, record: BuilderRecord) -> dict[str, object]:
    builder = record.builder
    return {
        "builder": name,
        "pool": builder.pool,
        "state": record.condition,
        "busy": record.busy,
        "slots": builder.slots,
        "used": record.used,
        "uses": builder.uses,
        "speed": builder.speed,
        "joined_at_s": record.joined_at,
        "failures": record.failures,
        "remark": _remark(record),
    }


def _remark(record: BuilderRecord) -> str:
    """Return details of the state."""
    if not record.builder.takes_jobs:
        return "its boot failed: it never takes a job"
    if record.failed:
        return f"taken out after {record.failures} failures in a row (use farm drain --undo)"
    if record.retiring and not record.retired:
        return "runs its last jobs" if record.used_up else "retires when empty"
    return f"{record.failures} failures in a row" if record.failures else ""


def drain(
    client: FarmClient, patterns: Sequence[str], *, retire: bool = False
) -> tuple[list[str], list[str]]:
    """Let the builders that match accept no more jobs, and with ``retire`` go when empty.

    Returns their ids, in order, and what else is to be known. Raises InputError, and asks for
    nothing, if a pattern matches none.
    """
    records = _matching(client, patterns)
    reports = client.pools()
    client.send(*(DrainRequested(UNSTAMPED, pattern, retire=retire) for pattern in patterns))
    requested = [name for report in reports.values() for name in report.requested]
    booting = sum(any(fnmatchcase(name, one) for one in patterns) for name in requested)
    notes = [f"{booting} more that match will boot, and take jobs"] if booting else []
    for pool in sorted({record.builder.pool for record in records.values()}):
        report = reports.get(pool)
        if report is None or not report.provisioned:
            continue
        if report.most is None or report.snapshot.total < report.most:
            most = "" if report.most is None else f", up to {report.most} in all"
            notes.append(f"the provisioner of pool {pool} may request others instead{most}")
    return sorted(records, key=natural_order), notes


def undrain(client: FarmClient, patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Let drained and failed builders that match accept jobs again; otherwise as ``drain``."""
    records = _matching(client, patterns)
    client.send(*(UndrainRequested(UNSTAMPED, pattern) for pattern in patterns))
    closed = {n: r for n, r in records.items() if r.draining or r.failed or r.retiring}
    names = sorted((n for n, r in closed.items() if not r.retiring), key=natural_order)
    leaving = len(closed) - len(names)
    notes = [f"{many(leaving, 'other')} will go when empty, and cannot be kept"] if leaving else []
    return names, notes


def _matching(client: FarmClient, patterns: Sequence[str]) -> dict[str, BuilderRecord]:
    there = client.builders()
    found: dict[str, BuilderRecord] = {}
    for pattern in patterns:
        matching = {name: there[name] for name in there if fnmatchcase(name, pattern)}
        if not matching:
            some = ", ".join(sorted(there, key=natural_order)[:5])
            some += ", …" if len(there) > 5 else ""
            raise InputError(
                f"no builder matches {pattern!r:.300}; allowed: a pattern for {some or 'builders'}"
            )
        found |= matching
    return found
