"""A farm beside clients that burden it: jobs are booked, the leader stays, memory is bounded."""

from __future__ import annotations

import pytest

from benchmarks.crowded_farm import compose_limits, measure, memory_limits

PROBES = 5


def test_the_limits_are_those_of_compose():
    """A server that is started with others would show nothing about Compose."""
    words = compose_limits()
    assert words[words.index("--maxmemory") + 1] == "384mb"
    assert words[words.index("--client-output-buffer-limit") + 1 :][:4] == [
        "normal", "128mb", "64mb", "30",
    ]  # fmt: skip
    assert not {"--aclfile", "--bind", "--dir"} & set(words)
    assert set(memory_limits()) == {"server", "scheduler"}


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("compose", [False, True])
def test_a_crowd_starves_no_job(compose: bool):
    """Its own server, and one with the limits of docker-compose.yml; 20,000 jobs wait.

    The standby took the farm from a leader whose renewals waited behind answers to others.
    """
    seen = measure(PROBES, 20_000, compose=compose)
    assert len(seen.booked) == PROBES
    assert seen.leader_stays
    assert seen.server_peak < seen.server_limit
    if compose:
        assert all(seen.resident[role] < limit for role, limit in memory_limits().items())
