"""Every metric of the farm: its name, type, meaning, labels and buckets. None is named elsewhere.

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


JOBS = _of(
    Metric(
        "farm_jobs_submitted_total", "counter", "Jobs handed in, by what they need.", ("platform",)
    ),
    Metric("farm_jobs_total", "counter", "Jobs that ended, by how.", ("outcome",)),
    Metric("farm_jobs_dispatched_total", "counter", "Jobs given to a slot.", ("platform",)),
    Metric("farm_attempts_total", "counter", "Attempts that ended, by how.", ("result",)),
    Metric("farm_queue_depth", "gauge", "Jobs that wait.", ("platform",)),
    Metric(
        "farm_queue_oldest_wait_seconds",
        "gauge",
        "How long the oldest waiting job has waited; 0 for an empty queue.",
        ("platform",),
    ),
    Metric("farm_jobs_running", "gauge", "Jobs on a builder.", ("pool",)),
    Metric(
        "farm_job_waiting_seconds",
        "histogram",
        "Arrival to start, of jobs that ran to their end.",
        buckets=SECOND_TO_DAY,
    ),
    Metric(
        "farm_job_service_seconds",
        "histogram",
        "Start to finish, of jobs that ran to their end.",
        buckets=SECOND_TO_DAY,
    ),
    Metric(
        "farm_job_response_seconds",
        "histogram",
        "Arrival to finish, of jobs that ran to their end.",
        buckets=SECOND_TO_DAY,
    ),
    Metric(
        "farm_matrix_response_seconds",
        "histogram",
        "Release of a matrix to the end of its last job.",
        buckets=SECOND_TO_DAY,
    ),
    Metric(
        "farm_dispatch_estimate_seconds",
        "gauge",
        "Estimated time to dispatch: of the queue's head, of a job submitted now.",
        ("platform", "position"),
    ),
    Metric(
        "farm_dispatch_estimate_error_seconds",
        "histogram",
        "How far dispatch came from its estimate at submission: later, or earlier.",
        ("direction",),
        SECOND_TO_DAY,
    ),
)

BUILDERS = _of(
    Metric("farm_builders", "gauge", "Builders by what they do.", ("pool", "state")),
    Metric("farm_slots", "gauge", "Slots of joined builders by what they do.", ("pool", "state")),
    Metric("farm_builders_requested_total", "counter", "Builders asked for.", ("pool",)),
    Metric("farm_builders_joined_total", "counter", "Builders that came up.", ("pool",)),
    Metric(
        "farm_builders_ended_total",
        "counter",
        "Builders that are gone: retired on purpose, or lost.",
        ("pool", "end"),
    ),
    Metric(
        "farm_builder_boot_seconds",
        "histogram",
        "Request of a builder to its joining.",
        ("pool",),
        SECOND_TO_DAY,
    ),
    Metric(
        "farm_builder_seconds_total",
        "counter",
        "Time that builders were there: what a farm costs.",
        ("pool",),
    ),
    Metric(
        "farm_contention_slowdown_ratio",
        "gauge",
        "Service time taken per service time alone, mean of the last 100 jobs.",
        ("pool",),
    ),
    Metric(
        "farm_provisioner_desired_builders",
        "gauge",
        "Builders that the pool should have.",
        ("pool",),
    ),
)

FAIRNESS = _of(
    Metric(
        "farm_share_slots",
        "gauge",
        "Slots that run jobs of a share (the first fair-share key).",
        ("share",),
    ),
    Metric("farm_share_jobs_submitted_total", "counter", "Jobs handed in by a share.", ("share",)),
    Metric(
        "farm_share_slot_seconds_total",
        "counter",
        "Slot time that a share was given.",
        ("share",),
    ),
    Metric(
        "farm_sticky_dispatches_total",
        "counter",
        "Jobs given to a slot that ran another before, by whether the invocation is the same "
        "down to this level (0: outermost).",
        ("level", "result"),
    ),
)

SCHEDULER = _of(
    Metric(
        "farm_scheduler_cycle_seconds",
        "histogram",
        "Real time from taking reports in to having committed what they led to.",
        buckets=MICROSECONDS,
    ),
    Metric(
        "farm_scheduler_commit_seconds",
        "histogram",
        "Real time of one transaction on the Redis server.",
        buckets=MICROSECONDS,
    ),
    Metric(
        "farm_scheduler_aside_seconds",
        "histogram",
        "Real time for which reports had to wait for something else: estimates, publications.",
        buckets=MICROSECONDS,
    ),
    Metric(
        "farm_scheduler_event_lag_seconds",
        "gauge",
        "Real time that the report taken in last had lain in the inbox.",
    ),
    Metric("farm_scheduler_events_total", "counter", "Facts taken in, by kind.", ("kind",)),
    Metric(
        "farm_scheduler_ignored_events_total",
        "counter",
        "Facts about something that was over: late or repeated reports.",
    ),
    Metric("farm_scheduler_leader", "gauge", "1: this scheduler is in charge of the farm."),
    Metric(
        "farm_scheduler_delay_seconds",
        "gauge",
        "Largest delay so far from a job's intended arrival to its being taken in.",
    ),
    Metric("farm_builder_hosts", "gauge", "Celery processes that play builders."),
    Metric("farm_clock_seconds", "gauge", "Farm time."),
    Metric("farm_clock_speed_ratio", "gauge", "Farm seconds in a real second."),
    Metric("farm_build_info", "gauge", "Always 1; the version is its label.", ("version",)),
)

REDIS = _of(
    Metric("farm_redis_up", "gauge", "1: the farm's Redis server answers; 0: it does not."),
    Metric("farm_redis_memory_bytes", "gauge", "Memory that the server uses."),
    Metric(
        "farm_redis_memory_limit_bytes",
        "gauge",
        "Memory that it may use: its maxmemory, else the machine's.",
    ),
    Metric("farm_redis_clients", "gauge", "Connections to the server."),
    Metric("farm_redis_keys", "gauge", "Keys of the farm's database."),
    Metric("farm_redis_inbox_length", "gauge", "Reports that no scheduler has taken in yet."),
    Metric("farm_redis_commands_total", "counter", "Commands that the server carried out."),
    Metric("farm_redis_aof_bytes", "gauge", "Size of the append-only file; 0: there is none."),
    Metric(
        "farm_redis_persistence_ok",
        "gauge",
        "1: what was last written to disk went well; 0: it failed.",
    ),
)

PROVISIONER = _of(
    Metric(
        "farm_provisioner_actual_builders",
        "gauge",
        "Builders that the backend has, by what they do.",
        ("pool", "state"),
    ),
    Metric(
        "farm_provisioner_actions_total",
        "counter",
        "Builders requested and drained; those that a backend started, removed, failed to start.",
        ("pool", "action"),
    ),
    Metric(
        "farm_provisioner_cycle_seconds",
        "histogram",
        "Real time of one look at the farm, its plans and what followed.",
        buckets=MICROSECONDS,
    ),
)

HOST = _of(
    Metric("farm_host_builders", "gauge", "Builders that this process plays."),
    Metric(
        "farm_host_attempts",
        "gauge",
        "Attempts that this process holds, by the mode of their jobs.",
        ("mode",),
    ),
    Metric(
        "farm_host_attempts_total",
        "counter",
        "Attempts that ended here, by how; lost ones were dropped with their builder.",
        ("result",),
    ),
    Metric(
        "farm_host_agenda_lag_seconds",
        "histogram",
        "Real time by which something that was due (the end of a job, a heartbeat) came late.",
        buckets=MICROSECONDS,
    ),
    Metric(
        "farm_host_reports_waiting",
        "gauge",
        "Reports to the scheduler that are not on the farm's server yet.",
    ),
    Metric(
        "farm_host_send_failures_total",
        "counter",
        "Tries to send reports that failed, because the server was away; they are repeated.",
    ),
    Metric(
        "farm_host_burning_seconds_total",
        "counter",
        "Real time from start to end of burning jobs that ended by themselves, times threads.",
        ("mode",),
    ),
    Metric(
        "farm_host_burning_work_seconds_total",
        "counter",
        "Real time that the work of these jobs takes idle cores, as calibrated, times threads.",
        ("mode",),
    ),
    Metric(
        "farm_host_burning_cpu_seconds_total",
        "counter",
        "Processor time that these jobs used.",
        ("mode",),
    ),
)

#: what a scheduler exposes, and what is exported of a finished run
FARM = JOBS | BUILDERS | FAIRNESS | SCHEDULER
CATALOGUE = FARM | REDIS | PROVISIONER | HOST
