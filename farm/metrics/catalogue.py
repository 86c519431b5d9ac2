"""Every metric of the farm: its name, type, meaning, labels and buckets.

Seconds are farm seconds (real seconds times the farm's speed) unless the help says "real". Labels
are bounded: pools and platforms as the scenario has them, at most ``SHARES`` fair-share keys;
never a job, and a user only where the scenario's first fair-share key is one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["counter", "gauge", "histogram"]

#: fair-share keys that get a label of their own; all others are ``other``
SHARES = 20
#: platforms and pools that get a label of their own
NAMES = 100

SECOND_TO_DAY = (
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
    1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0,
)  # fmt: skip
"""Buckets of waiting, service and response times, seconds."""
MICROSECONDS = (1e-5, 1e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Buckets of what the scheduler itself takes, real seconds."""


class Metric(msgspec.Struct, frozen=True):
    """One metric: ``name`` as it is queried (a counter's ends in ``_total``)."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _of(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, "counter", meaning, labels)


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name, "gauge", meaning, labels)


def _times(name: str, meaning: str, *labels: str) -> Metric:
    """Return a histogram of spans of farm time."""
    return Metric(name, "histogram", meaning, labels, SECOND_TO_DAY)


def _real_times(name: str, meaning: str) -> Metric:
    """Return a histogram of spans of real time."""
    return Metric(name, "histogram", meaning, (), MICROSECONDS)


JOBS = _of(
    _counter("farm_jobs_submitted_total", "Jobs submitted, by platform.", "platform"),
    _counter(
        "farm_jobs_total",
        "Jobs that ended since the farm began, by outcome; a new scheduler continues the count.",
        "outcome",
    ),
    _counter("farm_jobs_dispatched_total", "Jobs given to a slot.", "platform"),
    _counter("farm_attempts_total", "Attempts that ended, by outcome.", "result"),
    _gauge("farm_queue_depth", "Waiting jobs.", "platform"),
    _gauge("farm_jobs_blocked", "Jobs whose needs have not been met: they do not wait yet."),
    _gauge(
        "farm_jobs_unrunnable",
        "Waiting jobs that no builder will run: none that could is there, boots or may be added.",
        "platform",
    ),
    _gauge(
        "farm_queue_oldest_wait_seconds",
        "How long the oldest waiting job has waited; 0 for an empty queue.",
        "platform",
    ),
    _gauge("farm_jobs_running", "Running jobs.", "pool"),
    _times(
        "farm_job_waiting_seconds", "Arrival to start, of jobs that ran to their end.", "platform"
    ),
    _times(
        "farm_job_service_seconds", "Start to finish, of jobs that ran to their end.", "platform"
    ),
    _times(
        "farm_job_response_seconds", "Arrival to finish, of jobs that ran to their end.", "platform"
    ),
    _times("farm_matrix_response_seconds", "Release of a matrix to the end of its last job."),
    _gauge(
        "farm_dispatch_estimate_seconds",
        "Estimated time to dispatch: of the queue's head, of a job submitted now.",
        "platform",
        "position",
    ),
    _times(
        "farm_dispatch_estimate_error_seconds",
        "How far dispatch came from its estimate at submission: later, or earlier.",
        "platform",
        "direction",
    ),
    _counter(
        "farm_dispatch_forecasts_total",
        "Jobs told a range by rollouts (P10 - P90): dispatched within it, earlier, or later.",
        "platform",
        "dispatch",
    ),
)

BUILDERS = _of(
    _gauge("farm_builders", "Builders by state.", "pool", "state"),
    _gauge(
        "farm_pool_platform_info",
        "Always 1: builders of the pool can run jobs of the platform.",
        "pool",
        "platform",
    ),
    _gauge(
        "farm_builders_unplaced",
        "Requested builders that no host plays yet, or has room for.",
        "pool",
    ),
    _gauge("farm_slots", "Slots of joined builders by state.", "pool", "state"),
    _counter("farm_builders_requested_total", "Builders requested.", "pool"),
    _counter("farm_builders_joined_total", "Builders that joined.", "pool"),
    _counter(
        "farm_builders_ended_total",
        "Builders that left: retired when empty, stopped by an operator (left), or lost.",
        "pool",
        "end",
    ),
    _times("farm_builder_boot_seconds", "Request of a builder to its joining.", "pool"),
    _counter(
        "farm_builder_seconds_total",
        "Builder time, joining to leaving: 3600 s of it cost the price of a builder-hour.",
        "pool",
    ),
    _gauge(
        "farm_contention_slowdown_ratio",
        "Service time taken per service time alone, mean of the last 100 jobs.",
        "pool",
    ),
    _gauge(
        "farm_contention_slowdown_by_jobs_ratio",
        "The same, by how many jobs the builder had when it was dispatched, itself counted.",
        "pool",
        "jobs",
    ),
    _gauge("farm_provisioner_desired_builders", "Builders that the pool should have.", "pool"),
)

FAIRNESS = _of(
    _gauge(
        "farm_share_slots", "Slots that run jobs of a share (the first fair-share key).", "share"
    ),
    _gauge("farm_share_queue_depth", "Waiting jobs of a share.", "share"),
    _gauge(
        "farm_share_jobs_unrunnable",
        "Waiting jobs of a share that no builder will run: they entitle it to nothing.",
        "share",
    ),
    _gauge("farm_share_weight", "Weight of a share among the others.", "share"),
    _counter("farm_share_jobs_submitted_total", "Jobs submitted by a share.", "share"),
    _counter("farm_share_slot_seconds_total", "Slot time that a share was given.", "share"),
    _counter(
        "farm_sticky_dispatches_total",
        "Jobs given to a slot that ran another before, by whether the invocation is the same "
        "down to this level (0: outermost).",
        "level",
        "result",
    ),
)

SCHEDULER = _of(
    _real_times(
        "farm_scheduler_cycle_seconds",
        "Real time from reading reports to committing the resulting decisions.",
    ),
    _real_times(
        "farm_scheduler_commit_seconds", "Real time of one transaction on the Redis server."
    ),
    _real_times(
        "farm_scheduler_aside_seconds",
        "Real time for which reports had to wait for something else: estimates, publications.",
    ),
    _counter(
        "farm_server_losses_total",
        "Times that the server had lost what it had acknowledged, and was given it again.",
    ),
    _gauge(
        "farm_event_log_ok",
        "1: the event log is written; 0: it cannot be (a full disk); absent: none is kept.",
    ),
    _gauge(
        "farm_scheduler_event_lag_seconds",
        "Age of the oldest report when it was booked, real time; 0: none is waiting.",
    ),
    _counter("farm_scheduler_events_total", "Events handled, by kind.", "kind"),
    _counter(
        "farm_scheduler_ignored_events_total",
        "Stale events: late or repeated reports.",
    ),
    _gauge("farm_scheduler_leader", "1: this scheduler is in charge of the farm."),
    _gauge(
        "farm_scheduler_delay_seconds",
        "Largest delay so far from a job's intended arrival to its acceptance.",
    ),
    _gauge("farm_builder_hosts", "Celery processes that run builders."),
    _gauge("farm_clock_seconds", "Farm time."),
    _gauge("farm_clock_speed_ratio", "Farm seconds per real second."),
    _gauge("farm_build_info", "Always 1; the version is its label.", "version"),
)

REDIS = _of(
    _gauge("farm_redis_up", "1: the farm's Redis server answers; 0: it does not."),
    _gauge("farm_redis_memory_bytes", "Memory that the server uses."),
    _gauge(
        "farm_redis_memory_limit_bytes",
        "Memory that it may use: its maxmemory, else the machine's.",
    ),
    _gauge("farm_redis_clients", "Connections to the server."),
    _gauge("farm_redis_clients_limit", "Connections that it may have (maxclients); 0: not known."),
    _gauge("farm_redis_keys", "Keys of the farm's database."),
    _gauge("farm_redis_inbox_length", "Messages that the scheduler has not read yet."),
    _counter("farm_dead_letters_total", "Messages refused by the scheduler, by reason.", "reason"),
    _counter("farm_redis_commands_total", "Commands that the server carried out."),
    _gauge("farm_redis_aof_bytes", "Size of the append-only file; 0: there is none."),
    _gauge(
        "farm_redis_persistence_ok", "1: what was last written to disk went well; 0: it failed."
    ),
    _gauge(
        "farm_server_trouble",
        "1: the Redis server is in this trouble, and dispatching pauses while it refuses us.",
        "kind",
    ),
)

PROVISIONER = _of(
    _gauge(
        "farm_provisioner_actual_builders",
        "Builders that the backend has, by what they do.",
        "pool",
        "state",
    ),
    _gauge(
        "farm_provisioner_limit_builders",
        "Limits of the last plan: fewest (min) and most builders (max), as they hold now.",
        "pool",
        "limit",
    ),
    _gauge(
        "farm_provisioner_reason_info",
        "Always 1: what determined the pool's size (demand, minimum, maximum), and the times for "
        "which the scenario has these limits (by_time; else always).",
        "pool",
        "reason",
        "period",
    ),
    _counter(
        "farm_provisioner_actions_total",
        "Builders requested and drained; those that a backend started, removed, failed to start.",
        "pool",
        "action",
    ),
    _real_times(
        "farm_provisioner_cycle_seconds",
        "Real time of one look at the farm, its plans and what followed.",
    ),
)

HOST = _of(
    _gauge("farm_host_builders", "Builders on this host."),
    _gauge("farm_host_attempts", "Attempts on this host, by the mode of their jobs.", "mode"),
    _counter(
        "farm_host_attempts_total",
        "Attempts that ended on this host, by outcome; lost ones were dropped with their builder.",
        "result",
    ),
    _real_times(
        "farm_host_agenda_lag_seconds",
        "Real time by which something that was due (the end of a job, a heartbeat) came late.",
    ),
    _gauge(
        "farm_host_reports_waiting",
        "Reports to the scheduler that are not on the farm's server yet.",
    ),
    _counter(
        "farm_host_send_failures_total",
        "Tries to send reports that failed, because the server was away; they are repeated.",
    ),
    _counter(
        "farm_host_refused_messages_total",
        "Invalid messages on this host's queue, which were dropped.",
    ),
    _counter(
        "farm_host_burning_seconds_total",
        "Real time from start to end of burning jobs that ended by themselves, times threads.",
        "mode",
    ),
    _counter(
        "farm_host_burning_work_seconds_total",
        "Real time that the work of these jobs takes idle cores, as calibrated, times threads.",
        "mode",
    ),
    _counter("farm_host_burning_cpu_seconds_total", "Processor time that these jobs used.", "mode"),
)

#: what a scheduler exposes, and what is exported of a finished run
FARM = JOBS | BUILDERS | FAIRNESS | SCHEDULER
CATALOGUE = FARM | REDIS | PROVISIONER | HOST
