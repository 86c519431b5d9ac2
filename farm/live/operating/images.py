"""Images of the whole farm: made at once or, if that takes long, by a fork of this process."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import math
import os
import signal
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from typing import BinaryIO

import msgspec

from farm.live.operating.answers import FarmImage, ImageName, Refusal
from farm.live.redis.trouble import RedisError
from farm.live.store.published import PIECE, Notices
from farm.processes.child import die_with, kill_before_host

log = logging.getLogger("farm.scheduler")

#: live jobs from which on a fork makes the image: at once they take some 50 ms
FORK_FROM = 20_000
#: an image is used for this multiple of the time that it took, at once and by a fork
SHARE, SHARE_OF_FORK = 20, 4
#: who may wait for an image; who asks beyond that gets no answer
MAX_ASKERS = 300
LOOK_INTERVAL = 0.05
#: real seconds after which a fork is killed: a million waiting jobs take some four
FORK_TIMEOUT = 120

FAILED = Refusal("no image of the farm could be made: ask again later")


class Images:
    """Names an image to those who ask for one, the same for a while."""

    def __init__(self) -> None:
        #: the last image, and until when it is good enough (real)
        self._name, self._until = "", 0.0
        self._copy: Copy | None = None
        #: who waits for that copy, and who asked after it had begun
        self._first: list[str] = []
        self._askers: list[str] = []

    def outdate(self) -> None:
        """Let who asks from now on get a new one."""
        self._until = 0.0
        if self._copy is not None:
            self._copy.is_old = True

    def turn(
        self, asked: Sequence[str], jobs: int, make: Callable[[], FarmImage], notices: Notices
    ) -> float:
        """Begin, end or name an image; return when the next turn is due (real).

        ``make`` makes one; ``jobs`` is the number of live jobs in it.
        """
        self._askers = [*self._askers, *asked][:MAX_ASKERS]
        if self._copy is None and self._askers and time.monotonic() >= self._until:
            self._first, self._askers = self._askers, []
            self._copy = Copy(make, notices.keep_piece, forks=jobs >= FORK_FROM)
        if self._copy is not None and not self._copy.is_alive():
            self._end(self._copy, notices)
        if self._askers and time.monotonic() < self._until:
            notices.reply(ImageName(self._name), *self._askers)
            self._askers = []
        return math.inf if self._copy is None else time.monotonic() + LOOK_INTERVAL

    def _end(self, copy: Copy, notices: Notices) -> None:
        if copy.is_whole:
            now = time.monotonic()
            good_for = copy.share * (now - copy.began)
            notices.keep_image(copy.image, good_for, before=self._name)
            self._name, self._until = copy.image, 0.0 if copy.is_old else now + good_for
        notices.reply(ImageName(copy.image) if copy.is_whole else FAILED, *self._first)
        self._copy, self._first = None, []


class Copy(threading.Thread):
    """Writes an image of the farm as it is now; with a fork, while the farm continues."""

    def __init__(
        self, make: Callable[[], FarmImage], keep: Callable[[str, bytes], object], *, forks: bool
    ) -> None:
        super().__init__(name="farm-image", daemon=True)
        self._keep, self._child = keep, 0
        self.image, self.began = uuid.uuid4().hex, time.monotonic()
        self.share = SHARE_OF_FORK if forks else SHARE
        #: all of it was written; and it lacks what an operator has changed since
        self.is_whole = self.is_old = False
        try:
            self._source = self._forked(make) if forks else io.BytesIO(msgspec.json.encode(make()))
        except OSError as error:  # no memory, or too many processes
            log.warning("no image of the farm can be made: %s", error)
            return
        if forks:
            self.start()
        else:
            self.run()

    def _forked(self, make: Callable[[], FarmImage]) -> BinaryIO:
        """Return the pipe from which a fork's image is read.

        The fork only computes: another thread may have held any lock when it was made.
        """
        (out, into), parent = os.pipe(), os.getpid()
        try:
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                self._child = os.fork()
        except OSError:
            os.close(out)
            os.close(into)
            raise
        if self._child:
            os.close(into)
            return os.fdopen(out, "rb")
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(FORK_TIMEOUT)  # should it wait for such a lock
            os.close(out)  # or a write without a reader would wait
            die_with(parent)
            kill_before_host()
            gc.disable()
            with os.fdopen(into, "wb") as pipe:
                pipe.write(msgspec.json.encode(make()))
            os._exit(0)
        finally:
            os._exit(1)

    def run(self) -> None:
        """Write the image piece by piece."""
        with self._source as source, contextlib.suppress(RedisError):
            while piece := source.read(PIECE):
                self._keep(self.image, piece)
            self.is_whole = True
        if self._child:
            self.is_whole &= os.waitpid(self._child, 0)[1] == 0
