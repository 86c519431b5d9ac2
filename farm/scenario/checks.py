"""Checks of workload and pools together, before a run starts.

Messages begin with the dotted key of the source that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from farm.core.errors import ScenarioError
from farm.core.model import Platform
from farm.scenario.model import Scenario
from farm.scenario.workload import Generator, Matrices, Releases, Source, Trace


def check_workload(scenario: Scenario) -> None:
    """Raise ScenarioError if a source never ends or makes jobs that no pool could ever run.

    Platforms in a trace file are checked when the trace is read.
    """
    for index, source in enumerate(scenario.workload):
        where = f"workload.{index}.{source.sort}"
        _refuse_endless(source, scenario, where)
        for platform in _platforms_made(source, scenario, where):
            refuse_unrunnable(scenario, platform, where)


def refuse_unrunnable(scenario: Scenario, platform: Platform, where: str) -> None:
    """Raise ScenarioError if no pool can run this platform and the scenario does not allow that."""
    if scenario.allow_unrunnable or scenario.pools_for(platform):
        return
    pools = ", ".join(f"{pool.name} ({pool.platform})" for pool in scenario.pools)
    raise ScenarioError.of(
        where,
        f"found jobs for {platform} that no pool could ever run; pools: {pools}; "
        "allowed: a platform of theirs, or allow_unrunnable: true (they wait, and are cancelled "
        "when nothing else runs)",
    )


def default_platform(scenario: Scenario, where: str) -> Platform:
    """Return the default platform of jobs; ScenarioError if it is ambiguous."""
    platform = scenario.default_platform
    if platform is None:
        pools = ", ".join(f"{pool.name} ({pool.platform})" for pool in scenario.pools)
        raise ScenarioError.of(
            f"{where}.platform", f"this key is required where pools differ; pools: {pools}"
        )
    return platform


def _refuse_endless(source: Source, scenario: Scenario, where: str) -> None:
    made = source.options
    if isinstance(made, Releases) and not (made.count or made.duration or scenario.phases):
        raise ScenarioError.of(
            where,
            "found a generator without an end; allowed: its count or duration, or "
            "phases for the whole scenario",
        )


def _platforms_made(source: Source, scenario: Scenario, where: str) -> Iterator[Platform]:
    options = source.options
    if isinstance(options, Generator):
        return  # its jobs are checked as they are made
    if isinstance(options, Trace):
        if options.platform is not None:
            yield options.platform.platform
        return
    if isinstance(options, Matrices) and options.jobs is not None:
        own = [job.platform for job in options.jobs]
        yield from (demand.platform for demand in own if demand is not None)
        if None not in own:
            return
    if options.platform is None:
        yield default_platform(scenario, where)
        return
    yield from (demand.platform for demand in options.platform if demand.weight > 0)
