"""The kernels of burning jobs: the right amount of work, of the right kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.burn import kernels
from workers.burn.kernels import MIB, buffer_size, cpu_kernel, memory_kernel
from workers.burn.process import KernelWork, steps
from workers.burn.rates import slices_of


def burnt(parts: list[tuple[float, float | None]], bits: int = 10_000) -> list[int]:
    """Return how many units each kernel did, in at most this many pieces of work."""
    import os

    done = [0] * len(parts)

    def counting(k: int):
        def kernel(units: int) -> None:
            done[k] += units

        return kernel

    kernels = [counting(k) for k in range(len(parts))]
    plan = tuple(KernelWork("cpu", rate, seconds) for rate, seconds in parts)
    for _, alive in zip(range(bits), steps(kernels, plan, os.getppid()), strict=False):
        assert alive
    return done


@pytest.mark.parametrize(("rate", "seconds", "units"), [(900, 2.0, 1800), (3, 0.5, 2), (5, 0, 1)])
def test_a_burning_process_does_its_amount_of_work(rate, seconds, units):
    """An amount of computation, not a time: seconds of work times units of a second, once."""
    assert burnt([(rate, seconds)]) == [units]


def test_mixed_work_takes_turns_until_both_amounts_are_done():
    """Neither kernel is dropped when the other has finished."""
    assert burnt([(100, 1.0), (5000, 0.5)]) == [100, 2500]


def test_work_without_an_end_continues():
    """The heavy jobs of a calibration burn until they are killed."""
    assert burnt([(1000, None)], bits=50) == [50 * 10]


def test_an_orphan_stops():
    """A burning process whose parent has changed ends at the next check."""
    bits = steps([lambda _: None], (KernelWork("cpu", 100.0, None),), parent=-1)
    assert next(bits) is False


def test_kernels_work_and_are_measured():
    """Both kernels run on this machine, and each slice of their work has a rate."""
    assert all(rate > 0 for rate in slices_of(cpu_kernel(), 1, count=2))
    assert all(rate > 0 for rate in slices_of(memory_kernel(4 * MIB), 3, count=2))


def test_the_walk_is_larger_than_the_last_level_cache(tmp_path: Path):
    """Twice the largest cache; within bounds; never all of the free memory."""
    for k, size in enumerate(("32K", "2M", "48M")):
        (tmp_path / f"index{k}").mkdir()
        (tmp_path / f"index{k}" / "size").write_text(size + "\n")
    assert buffer_size(tmp_path) == 96 * MIB
    assert buffer_size(tmp_path, room=320 * MIB) == 20 * MIB
    assert buffer_size(tmp_path / "none") == kernels.MIN_BUFFER
    (tmp_path / "index2" / "size").write_text("1G\n")
    assert buffer_size(tmp_path) == kernels.MAX_BUFFER
    (tmp_path / "index2" / "size").write_text("rubbish")
    assert buffer_size(tmp_path) == kernels.MIN_BUFFER
