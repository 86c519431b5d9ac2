"""The four dashboards. Durations are farm time; rates are per real second unless said otherwise."""

from __future__ import annotations

from host_rows import host_row, provisioner_row
from panels import LIVE_ONLY, Board, bars, heat, lines, mean, number, quantiles
from server_rows import process_row, redis_row

WAITING = "farm_job_waiting_seconds"
FARM_TIME = "Farm time: real time times the farm's speed."
NO_SHARES = "nothing yet: fair share counts by the first of scheduling.fair_share"


def farm() -> Board:
    """What comes, waits, runs and ends."""
    board = Board("farm", "Farm", "What comes, waits, runs and ends.", "platform")
    board.row("Now")
    board.add(
        number(
            "Waiting",
            "Jobs that wait, for the chosen platforms.",
            "short",
            "sum(farm_queue_depth{@platform})",
        ),
        width=4,
        height=4,
    )
    board.add(
        number("Running", "Jobs on builders.", "short", "sum(farm_jobs_running{@})"),
        width=4,
        height=4,
    )
    board.add(
        number("Builders", "Builders that are there, whatever they do.", "short",
               'sum(farm_builders{@, state!="booting"})'),
        width=4, height=4,
    )  # fmt: skip
    board.add(
        number("Oldest waiting job", f"How long it has waited, of the chosen platforms. {FARM_TIME}", "s",
               "max(farm_queue_oldest_wait_seconds{@platform})"),
        width=4, height=4,
    )  # fmt: skip
    board.add(
        number("Done", "Jobs that have succeeded in the shown range.", "short",
               'sum(increase(farm_jobs_total{@, outcome="succeeded"}[$__range]))'),
        width=4, height=4,
    )  # fmt: skip
    board.add(
        number("Farm time", f"How long the farm has been up. {FARM_TIME}", "s",
               "max(farm_clock_seconds{@})"),
        width=4, height=4,
    )  # fmt: skip
    board.row("Queue")
    board.add(
        lines("Queue depth", "Jobs that wait, by what they need.", "short",
              {"{{platform}}": "sum by (platform) (farm_queue_depth{@platform})"}, stacked=True),
    )  # fmt: skip
    board.add(
        lines("Running jobs", "Jobs on builders, and the slots there are.", "short",
              {"{{pool}}": "sum by (pool) (farm_jobs_running{@})",
               "slots": "sum(farm_slots{@})"}),
    )  # fmt: skip
    board.add(heat("Waiting times", f"Arrival to start, of jobs that ended. {FARM_TIME}", WAITING))
    board.add(
        lines("Waiting time", f"Of jobs that ended. {FARM_TIME}", "s",
              {**quantiles(WAITING, 0.5, 0.95, 0.99), "mean": mean(WAITING)}),
    )  # fmt: skip
    board.row("Response")
    response = "farm_job_response_seconds"
    board.add(
        lines("Response time", f"Arrival to finish. {FARM_TIME}", "s",
              {**quantiles(response, 0.5, 0.95, 0.99), "mean": mean(response)}),
    )  # fmt: skip
    board.add(
        lines("Throughput", "Jobs that come, start and end, per real second.", "ops",
              {"submitted": "sum(rate(farm_jobs_submitted_total{@}[$__rate_interval]))",
               "dispatched": "sum(rate(farm_jobs_dispatched_total{@}[$__rate_interval]))",
               "{{outcome}}": "sum by (outcome) (rate(farm_jobs_total{@}[$__rate_interval]))"}),
    )  # fmt: skip
    board.add(
        lines("Failures", "Share of ended jobs that failed or were cancelled; of attempts that "
              "were lost with their builder.", "percentunit",
              {"{{outcome}}":
               'sum by (outcome) (rate(farm_jobs_total{@, outcome!="succeeded"}[$__rate_interval]))'
               " / ignoring(outcome) group_left() sum(rate(farm_jobs_total{@}[$__rate_interval]))",
               "attempts lost":
               'sum(rate(farm_attempts_total{@, result="lost"}[$__rate_interval]))'
               " / sum(rate(farm_attempts_total{@}[$__rate_interval]))"}, most=1.0),
    )  # fmt: skip
    board.add(
        bars("Jobs that ended", "In the shown range, by how.", "short",
             {"{{outcome}}": "sum by (outcome) (increase(farm_jobs_total{@}[$__range]))"}),
    )  # fmt: skip
    board.row("Dispatch estimates")
    board.add(
        lines("Dispatch estimate", "When a job that is submitted now, and the one at the head of "
              f"the queue, would be dispatched. {FARM_TIME}", "s",
              {"{{platform}} {{position}}":
               "max by (platform, position) (farm_dispatch_estimate_seconds{@platform})"}),
    )  # fmt: skip
    errors = "sum by (le, direction) (rate(farm_dispatch_estimate_error_seconds_bucket{@}[$__rate_interval]))"
    board.add(
        lines("Estimate against what came true", "How much later, or earlier, a job was dispatched "
              f"than was estimated when it was submitted. {FARM_TIME}", "s",
              {"{{direction}} p50": f"histogram_quantile(0.5, {errors})",
               "{{direction}} p90": f"histogram_quantile(0.9, {errors})"}),
    )  # fmt: skip
    return board


