"""Runners whose name is written in several ways: one machine, if it never ran jobs at once.

Names of machines are the same in capitals and in small letters, and agents, their hosts and reports
write them differently. Taken for two machines, each would be idle while the other works.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from farm.records.attempt import Attempt
from farm.records.runners import most_at_once

OTHER_SPELLING = "on a runner whose name is also spelled with other capitals, and taken for one"
"""What is noted of attempts that are so."""
MIN_JOBS = 5
"""Jobs of each spelling, from which it is no chance that none ran at once with another's."""
NOISE = 2.0
"""Seconds by which jobs that follow each other may seem to overlap."""


def joined_spellings(attempts: Sequence[Attempt]) -> int:
    """Name runners that differ by capitals only, and never ran jobs at once, by one name.

    Return of how many attempts. It is the name that most of them have.
    """
    names = {attempt.runner for attempt in attempts}
    count_of = Counter(name.casefold() for name in names)
    alike = {name for name in names if name and count_of[name.casefold()] > 1}
    if not alike:
        return 0
    spellings: dict[str, dict[str, list[Attempt]]] = defaultdict(lambda: defaultdict(list))
    for attempt in attempts:
        if attempt.runner in alike and attempt.ran is not None:
            spellings[attempt.runner.casefold()][attempt.runner].append(attempt)
    name_of: dict[str, str] = {}
    for by_name in spellings.values():
        if len(by_name) > 1 and min(map(len, by_name.values())) >= MIN_JOBS:
            together = [attempt for some in by_name.values() for attempt in some]
            if _at_once(together) <= max(map(_at_once, by_name.values())):
                name = max(by_name, key=lambda spelled: (len(by_name[spelled]), spelled))
                name_of |= dict.fromkeys(by_name, name)
    joined = Counter(attempt.runner in name_of for attempt in attempts)[True]
    for attempt in attempts if joined else ():
        attempt.runner = name_of.get(attempt.runner, attempt.runner)
    return joined


def _at_once(attempts: Sequence[Attempt]) -> int:
    begins = np.array([attempt.started_at for attempt in attempts], np.float64)
    ends = np.array([attempt.finished_at for attempt in attempts], np.float64)
    return most_at_once(begins, ends, NOISE)
