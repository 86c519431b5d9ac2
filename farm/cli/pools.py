"""``farm pools``: what each pool needs, what is there, and why no more builders come."""

from __future__ import annotations

from typing import Any

import msgspec
import typer

from farm.cli.connection import DEFAULT_DIR, Dir, Redis, reach
from farm.cli.job_sources import can_run, kind_of
from farm.cli.options import AsJson
from farm.cli.showing import Column, FarmConsole, counted, listing
from farm.core.model import Platform
from farm.live.operating.operator import Operator
from farm.live.wire.pool_report import PoolReport
from provisioner.embedded import EMBEDDED

COLUMNS = (
    Column("pool"), Column("platform"), Column("slots", right=True), Column("waiting", right=True),
    Column("running", right=True), Column("wanted", right=True), Column("builders", folds=True),
    Column("why", folds=True),
)  # fmt: skip


def pools(
    redis: Redis = None,
    folder: Dir = DEFAULT_DIR,
    as_json: AsJson = False,
) -> None:
    """List pools: what they need, what is wanted, what is there, and why (or why not)."""
    with reach(redis, folder) as operator:
        lost = operator.status().lost
        reports = operator.pools()
        troubles = troubles_of(operator, reports)
    rows: list[dict[str, Any]] = []
    for name, report in sorted(reports.items()):
        snapshot = report.snapshot
        states = {key: count for key, count in report.states.items() if count}
        if gone := sum(one.pool == name for one in lost):
            states["lost"] = gone
        rows.append(
            {
                "pool": name,
                "platform": kind_of(report),
                "slots": snapshot.slots,
                "provisioned": report.provisioned,
                "desired": report.desired,
                "most": report.most,
                "states": states,
                "waiting_jobs": snapshot.waiting_jobs,
                "running_jobs": snapshot.running_jobs + snapshot.draining_jobs,
                "why": report.why,
                "trouble": troubles[name],
                "remarks": remarks_on(report),
            }
        )
    if as_json:
        for row in rows:
            typer.echo(msgspec.json.encode(row).decode())
        return
    console = FarmConsole()
    cells = [
        [
            row["pool"], row["platform"], str(row["slots"]), f"{row['waiting_jobs']:,}",
            f"{row['running_jobs']:,}", _text(row["desired"]), counted(row["states"]),
            "; ".join(filter(None, [row["trouble"], *row["remarks"], row["why"]])),
        ]
        for row in rows
    ]  # fmt: skip
    console.print(listing(COLUMNS, cells, console.width, "slots platform running waiting"))


def troubles_of(operator: Operator, reports: dict[str, PoolReport]) -> dict[str, str]:
    """Return, by pool, why nobody asks for builders, or why those asked for do not come."""
    memories, provisioned = operator.remembered(), operator.is_provisioned()
    found: dict[str, str] = {}
    for name, report in reports.items():
        found[name] = trouble_of(memories.get(name))
        if report.provisioned and report.watcher != EMBEDDED and not provisioned:
            found[name] = "no provisioner is at work"
    return found


def trouble_of(memory: bytes | None) -> str:
    """Return what a provisioner says of its backend, and of boots that fail."""
    try:
        found = msgspec.json.decode(memory or b"{}", type=_Memory)
    except msgspec.DecodeError:
        return ""
    failures = found.failures
    count = "a boot failed" if failures == 1 else f"{failures} boots failed in a row"
    boots = f"{count}: {found.trouble}" if failures else ""
    return "; ".join(filter(None, (found.backend, boots)))


class _Memory(msgspec.Struct):
    """What matters here of what a provisioner remembers."""

    failures: int = 0
    trouble: str = ""
    backend: str = ""


def remarks_on(report: PoolReport) -> list[str]:
    """Return what else keeps builders of a pool from coming, or from working."""
    states, snapshot = report.states, report.snapshot
    remarks: list[str] = []
    if report.unplaced:
        remarks.append(f"{report.unplaced} asked for, and no builder host has room for them")
    if failed := states.get("failed", 0):
        remarks.append(f"{failed} failed (farm undrain mends them)")
    if report.most is not None and snapshot.total >= report.most and snapshot.waiting_jobs:
        drained = f", {states['draining']} of them draining" if states.get("draining") else ""
        remarks.append(f"at its limit of {report.most}{drained}")
    return remarks


def hints_for(operator: Operator, platform: Platform) -> list[str]:
    """Return what keeps jobs of a platform from being run, pool by pool."""
    able = {n: r for n, r in sorted(operator.pools().items()) if can_run(r, platform)}
    if not able:
        return [f"no pool of the farm could run {platform}"]
    troubles = troubles_of(operator, able)
    said = {name: [troubles[name], *remarks_on(report)] for name, report in able.items()}
    return [
        f"pool {n}: {'; '.join(filter(None, words))}" for n, words in said.items() if any(words)
    ]


def _text(value: object) -> str:
    return "" if value is None else str(value)