def builders() -> Board:
    """Who works, how hard, and who is asked for."""
    board = Board(
        "farm-builders",
        "Builders and provisioning",
        "Who works, how hard, and who is asked for.",
        "pool",
    )
    board.row("Builders")
    board.add(
        lines("Builders by state", "What they do; booting ones are asked for and not there.",
              "short", {"{{state}}": "sum by (state) (farm_builders{@pool})"}, stacked=True),
    )  # fmt: skip
    board.add(
        lines("Desired against actual", "Builders that a pool should have, and those that it has "
              "or that boot.", "short",
              {"{{pool}} desired": "max by (pool) (farm_provisioner_desired_builders{@pool})",
               "{{pool}} actual":
               'sum by (pool) (farm_builders{@pool, state=~"booting|idle|building|cleaning"})'}),
    )  # fmt: skip
    board.add(
        lines("Utilization", "Busy slots ÷ slots of builders that are there.", "percentunit",
              {"{{pool}}": 'sum by (pool) (farm_slots{@pool, state="busy"})'
               " / (sum by (pool) (farm_slots{@pool}) > 0)"}, most=1.0),
    )  # fmt: skip
    board.add(
        lines("Contention slowdown", "Service time taken ÷ service time alone, mean of the last "
              "100 jobs of a pool; 1 is alone.", "none",
              {"{{pool}}": "avg by (pool) (farm_contention_slowdown_ratio{@pool})"}),
    )  # fmt: skip
    board.row("Coming and going")
    boot = "sum by (le, pool) (rate(farm_builder_boot_seconds_bucket{@pool}[$__rate_interval]))"
    board.add(
        lines("Boot time", f"Request of a builder to its joining. {FARM_TIME}", "s",
              {"{{pool}} p50": f"histogram_quantile(0.5, {boot})",
               "{{pool}} p95": f"histogram_quantile(0.95, {boot})"}),
    )  # fmt: skip
    board.add(
        lines("Requests, joins and ends", "Builders per real minute.", "cpm",
              {"requested": "60 * sum(rate(farm_builders_requested_total{@pool}[$__rate_interval]))",
               "joined": "60 * sum(rate(farm_builders_joined_total{@pool}[$__rate_interval]))",
               "{{end}}":
               "60 * sum by (end) (rate(farm_builders_ended_total{@pool}[$__rate_interval]))"}),
    )  # fmt: skip
    board.add(
        bars("Cost", "Builder time spent in the shown range, hours of farm time: times the price of "
             "a builder-hour, what the farm costs.", "h",
             {"{{pool}}":
              "sum by (pool) (increase(farm_builder_seconds_total{@pool}[$__range])) / 3600"}),
    )  # fmt: skip
    board.add(
        lines("Slots by state", "Unavailable ones are of builders that drain, stop or failed.",
              "short", {"{{state}}": "sum by (state) (farm_slots{@pool})"}, stacked=True),
    )  # fmt: skip
    provisioner_row(board)
    host_row(board)
    return board


