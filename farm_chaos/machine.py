"""The machine that the farm sees: slow syncs, a full disk, a torn log, a wall clock that is set.

A small library is preloaded before the C library in each process of the farm (``LD_PRELOAD``) and
reads four settings from a file that all of them have mapped. So all processes have the same
trouble, as on a real machine. Root is not needed, but a C compiler is.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from farm.core.errors import InputError
from farm_chaos.plan import FAKED, FaultKind

_SOURCE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct dials { double sync_time, disk_is_full, clock_ahead, log_is_torn; };
static const struct dials sound;
static const volatile struct dials *dials = &sound;
static const char *disk;

__attribute__((constructor)) static void find_dials(void) {
    const char *path = getenv("CHAOS_DIALS"), *folder = getenv("CHAOS_DISK");
    int file = path && folder ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    disk = strdup(folder);
    void *map = mmap(NULL, sizeof sound, PROT_READ, MAP_SHARED, file, 0);
    if (disk && map != MAP_FAILED) dials = map;
    close(file);
}
static long sync_slowly(long call, int file) {
    if (dials->sync_time > 0) usleep(dials->sync_time * 1e6);
    return syscall(call, file);
}
int fsync(int file) { return sync_slowly(SYS_fsync, file); }
int fdatasync(int file) { return sync_slowly(SYS_fdatasync, file); }

/* what of it can be written: nothing to a full disk, all but the end of a line to a torn log */
static size_t writable(int file, size_t size) {
    char link[64], path[PATH_MAX] = "";
    if (!dials->disk_is_full && !dials->log_is_torn) return size;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (readlink(link, path, sizeof path - 1) <= 0 || strncmp(path, disk, strlen(disk)))
        return size;
    if (dials->disk_is_full) return 0;
    if (strncmp(path + strlen(disk), "/log/", 5)) return size;
    int is_position = strstr(path, "/log/position") != NULL;
    if (dials->log_is_torn > 1) return is_position ? 0 : size;
    return is_position || size < 64 ? 0 : size / 2;
}
ssize_t write(int file, const void *data, size_t size) {
    size_t most = writable(file, size);
    if (size && !most) { errno = ENOSPC; return -1; }
    return syscall(SYS_write, file, data, most);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long result = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += (time_t)dials->clock_ahead;
    return result;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    long result = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return result;
}
time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""


class Machine:
    """What the processes of one farm see of their machine.

    Args:
        folder: where the library and its dials go.
        disk: the folder that lies on the disk which can be full.
    """

    def __init__(self, folder: Path, disk: Path) -> None:
        self._library, self._dials = folder / "machine.so", folder / "dials"
        self._disk = disk
        self._values = dict.fromkeys(
            ("sync_time", "disk_is_full", "clock_ahead", "log_is_torn"), 0.0
        )
        self._write()

    def environment(self) -> dict[str, str]:
        """Return what a process needs in its environment; nothing where this cannot be done."""
        if not can_be_faked():
            return {}
        source = self._library.with_suffix(".c")
        source.write_text(_SOURCE)
        words = ["cc", "-O1", "-shared", "-fPIC", "-o", str(self._library), str(source)]
        found = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        if found.returncode:
            last = (found.stderr.strip() or "no message").splitlines()[-1]
            raise InputError(f"the C compiler cc does not compile, which faults need: {last}")
        return {
            "LD_PRELOAD": str(self._library),
            "CHAOS_DIALS": str(self._dials),
            "CHAOS_DISK": str(self._disk),
        }

    def set(self, **values: float) -> None:
        """Set dials.

        ``sync_time``: real seconds that each sync takes longer; ``disk_is_full``: 1 or 0;
        ``clock_ahead``: whole seconds by which the wall clock is set forward, or (negative) back;
        ``log_is_torn``: 1: no line of the event log is written to its end, nor is its position; 2:
        only the position is not.
        """
        self._values |= values
        self._write()

    def _write(self) -> None:
        text = struct.pack("4d", *self._values.values())
        if self._dials.exists():  # the same file: it is mapped
            with self._dials.open("r+b", buffering=0) as file:
                file.write(text)
        else:
            self._dials.write_bytes(text)


def can_be_faked() -> bool:
    """Whether this machine can preload the library into processes that wait correctly then.

    A Python that waits by the wall clock would be misled by another one than the kernel's.
    """
    waits_well = bool(sysconfig.get_config_var("HAVE_SEM_CLOCKWAIT"))
    return sys.platform.startswith("linux") and shutil.which("cc") is not None and waits_well


def kinds_here(only: Sequence[FaultKind]) -> tuple[FaultKind, ...]:
    """Return the kinds of faults that can be done here, of these (empty: of all).

    Raises InputError if none is left.
    """
    kinds = tuple(only or FaultKind)
    here = kinds if can_be_faked() else tuple(kind for kind in kinds if kind not in FAKED)
    if not here:
        names = ", ".join(kind.value for kind in kinds)
        raise InputError(f"--only {names}: needs Linux, a C compiler (cc) and glibc 2.30")
    return here
