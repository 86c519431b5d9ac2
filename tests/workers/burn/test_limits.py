"""The usable part of the machine, read from files as kernels and containers write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.burn.kernels import MIB
from workers.burn.limits import (
    OVERHEAD,
    MemoryBudget,
    NoMemoryError,
    cores_of,
    cpu_quota,
    memory_room,
    own_cores,
    usable_cores,
)


class Machine:
    """A fake /sys/fs/cgroup, /proc/self/cgroup and /proc/meminfo."""

    def __init__(self, folder: Path) -> None:
        self.cgroups = folder / "cgroup"
        self.membership = folder / "self"
        self.memory = folder / "meminfo"

    def member(self, text: str) -> None:
        self.membership.write_text(text)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.cgroups / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")

    @property
    def quota(self) -> float | None:
        return cpu_quota(self.cgroups, self.membership)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a machine without any files."""
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("text", "quota"),
    [("150000 100000", 1.5), ("max 100000", None), ("", None), ("rubbish", None), ("5 0", None)],
)
def test_version_2(machine: Machine, text: str, quota: float | None):
    """``cpu.max`` holds quota and period; ``max`` is no limit."""
    machine.member("0::/farm\n")
    machine.write(farm__cpu_DOT_max=text)
    assert machine.quota == quota


def test_the_tightest_quota_above_counts(machine: Machine):
    """A roomy cgroup inside a tight one is tight."""
    machine.member("0::/a/b\n")
    machine.write(a__b__cpu_DOT_max="400000 100000", a__cpu_DOT_max="50000 100000")
    assert machine.quota == 0.5


def test_inside_a_container_the_mount_is_its_own_cgroup(machine: Machine):
    """The path in /proc may be the one outside; the files are then at the top."""
    machine.member("0::/docker/4f0c\n")
    machine.write(cpu_DOT_max="200000 100000")
    assert machine.quota == 2.0


@pytest.mark.parametrize(("us", "quota"), [("250000", 2.5), ("-1", None), ("0", None)])
def test_version_1(machine: Machine, us: str, quota: float | None):
    """Two files, in the folder of the controllers; -1 is no limit."""
    machine.member("4:cpu,cpuacct:/farm\n3:memory:/farm\n0::/\n")
    name = "cpu,cpuacct__farm__cpu_DOT_cfs_"
    machine.write(**{f"{name}quota_us": us, f"{name}period_us": "100000"})
    assert machine.quota == quota


def test_no_cgroups_at_all(machine: Machine):
    """Another system: no limit is known, affinity counts."""
    assert machine.quota is None
    assert usable_cores(machine.cgroups, machine.membership) == len(own_cores()) >= 1


def test_the_usable_cores_are_quota_or_allowed_processors(machine: Machine):
    """Whichever is less."""
    machine.member("0::/\n")
    machine.write(cpu_DOT_max="25000 100000")
    assert usable_cores(machine.cgroups, machine.membership) == 0.25


def test_memory_that_is_left(machine: Machine):
    """The machine's, or what the cgroup still allows."""
    assert memory_room(machine.cgroups, machine.membership, machine.memory) is None
    machine.memory.write_text("MemTotal: 9 kB\nMemAvailable:    1000 kB\n")
    machine.member("0::/\n")
    machine.write(memory_DOT_max="max", memory_DOT_current="7")
    assert memory_room(machine.cgroups, machine.membership, machine.memory) == 1_024_000
    machine.write(memory_DOT_max="500000", memory_DOT_current="100000")
    assert memory_room(machine.cgroups, machine.membership, machine.memory) == 400_000


@pytest.mark.parametrize(
    ("member", "name", "stat"),
    [("0::/", "memory_DOT_current", "inactive_file"), ("3:memory:/", "", "total_inactive_file")],
)
def test_cached_files_are_no_used_memory(machine: Machine, member, name, stat):
    """The kernel counts cached files as used, and frees them on demand."""
    machine.member(f"{member}\n")
    if name:
        files = {"memory_DOT_max": "500000", name: "400000", "memory_DOT_stat": f"{stat} 300000"}
    else:
        files = {
            "memory__memory_DOT_limit_in_bytes": "500000",
            "memory__memory_DOT_usage_in_bytes": "400000",
            "memory__memory_DOT_stat": f"cache 9\n{stat} 300000\ntotal_active_file 1",
        }
    machine.write(**files)
    assert memory_room(machine.cgroups, machine.membership, machine.memory) == 400_000


def test_builders_take_turns_round_the_machine():
    """Two builders of one core each do not share it on a machine of two."""
    assert cores_of(1, 1, [0, 1], None) == [1]
    assert cores_of(2, 1, [0, 1], None) == [0]
    assert cores_of(1, 2, [0, 2, 4, 6], None) == [4, 6]
    assert cores_of(3, 8, [0, 1], None) == [0, 1]


def test_a_quota_bounds_the_cores_of_a_builder():
    """Four processors on paper, one and a half paid for: two to run on."""
    assert len(cores_of(0, 4, [0, 1, 2, 3], 1.5)) == 2
    assert len(cores_of(0, 4, [0, 1, 2, 3], 0.2)) == 1


# --- Walks through memory use the free memory, and no more ----------------------------------------


def test_with_plenty_of_memory_a_walk_has_its_full_length():
    """Also if the amount of memory is unknown."""
    assert MemoryBudget(64 * MIB, lambda: 10_000 * MIB).take(1, 4, walks=True) == 64 * MIB
    assert MemoryBudget(64 * MIB, lambda: None).take(1, 400, walks=True) == 64 * MIB


def test_little_memory_means_short_walks():
    """All threads of a job together stay within the budget, and leave half of it."""
    budget = MemoryBudget(64 * MIB, lambda: 100 * MIB)
    buffer = budget.take(1, 4, walks=True)
    assert 2 * MIB <= buffer < 64 * MIB
    assert 4 * (buffer + OVERHEAD) <= 38 * MIB


def test_concurrent_walks_share_the_memory():
    """The next comes before the first has filled its buffers; an ended one returns its memory."""
    budget = MemoryBudget(20 * MIB, lambda: 100 * MIB)
    sizes = [budget.take(number, 2, walks=True) for number in range(4)]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(2 * (size + OVERHEAD) for size in sizes) <= 75 * MIB
    with pytest.raises(
        NoMemoryError, match=r"no memory for 9 burning processes: [0-9]+ MiB may be"
    ):
        budget.take(4, 9, walks=True)
    for number in range(4):
        budget.give_back(number)
    assert budget.take(5, 2, walks=True) == sizes[0]


def test_memory_used_by_others_counts():
    """There was room when the host began, and there is none now."""
    rooms = iter([100 * MIB, 1 * MIB])
    with pytest.raises(NoMemoryError):
        MemoryBudget(20 * MIB, lambda: next(rooms)).take(1, 1, walks=True)


def test_a_thousand_processes_need_room_even_if_they_do_not_walk():
    """Refused with a reason, not killed by the kernel."""
    budget = MemoryBudget(20 * MIB, lambda: 100 * MIB)
    assert budget.take(1, 8, walks=False) == 0
    with pytest.raises(NoMemoryError, match="no memory for 1000 burning processes"):
        budget.take(2, 1000, walks=False)