def fairness() -> Board:
    """Who gets how much, and whether builders stay with their work."""
    board = Board("farm-fairness", "Fairness",
                  "Who gets how much, and whether builders stay with their work.")  # fmt: skip
    board.row("Shares")
    board.add(
        lines("Slots by share", "Slots that run jobs of each first fair-share key (team); beyond "
              "20 they are “other”.", "short",
              {"{{share}}": "sum by (share) (farm_share_slots{@})"}, stacked=True,
              empty=NO_SHARES),
    )  # fmt: skip
    board.add(
        lines("Share of the slots", "Part of the busy slots that each one has.", "percentunit",
              {"{{share}}": "sum by (share) (farm_share_slots{@})"
               " / ignoring(share) group_left() (sum(farm_share_slots{@}) > 0)"}, most=1.0,
              empty=NO_SHARES),
    )  # fmt: skip
    board.add(
        bars("Slot time by share", "Slot time given in the shown range, hours of farm time.", "h",
             {"{{share}}":
              "sum by (share) (increase(farm_share_slot_seconds_total{@}[$__range])) / 3600"},
             empty=NO_SHARES),
    )  # fmt: skip
    board.add(
        lines("Jobs handed in by share", "Per real second.", "ops",
              {"{{share}}":
               "sum by (share) (rate(farm_share_jobs_submitted_total{@}[$__rate_interval]))"},
              empty=NO_SHARES),
    )  # fmt: skip
    board.row("Stickiness and matrices")
    board.add(
        lines("Stickiness retained", "Part of the dispatches to a slot that stayed with the "
              "invocation of the job before, by level (0: outermost).", "percentunit",
              {"level {{level}}":
               'sum by (level) (rate(farm_sticky_dispatches_total{@, result="retained"}[$__rate_interval]))'
               " / sum by (level) (rate(farm_sticky_dispatches_total{@}[$__rate_interval]))"},
              most=1.0, empty=NO_SHARES),
    )  # fmt: skip
    matrix = "farm_matrix_response_seconds"
    board.add(
        lines("Matrix response time", f"Release to the end of the last job. {FARM_TIME}", "s",
              {**quantiles(matrix, 0.5, 0.95), "mean": mean(matrix)},
              empty="no matrix has ended yet"),
    )  # fmt: skip
    return board


def scheduler() -> Board:
    """How the one who decides is doing."""
    board = Board("farm-scheduler", "Scheduler", "How the one who decides is doing.")
    board.row("Deciding")
    cycle = "farm_scheduler_cycle_seconds"
    board.add(
        lines("Cycle time", "Real time from taking reports in to having committed what they led "
              "to.", "s", {**quantiles(cycle, 0.5, 0.95, 0.99), "mean": mean(cycle)},
              empty=LIVE_ONLY),
    )  # fmt: skip
    aside = "farm_scheduler_aside_seconds"
    board.add(
        lines("Pauses", "Real time for which reports had to wait for something else: estimates, "
              "publications, reports to others.", "s",
              {**quantiles(aside, 0.5, 0.95, 0.99), "mean": mean(aside)}, empty=LIVE_ONLY),
    )  # fmt: skip
    board.add(
        lines("Event lag", "Real time that the report taken in last had lain in the inbox; the "
              "largest delay of a job so far, farm time.", "s",
              {"lag": "max(farm_scheduler_event_lag_seconds{@})",
               "largest delay": "max(farm_scheduler_delay_seconds{@})"},
              empty=LIVE_ONLY),
    )  # fmt: skip
    board.add(
        lines("Facts", "Facts taken in, by kind, per real second.", "ops",
              {"{{kind}}": "sum by (kind) (rate(farm_scheduler_events_total{@}[$__rate_interval]))",
               "ignored": "sum(rate(farm_scheduler_ignored_events_total{@}[$__rate_interval]))"}),
    )  # fmt: skip
    board.add(
        lines("Leader", "1: this scheduler is in charge of the farm; 0: it stands by.", "none",
              {"{{instance}}": "max by (instance) (farm_scheduler_leader{@})"}, most=1.0,
              empty=LIVE_ONLY),
    )  # fmt: skip
    redis_row(board)
    process_row(board)
    return board


BOARDS = {"farm": farm, "builders": builders, "fairness": fairness, "scheduler": scheduler}
"""File name (without .json) -> what makes the dashboard."""
