"""The arrays of jobs, builders and a run's state, which the kernel reads and writes."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from farm.sim.fast.kernel.heaps import Array, Keyed

# --- what is noted for the story: events, and behind each the commands that it led to ------------

ARRIVALS_ENDED, SUBMITTED, JOINED, STARTED, FINISHED, CLEANED = range(1, 7)
RETIRED, LOST, RANG, PLANNED = range(7, 11)
START, END, REQUEUED, REQUESTED, DRAINED, RETIRE, LOSE, ALARM = range(11, 19)
# an attempt that failed and is judged; the end of a job that is cancelled
JUDGED, CANCEL_END = range(19, 21)

JENKINS, LONGEST_IDLE = 0, 1
"""Balancers, by number (``farm.core.dispatching.balancers``)."""

NO_LOAD, HEAVY_SHARE, SLOWDOWN = 0, 1, 2
"""By which measure of load builders are held free of heavy jobs (heavy-light), if by any."""

FREE, CLEANING = -1, -2
"""What a slot is that runs no job."""

IS_THERE, HAS_RETIRED, IS_LOST = 0, 1, 2
"""What became of a builder."""

BY_LIFETIME, AS_PLANNED = 1, 2
"""Why a builder is lost."""

ENDS_WELL, ENDS_LOST, ENDS_POISONOUS, ENDS_BLAMED, ENDS_UNSERVED, ENDS_GIVEN_UP = range(1, 7)
ENDS_SKIPPED = 7
"""How a job ended (0: it has not): its attempt did; builders were lost under it; it was to blame
for its failures; while it waited its platform had no builder for too long, or it was given up; it
was skipped while it was blocked. The last two are cancelled."""

MET_BY_SUCCESS, MET_BY_END, MET_BY_FAILURE = 0, 1, 2
"""How a job must have ended that another needs; the first is also that it succeeded, the last that
it failed."""

UNKNOWN_JOB = -1
"""A job that others need, and that is not known when they are submitted."""

PLAYED, HOPELESS, FULL, ASKS, READS_ON = 0, 1, 2, 3, 4
"""How a play came to a halt: at its end; where jobs were to be given up, unless ``gives_up``;
where arrays are full; where a provisioning algorithm is to be asked; where more jobs are needed."""

NOTHING, TICK, ALARM_THING, LIVES = -2, -1, 0, 1
"""What is next: nothing, a provisioner's tick, or a thing of the agenda: the next alarm, then those
of each builder: its slots, its own life (booting, shutting down; contention: its next end), its
lifetime."""


FORMULAS = (
    "", "taskcluster", "arc", "target-wait", "buildkite", "gitlab", "jenkins", "keda", "buildbarn",
    "predictive",
)  # fmt: skip
"""Algorithms whose plans are compiled (``provisioner.algorithms``), by number."""
TASKCLUSTER, ARC, TARGET_WAIT, BUILDKITE, GITLAB, JENKINS_PLANS, KEDA, BUILDBARN = range(1, 9)


def record(**fields: type) -> np.dtype[np.void]:
    """Return the type of records of these fields."""
    return np.dtype(list(fields.items()), align=True)


JOB = record(
    work=np.float64,
    submitted_at=np.float64,
    dispatched_at=np.float64,
    finished_at=np.float64,
    #: its place in the order of all jobs' keys
    order=np.int32,
    builder=np.int32,
    slot=np.int16,
    lane=np.int16,
    attempts=np.int16,
    losses=np.int16,
    #: failed attempts that were judged, and those after which it was reset
    failures=np.int16,
    resets=np.int16,
    heavy=np.int8,
    memory_heavy=np.int8,
    started=np.bool_,
    ended=np.int8,
)
POOL = record(
    group=np.int64,
    slots=np.int64,
    speed=np.float64,
    #: its law of contention; -1: none
    law=np.int64,
    boot_time=np.float64,
    #: between a job's dispatch and its start
    pickup_time=np.float64,
    inter_job_time=np.float64,
    shutdown_time=np.float64,
    #: NaN: an idle builder stays
    idle_timeout=np.float64,
    provisioned=np.bool_,
    #: attempts that a builder takes in its life; 0: any number
    uses=np.int64,
    #: its fixed size, or its initial one
    kept_at=np.int64,
)
#: a pool's builders, with the field names of ``farm.core.state.working_state.PoolCounts``
POOL_COUNTS = record(
    made=np.int64,
    requested=np.int64,
    builders=np.int64,
    accepting=np.int64,
    idle_builders=np.int64,
    running_jobs=np.int64,
    cleaning_slots=np.int64,
    stopping=np.int64,
    #: those that take no more jobs, out of service included, and these alone
    draining=np.int64,
    failed=np.int64,
    draining_jobs=np.int64,
)
#: when a pool's provisioner plans; ``planned``: its last plan
PROVISIONER = record(
    interval=np.float64,
    first_plan_at=np.float64,
    code=np.int64,
    ticked_at=np.float64,
    #: the next tick that is taken; infinity: none, unless something happens
    next_at=np.float64,
    resting=np.bool_,
    planned=np.int64,
    #: which of ``FORMULAS`` plans; 0: its algorithm is asked
    formula=np.int64,
    #: whether it looks at each job, and the job before which all have ended
    closely=np.bool_,
    first_open=np.int64,
    #: whether only builders count for it; those present and going away, when it last was asked
    ignores_jobs=np.bool_,
    joined=np.int64,
    booting=np.int64,
    leaving=np.int64,
)
#: a provisioner's answer; ``answered``: it is valid for the tick that is due
ANSWER = record(
    answered=np.bool_,
    desired=np.int64,
    start=np.int64,
    stop=np.int64,
    stays_until=np.float64,
)
#: what formulas read of an algorithm, by its names; of all algorithms
OPTIONS = record(
    least=np.int64,
    most=np.int64,
    interval=np.float64,
    # taskcluster
    scaling_ratio=np.float64,
    terminates=np.bool_,
    counted=np.int64,
    # target-wait
    objective=np.float64,
    release=np.float64,
    hold=np.float64,
    # buildkite
    availability_threshold=np.float64,
    settle_time=np.float64,
    instance_buffer=np.int64,
    out_factor=np.float64,
    in_factor=np.float64,
    out_cooldown=np.float64,
    in_cooldown=np.float64,
    scale_only_after_all_events=np.bool_,
    disable_scale_in=np.bool_,
    # gitlab
    idle_count=np.int64,
    idle_time=np.float64,
    scale_factor=np.float64,
    scale_factor_limit=np.int64,
    in_machines=np.bool_,
    is_preemptive=np.bool_,
    throttle_limit=np.float64,
    throttle_burst=np.int64,
    max_booting=np.int64,
    # jenkins
    margin=np.float64,
    margin0=np.float64,
    margin_decay=np.float64,
    decay=np.float64,
    initial_delay=np.float64,
    # keda
    counts_running=np.bool_,
    active_from=np.float64,
    target=np.float64,
    polling_interval=np.float64,
    cooldown=np.float64,
    tolerance=np.float64,
    stabilization_window=np.float64,
    scale_up_percent=np.float64,
    scale_up_builders=np.int64,
    scale_up_period=np.float64,
    # buildbarn
    quantile=np.float64,
    window=np.float64,
    # predictive
    period=np.float64,
    step=np.float64,
    ahead=np.float64,
    rate=np.float64,
    headroom=np.float64,
)
#: what algorithms remember, as their formulas name it
MEMORY = record(
    since=np.float64,
    peak=np.int64,
    group=np.int64,
    out_at=np.float64,
    in_at=np.float64,
    tokens=np.float64,
    filled_at=np.float64,
    began_at=np.float64,
    waiting=np.float64,
    available=np.float64,
    planned=np.float64,
    replicas=np.int64,
    polled_at=np.float64,
    active_at=np.float64,
    synced_at=np.float64,
    part=np.int64,
    total=np.float64,
    looks=np.int64,
    # its samples, a ring of ``room`` from ``begin`` on, and where its numbers begin
    begin=np.int64,
    room=np.int64,
    first=np.int64,
    count=np.int64,
    numbers=np.int64,
)
SAMPLE = record(at=np.float64, number=np.int64, added=np.int64)
#: a provisioner's view of a pool, with the field names of ``PoolSnapshot``
LOOK = record(
    at=np.float64,
    slots=np.int64,
    idle=np.int64,
    busy=np.int64,
    booting=np.int64,
    draining=np.int64,
    stopping=np.int64,
    waiting_jobs=np.int64,
    running_jobs=np.int64,
    draining_jobs=np.int64,
    cleaning_slots=np.int64,
    joined=np.int64,
    present=np.int64,
    total=np.int64,
    free_slots=np.int64,
    waiting_work=np.float64,
    oldest_wait_time=np.float64,
    #: infinity: unknown
    next_slot_time=np.float64,
)
#: a builder's fate, by pool and number
FATE = record(takes_jobs=np.bool_, lifetime=np.float64, boot_delay=np.float64)
BUILDER = record(
    pool=np.int32,
    #: its number in its pool
    number=np.int32,
    requested_at=np.float64,
    joined_at=np.float64,
    gone_at=np.float64,
    end=np.int8,
    reason=np.int8,
    takes_jobs=np.bool_,
    accepts=np.bool_,
    draining=np.bool_,
    #: out of service after too many failures; those since an attempt succeeded
    failed=np.bool_,
    failures=np.int16,
    retired=np.bool_,
    #: it is lost already, and the scheduler learns of it next
    vanished=np.bool_,
    timed=np.bool_,
    #: slots that run a job or are being cleaned, and the latter alone
    busy=np.int32,
    cleaning=np.int32,
    active_at=np.float64,
    #: attempts dispatched to it so far
    used=np.int64,
    lifetime=np.float64,
    # contention: the clock of work done, and the load
    clock_at=np.float64,
    clock_work=np.float64,
    clock_rate=np.float64,
    seen_at=np.float64,
    jobs=np.int32,
    heavy=np.int32,
    memory_heavy=np.int32,
    # heavy-light: the jobs sent there, and whether it takes light ones only
    sent=np.int32,
    sent_heavy=np.int32,
    sent_memory_heavy=np.int32,
    overloaded=np.bool_,
)
#: ``job`` runs there (-1: none, -2: the slot is being cleaned)
SLOT = record(ends_at_work=np.float64, job=np.int64)
#: its jobs wait in ``Farm.queue`` from ``begin`` on; ``hopeful``: a pool may still make builders;
#: ``since``: since when they wait without any (infinity: there is one, or no grace ends)
LANE = record(
    begin=np.int64,
    waiting=np.int64,
    hopeful=np.bool_,
    since=np.float64,
    #: it has the heavy jobs of its platform alone (heavy-light), and since when they are held back
    heavy=np.bool_,
    held_since=np.float64,
    #: no builder is looked for now
    passed_over=np.bool_,
    #: jobs were released into it just now: as the first lane, the second, … (0: none were)
    released=np.int64,
)
#: where jobs need others: a waiting job with its sort key, which is ``rank``, ``own``, ``place``
WAITER = record(rank=np.int64, own=np.float64, place=np.int64, job=np.int64)
#: a need of a job, one after the other in the order of the jobs
NEED = record(
    #: the job that has it, and the job that is needed
    of=np.int64,
    job=np.int64,
    condition=np.int8,
    #: that had ended when the job was submitted
    was_over=np.bool_,
)
#: a job where jobs need others; behind the last there is one more, which says where needs end
BLOCKING = record(
    #: where its needs begin, and in ``dependents`` the needs of others that it meets
    needs=np.int64,
    dependents=np.int64,
    delay=np.float64,
    #: whether any of its needs is met by a failure
    awaits_failure=np.bool_,
    # its sort key: what precedes its policy's own part, that part apart from ageing, its place
    rank=np.int64,
    unaged=np.float64,
    own=np.float64,
    place=np.int64,
    blocked=np.bool_,
    #: NaN: it was not, or was never blocked
    released_at=np.float64,
    #: of its needs, those whose jobs have not ended, and those among them that a failure meets
    left=np.int64,
    failures_left=np.int64,
    failure_met=np.bool_,
    #: the first need that can no longer be met; -1: none
    broken=np.int64,
    #: it has just been told that jobs ended
    has_news=np.bool_,
)
#: a builder that a pool loses at an instant
LOSS = record(at=np.float64, pool=np.int64)
#: a void attempt
VOID_ATTEMPT = record(
    job=np.int64,
    builder=np.int64,
    dispatched_at=np.float64,
    ended_at=np.float64,
    #: it failed; otherwise its builder was lost
    failed=np.bool_,
)
PLAN = record(
    pool=np.int64,
    desired=np.int64,
    requested=np.int64,
    running=np.int64,
    waiting=np.int64,
    start=np.int64,
    stop=np.int64,
)
COUNTS = record(
    # of jobs: not ended, in slots, in lanes, blocked
    open=np.int64,
    busy=np.int64,
    waiting=np.int64,
    blocked=np.int64,
    #: jobs that were released behind others, and lanes that have such jobs now
    releases=np.int64,
    released_lanes=np.int64,
    #: ends of which those jobs were told that need them
    followed=np.int64,
    #: whether any job was released or skipped since this was last asked
    changed=np.bool_,
    # of builders: requested and not joined, and all that ever existed
    booting=np.int64,
    made=np.int64,
    #: the next batch to be submitted
    batch_next=np.int64,
    #: whether more jobs arrive than those that are here
    more=np.bool_,
    #: whether jobs that no builder will ever run are ended; otherwise the loop halts there
    gives_up=np.bool_,
    arrivals_over=np.int64,
    events=np.int64,
    # how much of the farm's arrays is used
    ended=np.int64,
    void=np.int64,
    noted=np.int64,
    plans=np.int64,
    alarms=np.int64,
    losses=np.int64,
    soon_first=np.int64,
    soon_last=np.int64,
    #: the pool whose provisioner plans next; -1: none does
    next_tick=np.int64,
    #: builders before this one have ended
    first_alive=np.int64,
    #: provisioners that are not called until something happens
    resting=np.int64,
    #: the pool whose provisioner has to be called
    asked=np.int64,
    begun=np.int64,
    #: slots that each builder has room for
    slots_each=np.int64,
)
#: ``still_since``: since when jobs may be waiting without any builder
INSTANTS = record(
    now=np.float64, last_event=np.float64, still_since=np.float64, gathered_at=np.float64
)
RULES = record(
    ranking=np.int64,
    retries=np.int64,
    max_lost=np.int64,
    ends_at=np.float64,
    #: -1: jobs wait
    platform_grace=np.float64,
    #: -1: failures are not judged
    max_resets=np.int64,
    # heavy-light
    load=np.int64,
    overloaded_at=np.float64,
    room_at=np.float64,
    hold_at_most=np.float64,
    #: where jobs need others: what a second of waiting adds to the policy's part of a key
    ageing=np.float64,
)
SOON = record(kind=np.int64, what=np.int64)
NOTE = record(
    kind=np.int16,
    #: where an attempt was judged: the builder's count of failures, and ``failures`` the job's
    slot=np.int16,
    attempt=np.int16,
    failures=np.int16,
    builder=np.int64,
    what=np.int64,
    at=np.float64,
)


class Farm(NamedTuple):
    """Everything that one run needs; ``job_arrays.py`` and ``play.py`` fill it."""

    #: in order of submission
    jobs: Annotated[Array, JOB]
    #: the jobs in the order of their keys
    in_order: Annotated[Array, np.int32]
    #: the first of the jobs submitted together, batch by batch; finally the number of jobs
    batches: Annotated[Array, np.int32]
    #: the run times that are expected of them, s
    estimates: Annotated[Array, np.float64]
    #: whether their attempts fail
    fails: Annotated[Array, np.bool_]
    #: as they are specified
    pools: Annotated[Array, POOL]
    # by pool
    pool_counts: Annotated[Array, POOL_COUNTS]
    provisioners: Annotated[Array, PROVISIONER]
    answers: Annotated[Array, ANSWER]
    options: Annotated[Array, OPTIONS]
    memories: Annotated[Array, MEMORY]
    looks: Annotated[Array, LOOK]
    #: what algorithms remember of earlier plans, pool by pool: numbers of builders or jobs by
    #: instant; and such numbers in order, or by part of a period
    samples: Annotated[Array, SAMPLE]
    numbers: Annotated[Array, np.float64]
    fates: Annotated[Array, FATE, 2]
    losses: Annotated[Array, LOSS]
    #: in order of request; ``counts.made`` of them are in use
    builders: Annotated[Array, BUILDER]
    #: builder after builder, as many for each as the largest has
    slots: Annotated[Array, SLOT]
    lanes: Annotated[Array, LANE]
    #: the places, in the order of keys, of the waiting jobs: a heap for each lane
    queue: Annotated[Array, np.int32]
    # the rest is empty where no job needs others: the waiting jobs in the place of ``queue``
    line: Annotated[Array, WAITER]
    needs: Annotated[Array, NEED]
    blocking: Annotated[Array, BLOCKING]
    #: places in ``needs``, by the job that is needed
    dependents: Annotated[Array, np.int32]
    #: a heap of the jobs that have just been told of ends
    news: Annotated[Array, np.int32]
    #: jobs whose delay runs, by when that ends
    due: Keyed
    #: whether the builders of a group may run the jobs of a lane
    serves: Annotated[Array, np.bool_, 2]
    #: slowdown by law, heavy jobs and memory-heavy jobs
    slowdown: Annotated[Array, np.float64, 3]
    #: builders with room, by group
    free: Keyed
    #: builders with an idle timer, by its expiry when last checked
    timers: Keyed
    #: the next entries
    agenda: Keyed
    #: instants of alarms that are set, the next one last
    alarms: Annotated[Array, np.float64]
    # one record each
    counts: Annotated[Array, COUNTS]
    instants: Annotated[Array, INSTANTS]
    rules: Annotated[Array, RULES]
    #: events of the present instant that follow from the last commands
    soon: Annotated[Array, SOON]
    #: jobs in order of ending
    ended: Annotated[Array, np.int32]
    #: void attempts
    void: Annotated[Array, VOID_ATTEMPT]
    #: no notes are taken if there is no room for any
    notes: Annotated[Array, NOTE]
    plans: Annotated[Array, PLAN]
