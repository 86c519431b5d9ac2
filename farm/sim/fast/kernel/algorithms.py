"""Plans by the formulas of provisioning algorithms, and what these remember between two plans."""

from __future__ import annotations

import numpy as np

from farm.sim.fast.kernel.layout import (
    ARC,
    BUILDBARN,
    BUILDKITE,
    GITLAB,
    JENKINS_PLANS,
    KEDA,
    TARGET_WAIT,
    TASKCLUSTER,
)
from provisioner.algorithms import (
    arc,
    buildbarn,
    buildkite,
    gitlab,
    jenkins,
    keda,
    predictive,
    target_wait,
    taskcluster,
)
from provisioner.algorithms.sizing import limited, plan_for_size


def decide(formula, look, options, memory, given, samples, numbers):
    """Plan for what is seen of a pool, as its algorithm does (``provisioner.algorithms``)."""
    given.stays_until = look.at  # the next plan may differ, unless something else is known
    if formula == TASKCLUSTER:
        given.desired, given.start, given.stop, _ = taskcluster.plan_in_numbers(look, options)
        given.stays_until = np.inf
    elif formula == ARC:
        given.desired, given.start, given.stop = arc.plan_in_numbers(look, options)
        given.stays_until = np.inf
    elif formula == TARGET_WAIT:
        soonest = look.next_slot_time
        given.desired, given.start, given.stop, memory.since, memory.peak = (
            target_wait.plan_in_numbers(look, options, soonest, memory.since, memory.peak)
        )
        given.stays_until = target_wait.next_change_at(
            look, options, soonest, memory.since, memory.peak
        )
    elif formula == BUILDKITE:
        given.desired, given.start, given.stop, memory.group, memory.out_at, memory.in_at = (
            buildkite.plan_in_numbers(look, options, memory.group, memory.out_at, memory.in_at)
        )
        given.stays_until = buildkite.next_change_at(look, options, memory.out_at, memory.in_at)
    elif formula == GITLAB:
        given.desired, given.start, given.stop, memory.since, memory.tokens, memory.filled_at = (
            gitlab.plan_in_numbers(look, options, memory.since, memory.tokens, memory.filled_at)
        )
        given.stays_until = gitlab.next_change_at(look, options, memory.since, memory.tokens)
    elif formula == JENKINS_PLANS:
        planned = jenkins.plan_in_numbers(
            look, options, memory.began_at, memory.waiting, memory.available, memory.planned
        )
        given.desired, given.start, given.stop = planned[0], planned[1], planned[2]
        memory.began_at, memory.waiting = planned[3], planned[4]
        memory.available, memory.planned = planned[5], planned[6]
    elif formula == KEDA:
        scale(look, options, memory, given, samples)
    elif formula == BUILDBARN:
        remember_jobs(look, options, memory, samples, numbers)
        given.desired, given.start, given.stop, _ = buildbarn.plan_in_numbers(
            look, options, numbers, memory.numbers, memory.count
        )
    else:
        learn(look, options, memory, numbers)
        given.desired, given.start, given.stop, _ = predictive.plan_in_numbers(
            look, options, numbers, memory.numbers
        )


def sample_at(memory, place):
    """Return where a sample is: the oldest one's place is 0."""
    return memory.begin + (memory.first + place) % memory.room


def remember(memory, samples, at, number, added):
    """Add a sample."""
    sample = samples[sample_at(memory, memory.count)]
    sample.at = at
    sample.number = number
    sample.added = added
    memory.count += 1


def forget_oldest(memory):
    """Remove the oldest sample."""
    memory.first = (memory.first + 1) % memory.room
    memory.count -= 1


def scale(look, options, memory, given, samples):
    """Plan as KEDA and the HPA do."""
    at, length = look.at, keda.queue_length(look, options)
    if memory.replicas < 0:
        memory.replicas = limited(look.present, options)
        memory.active_at = at
        remember(memory, samples, at, memory.replicas, 0)
    if keda.is_due(at, memory.polled_at, options.polling_interval):
        memory.replicas = keda.polled(at, length, options, memory.replicas, memory.active_at)
        memory.polled_at = at
        if length >= options.active_from:
            memory.active_at = at
    if memory.replicas and keda.is_due(at, memory.synced_at, options.interval):
        now = memory.replicas
        wanted = keda.recommended(length, options, now)
        steady_from, grown_from = at - options.stabilization_window, at - options.scale_up_period
        while memory.count and samples[sample_at(memory, 0)].at <= min(steady_from, grown_from):
            forget_oldest(memory)
        highest, added = wanted, 0
        for place in range(memory.count):
            sample = samples[sample_at(memory, place)]
            if sample.at > steady_from:
                highest = max(highest, sample.number)
            if sample.at > grown_from:
                added += sample.added
        memory.replicas = keda.synced(options, wanted, now, highest, added)
        memory.synced_at = at
        remember(memory, samples, at, wanted, max(0, memory.replicas - now))
    given.desired, given.start, given.stop = plan_for_size(
        look, options, memory.replicas, look.joined
    )


def remember_jobs(look, options, memory, samples, numbers):
    """Keep the jobs in the system at recent plans, and their numbers in order."""
    begin = memory.numbers
    while memory.count and samples[sample_at(memory, 0)].at <= look.at - options.window:
        place, jobs = begin, samples[sample_at(memory, 0)].number
        forget_oldest(memory)
        while numbers[place] != jobs:
            place += 1
        for later in range(place, begin + memory.count):
            numbers[later] = numbers[later + 1]
    jobs = buildbarn.jobs_in_system(look)
    place = begin + memory.count
    while place > begin and numbers[place - 1] > jobs:
        numbers[place] = numbers[place - 1]
        place -= 1
    numbers[place] = jobs
    remember(memory, samples, look.at, jobs, 0)


def learn(look, options, memory, numbers):
    """Learn the demand of a part of the period once it is over."""
    part = predictive.part_at(look.at, options)
    demand = look.waiting_jobs + look.running_jobs + look.draining_jobs
    if part == memory.part:
        memory.total += demand
        memory.looks += 1
        return
    if memory.looks:
        place, mean = memory.numbers + memory.part, memory.total / memory.looks
        numbers[place] = predictive.learned_demand(numbers[place], mean, options)
    memory.part = part
    memory.total = demand
    memory.looks = 1
