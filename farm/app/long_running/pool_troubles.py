"""Why a pool of a live farm has no working builders."""

from __future__ import annotations

import msgspec

from farm.core.model import Platform
from farm.live.operating.client import FarmClient
from farm.live.redis.keys import UNREADABLE
from farm.live.wire.pool_report import EMBEDDED, PoolReport
from provisioner.reconciler import Keeping


def troubles_of(client: FarmClient, reports: dict[str, PoolReport]) -> dict[str, str]:
    """Return, by pool, why no builders are requested, or why those requested do not come."""
    memories, provisioned = client.remembered(), client.is_provisioned()
    found: dict[str, str] = {}
    for name, report in reports.items():
        found[name] = trouble_of(memories.get(name))
        if report.provisioned and report.watcher != EMBEDDED and not provisioned:
            found[name] = "no provisioner is running"
    return found


def trouble_of(memory: bytes | None) -> str:
    """Return what a provisioner says of its backend, and of boots that fail."""
    try:
        found = msgspec.json.decode(memory or b"{}", type=Keeping)
    except UNREADABLE:
        return ""
    failures = found.failures
    count = "a boot failed" if failures == 1 else f"{failures} boots failed in a row"
    boots = f"{count}: {found.trouble}" if failures else ""
    return "; ".join(filter(None, (found.backend, boots)))


def remarks_on(report: PoolReport) -> list[str]:
    """Return what else keeps builders of a pool from coming, or from working."""
    states, snapshot = report.states, report.snapshot
    remarks: list[str] = []
    if report.unplaced:
        remarks.append(f"{report.unplaced} requested, but no builder host has room for them")
    if failed := states.get("failed", 0):
        remarks.append(f"{failed} failed (farm drain --undo mends them)")
    if report.most is not None and snapshot.total >= report.most and snapshot.waiting_jobs:
        drained = f", {states['draining']} of them draining" if states.get("draining") else ""
        remarks.append(f"at its limit of {report.most}{drained}")
    return remarks


def hints_for(client: FarmClient, platform: Platform) -> list[str]:
    """Return what keeps jobs of a platform from being run, pool by pool."""
    able = {n: r for n, r in sorted(client.pools().items()) if r.can_run(platform)}
    if not able:
        return [f"no pool of the farm could run {platform}"]
    troubles = troubles_of(client, able)
    reasons = {name: [troubles[name], *remarks_on(report)] for name, report in able.items()}
    return [
        f"pool {n}: {'; '.join(filter(None, words))}" for n, words in reasons.items() if any(words)
    ]
