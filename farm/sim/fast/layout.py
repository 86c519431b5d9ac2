"""How jobs, builders and the state of a play lie in memory: what the kernel reads and writes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from farm.sim.fast.heaps import Array, Keyed

# --- what is noted for the story: events, and behind each the commands that it led to ------------

ARRIVALS_ENDED, SUBMITTED, JOINED, STARTED, FINISHED, CLEANED = range(1, 7)
START, END, ALARM = range(7, 10)

JENKINS, LONGEST_IDLE = 0, 1
"""Balancers, by number (``farm.core.dispatching.balancers``)."""

# --- places of ``Farm.counts`` -------------------------------------------------------------------

OPEN, BUSY, WAITING, BOOTING, EVENTS, ENDED, NOTED, BEGUN, ARRIVALS_OVER = range(9)
COUNTS = 9

# --- places of ``Farm.instants`` -----------------------------------------------------------------

NOW, LAST_EVENT, STILL_SINCE, ALARM_AT = range(4)

FREE, CLEANING = -1, -2
"""What a slot is that runs no job."""

PLAYED, HOPELESS = 0, 1
"""How a play ended: to its end, or where jobs were to be given up, which is not played here."""


JOB = np.dtype(
    [
        ("work", np.float64),
        #: its place in the order of all jobs' keys
        ("order", np.int64),
        ("lane", np.int64),
        ("heavy", np.int64),
        ("memory_heavy", np.int64),
        ("submitted_at", np.float64),
        ("dispatched_at", np.float64),
        ("finished_at", np.float64),
        ("builder", np.int64),
        ("slot", np.int64),
    ]
)
#: jobs submitted together, up to where the next batch begins; one more batch stands at the end
BATCH = np.dtype([("at", np.float64), ("begin", np.int64)])
BUILDER = np.dtype(
    [
        ("index", np.int64),
        ("group", np.int64),
        ("slots", np.int64),
        ("first_slot", np.int64),
        ("speed", np.float64),
        ("takes_jobs", np.bool_),
        ("joins_at", np.float64),
        ("inter_job_time", np.float64),
        #: its law of contention; -1: none
        ("law", np.int64),
        ("joined", np.bool_),
        ("busy", np.int64),
        ("active_at", np.float64),
        # contention: the clock of work done, and what runs
        ("clock_at", np.float64),
        ("clock_work", np.float64),
        ("clock_rate", np.float64),
        ("seen_at", np.float64),
        ("jobs", np.int64),
        ("heavy", np.int64),
        ("memory_heavy", np.int64),
    ]
)
#: ``job`` runs there (-1: none, -2: the slot is being cleaned)
SLOT = np.dtype([("builder", np.int64), ("job", np.int64), ("ends_at_work", np.float64)])
#: its jobs wait in ``Farm.queue`` from ``begin`` on
LANE = np.dtype([("begin", np.int64), ("waiting", np.int64)])
NOTE = np.dtype([("kind", np.int64), ("what", np.int64), ("at", np.float64)])


class Farm(NamedTuple):
    """Everything that one play needs; ``load.py`` and ``play.py`` fill it in."""

    #: in order of submission
    jobs: Array
    #: the jobs in the order of their keys
    in_order: Array
    batches: Array
    #: in order of request
    builders: Array
    #: builder after builder
    slots: Array
    lanes: Array
    #: the places, in the order of keys, of the jobs that wait: a heap for each lane
    queue: Array
    #: whether the builders of a group may run the jobs of a lane
    serves: Array
    #: slowdown by law, heavy jobs and memory-heavy jobs
    slowdown: Array
    #: builders with room, by group
    free: Keyed
    #: what comes next of slots, and behind them of builders
    agenda: Keyed
    counts: Array
    instants: Array
    #: jobs dispatched by the event being handled: they start next
    begun: Array
    #: jobs in order of ending
    ended: Array
    #: none are taken where there is no room for any
    notes: Array
