"""``farm pools``: the demand and size of each pool, and why it does not grow."""

from __future__ import annotations

from farm.app.jobs.sources import kind_of
from farm.app.long_running.farm_place import reach
from farm.app.long_running.pool_troubles import remarks_on, troubles_of
from farm.terminal.cells import Cell, folding, numbers, texts
from farm.terminal.console import counted
from farm.terminal.options import DEFAULT_DIR, AsJson, Dir, Redis
from farm.terminal.output import note, print_json
from farm.terminal.tables import Listing

COLUMNS = (
    *texts("pool", "platform"),
    *numbers("slots", "waiting", "running"),
    *texts("limits"),
    *numbers("wanted"),
    *folding("builders", "why"),
)
FIRST_TO_GO = ("limits", "slots", "platform", "running", "waiting", "wanted")


def pools(redis: Redis = None, folder: Dir = DEFAULT_DIR, as_json: AsJson = False) -> None:
    """List pools: their demand, desired and present builders, and why they differ.

    Examples:
        farm pools              why has no builder come?
        farm pools --json
        farm --dir night pools  those of another farm
    """
    with reach(redis, folder) as client:
        lost = client.status().lost
        reports = client.pools()
        troubles = troubles_of(client, reports)
    rows: list[dict[str, object]] = []
    cells: list[list[Cell]] = []
    for name, report in sorted(reports.items()):
        snapshot = report.snapshot
        states = {key: count for key, count in report.states.items() if count}
        if gone := sum(one.pool == name for one in lost):
            states["lost"] = gone
        running = snapshot.running_jobs + snapshot.draining_jobs
        remarks = remarks_on(report)
        jobs = f"{snapshot.waiting_jobs:,}", f"{running:,}"
        why = "; ".join(filter(None, [troubles[name], *remarks, report.why]))
        limits = "" if report.plan_most is None else f"{report.plan_least}-{report.plan_most}"
        sizes = str(snapshot.slots), *jobs, limits, _text(report.desired)
        cells.append([name, kind_of(report), *sizes, counted(states), why])
        rows.append(
            {
                "pool": name,
                "platform": kind_of(report),
                "slots": snapshot.slots,
                "provisioned": report.provisioned,
                "desired": report.desired,
                "most": report.most,
                "limits": {
                    "min": report.plan_least,
                    "max": report.plan_most,
                    "period": report.period or None,
                },
                "states": states,
                "waiting_jobs": snapshot.waiting_jobs,
                "running_jobs": running,
                "why": report.why,
                "trouble": troubles[name],
                "remarks": remarks,
            }
        )
    if as_json:
        print_json(*rows)
        return
    note(Listing(COLUMNS, cells, first_to_go=FIRST_TO_GO))


def _text(value: object) -> str:
    return "" if value is None else str(value)
