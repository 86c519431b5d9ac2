"""Whether an event log has as much as the other files of its run say."""

from __future__ import annotations

from collections import Counter

from farm.results.audit.auditor import Auditor
from farm.results.run_directory import EVENTS, JOBS, SUMMARY, Run


def missing(run: Run, auditor: Auditor) -> str:
    """Return how the log, which the auditor has seen, and the other files differ; empty: not."""
    if not auditor.events:
        return f"{EVENTS} has no events"
    if run.state == "running":
        return ""
    logged = {name: told.outcome or "lost" for name, told in auditor.jobs.items()}
    listed = dict(zip(run.jobs["job_id"].tolist(), run.jobs["outcome"].tolist(), strict=True))
    if logged != listed:
        one = next(n for n in logged | listed if logged.get(n) != listed.get(n))
        ways = [found.get(one, "not there") for found in (logged, listed)]
        return f"job {one!r} is {ways[0]} by {EVENTS}, and {ways[1]} by {JOBS}"
    said = run.summary
    if said.events != auditor.events:
        return f"{EVENTS} has {auditor.events:,} events; {SUMMARY} says {said.events:,}"
    counts = Counter[str]([*logged.values(), *["submitted"] * len(logged)])
    for name in said.jobs.__struct_fields__:
        count = getattr(said.jobs, name)
        # the summary may be of a part of the run
        if count > counts[name] or (said.run_phase is None and count != counts[name]):
            return f"{counts[name]:,} jobs {name} by {EVENTS}; {SUMMARY} says {count:,}"
    return ""
