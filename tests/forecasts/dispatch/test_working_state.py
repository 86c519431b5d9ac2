"""The estimator on the scheduler's own state."""

from farm.core.dispatching.balancers import RANKINGS
from farm.core.dispatching.matching import BuilderGroup, Lane
from farm.core.model import Builder, Job, Platform
from farm.core.queues.plain import PlainQueue
from farm.core.state.working_state import BuilderState, JobState, JobStatus, PoolCounts
from farm.forecasts.dispatch.farm_snapshot import builder_view, job_view
from farm.forecasts.dispatch.in_steps import QueueSweep
from farm.forecasts.dispatch.queue_estimates import QueueEstimates, estimate_queue
from farm.forecasts.dispatch.rules import FARM
from farm.forecasts.dispatch.view import FarmView
from tests.fixtures.estimates import whole_table

I386 = Platform("i386", True)


def waiting(serial, estimated_time, platform=I386):
    """Return a waiting job."""
    job = Job(id=f"j{serial}", service_time=1.0, platform=platform)
    return JobState(
        job, serial, (serial,), 0.0, estimated_time, lane=None, status=JobStatus.WAITING
    )


def builder(index, slots=1, *, accepts=True):
    """Return a joined builder with free slots."""
    made = Builder(id=f"b{index}", pool="p", index=index, processors=("i386",), slots=slots)
    group = BuilderGroup(made, RANKINGS["jenkins"])
    state = BuilderState(made, 0.0, 0.0, group=group, pool=PoolCounts("p"))
    state.draining = not accepts
    state.accepts = accepts
    return state


def give(state, slot, *, status, **times):
    """Let the slot run the job."""
    slot.running, state.slot, state.status = state, slot, status
    for name, value in times.items():
        setattr(state, name, value)


def queue_estimates(builders, waiting, at) -> QueueEstimates:
    """Sweep one queue of any platforms, in order of the keys."""
    lane = Lane(I386, PlainQueue())
    for state in waiting:
        lane.queue.add(state, at)
        lane.waiting += 1
    return QueueSweep([lane], builders, at).finish()


def test_running_jobs_free_their_slots():
    """Elapsed time counts from the start, else from dispatch; draining builders do not count."""
    one, draining = builder(0, slots=2), builder(1, accepts=False)
    give(
        waiting(1, 100.0),
        one.slots[0],
        status=JobStatus.RUNNING,
        dispatched_at=5.0,
        started_at=10.0,
    )
    give(waiting(2, 100.0), one.slots[1], status=JobStatus.DISPATCHED, dispatched_at=30.0)
    queue = [waiting(3, 60.0), waiting(4, 80.0)]
    found = queue_estimates([one, draining], queue, at=40.0)
    # 100 s estimated, 30 s done; then 60 s ahead ÷ 1 job
    assert whole_table(found) == [70.0, 130.0]
    assert found.new_job(I386) == 70 + 140 / 2


def test_both_ways_agree():
    """The columns give what the view with its explicit order gives, in dispatch order."""
    both = [builder(0), builder(1)]
    give(waiting(1, 50.0), both[0].slots[0], status=JobStatus.CANCELLING, started_at=0.0)
    queue = [waiting(n, 10.0 * n, Platform(None, None) if n % 3 else I386) for n in (4, 5, 7, 9)]
    held = job_view(both[0].slots[0].running, "b0", 50.0, at=5.0)
    told = (held, *(job_view(state, None, state.estimated_time, at=5.0) for state in queue))
    order = tuple(state.serial for state in queue)
    jobs, whole = estimate_queue(FarmView(tuple(map(builder_view, both)), told, order), FARM)
    assert [job.id for job in jobs] == [4, 5, 7, 9]
    assert whole_table(whole) == whole_table(queue_estimates(both, queue, at=5.0))
