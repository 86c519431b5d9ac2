"""What commands cost as users type them, from change to change, in ``record.jsonl``.

Each line of the record belongs to a change and is committed with it. A measurement installs two
versions, each by a plain ``pip install`` into an environment of its own: the working tree, and the
commit that the last line came with. Both run every command in turn, so the ratio of their processor
times holds on a noisy machine.

    python -m benchmarks.record "what the change does"   # measures, and appends a line
    python -m benchmarks.record --check                  # exit 1 if a command became dearer

A command is dearer if the whole confidence interval of its ratio lies above ``MAX_RATIO``. A change
that is meant to cost more says so in its own line (``--accept 'farm status=reason'``).
"""

from __future__ import annotations

import argparse
import datetime as dt
import io
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np

from farm.results.comparison.significance import mean_of

ROOT: Final = Path(__file__).parents[1]
RECORD: Final = ROOT / "benchmarks/record.jsonl"
PAIRS: Final = 10
#: a command may cost this many times what it cost with the last line
MAX_RATIO: Final = 1.15


class Ratio(msgspec.Struct, frozen=True):
    """Processor time of this version ÷ that of the one before: mean, 95 % confidence interval."""

    low: float
    mean: float
    high: float

    @property
    def is_dearer(self) -> bool:
        """Whether even the least of the interval is more than is allowed."""
        return self.low > MAX_RATIO


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the record."""

    date: str
    change: str
    python: str
    #: load of the machine before the measurement (one-minute average)
    load: float
    #: median processor time of each command, user and system (s)
    cpu_s: dict[str, float]
    #: beside the version before; empty in the first line
    ratios: dict[str, Ratio] = {}
    #: commands that may cost more from this line on, and why
    accepted: dict[str, str] = {}


# --- what is measured -----------------------------------------------------------------------------


class Command(NamedTuple):
    """A command as a user types it, in a folder of its own."""

    arguments: tuple[str, ...]
    #: writes the files that the command reads
    prepare: Callable[[Path], None] = lambda _: None
    #: exit code of a run that did what it should
    exit_code: int = 0

    @property
    def text(self) -> str:
        """The command as it is typed."""
        return " ".join(("farm", *self.arguments))


WEEK = """
name: week
phases: {ramp_up: 1d, run: 5d, ramp_down: 1d}
pools:
  - name: linux
    platform: {processor: amd64}
    boot_time: 20s
    idle_timeout: 15m
    provisioner: {algorithm: taskcluster, max: 1000}
workload: [{trace: {path: week.csv}}]
"""
MILLION = """
name: million
pools: [{name: linux, platform: {processor: amd64}, builders: 100}]
workload:
  - arrivals: {poisson: {rate: 0.08/s}, count: 1000000, service_time: {exponential: {mean: 1000s}}}
"""
SMALL = """
name: small
pools: [{name: linux, platform: {processor: amd64}, builders: 2}]
workload: [{arrivals: {every: 10s, count: 5, service_time: 30s}}]
"""


def write_week(folder: Path) -> None:
    """Write a week of 100,000 jobs as a trace, and a pool that is sized every second for it."""
    rng = np.random.default_rng(1)
    arrived = np.sort(rng.uniform(0.0, 7 * 86_400.0, 100_000)).tolist()
    service = rng.lognormal(6.5, 0.8, 100_000).tolist()
    rows = [f"{at:.3f},{time:.3f}" for at, time in zip(arrived, service, strict=True)]
    lines = ["submitted_at_s,service_time_s", *rows]
    (folder / "week.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "week.yaml").write_text(WEEK, encoding="utf-8")


def write_records(folder: Path) -> None:
    """Write records of a real farm's kind: 20,000 jobs of two platforms, on 60 runners."""
    rng = np.random.default_rng(2)
    lines = ["job_id,platform,runner,submitted_at,started_at,finished_at"]
    for name, runners in (("linux", 40), ("windows", 20)):
        count = 250 * runners * 4 // 3
        arrived = np.sort(rng.uniform(0.0, 250 * 1_000.0, count)).tolist()
        service = rng.lognormal(6.2, 0.7, count).tolist()
        free_at = [0.0] * runners
        for number, (at, time) in enumerate(zip(arrived, service, strict=True)):
            runner = free_at.index(min(free_at))
            start = max(at, free_at[runner])
            free_at[runner] = start + time
            instants = ",".join(
                f"{1_790_000_000 + instant:.3f}" for instant in (at, start, start + time)
            )
            lines.append(f"{name}-{number},{name},{name}-runner-{runner},{instants}")
    (folder / "records.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_text(name: str, text: str) -> Callable[[Path], None]:
    """Return what writes a file of this name."""

    def prepare(folder: Path) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    return prepare


COMMANDS: Final = (
    Command(("--help",)),
    Command(("status",), exit_code=2),
    Command(("simulate", "small.yaml"), write_text("small.yaml", SMALL)),
    Command(("simulate", "quickstart")),
    Command(("simulate", "week.yaml"), write_week),
    Command(("simulate", "week.yaml", "--out", "run"), write_week),
    Command(("simulate", "million.yaml"), write_text("million.yaml", MILLION)),
    Command(("sweep", "quickstart", "-n", "200", "-q")),
    Command(("doctor", "records.csv"), write_records),
)


# --- two versions, installed as a user installs them ----------------------------------------------


def git(*arguments: str, cwd: Path = ROOT) -> bytes:
    """Return what git writes; raises CalledProcessError."""
    return subprocess.run(["git", *arguments], cwd=cwd, check=True, stdout=subprocess.PIPE).stdout


def commit_of_last_line(*, before_head: bool, root: Path = ROOT) -> str | None:
    """Return the commit that the last line came with; None: there is no line.

    Args:
        before_head: the line that HEAD itself brings is passed over, as HEAD is what is measured.
        root: the folder of the checkout.
    """
    place = RECORD.relative_to(ROOT).as_posix()
    commits = git("log", "--format=%H", "--", place, cwd=root).decode().split()
    if before_head:
        head = git("rev-parse", "HEAD", cwd=root).decode().strip()
        commits = [commit for commit in commits if commit != head]
    return commits[0] if commits else None


def install(tree: Path, folder: Path) -> Path:
    """Install a tree by a plain ``pip install`` into a new environment; return its program.

    The dependencies are those of the environment that this script runs in, for both versions.
    """
    venv.create(folder, symlinks=True)
    [site] = (folder / "lib").glob("python*/site-packages")
    own_site = Path(np.__file__).parents[1]
    (site / "dependencies.pth").write_text(f"{own_site}\n", encoding="utf-8")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        f"{folder}/bin/python",
    ]
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--ignore-installed", tree], check=True
    )
    return folder / "bin/farm"


def tree_of(commit: str, folder: Path) -> Path:
    """Write the files of a commit into a new folder, and return that."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as archive:
        archive.extractall(folder, filter="data")
    return folder


# --- measuring ------------------------------------------------------------------------------------


def cpu_time(program: Path, command: Command) -> float:
    """Run a command in an empty folder; return its processor time, user and system (s)."""
    with tempfile.TemporaryDirectory() as folder:
        command.prepare(Path(folder))
        process = subprocess.Popen(
            [program, *command.arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != command.exit_code:
        sys.exit(f"{command.text}: exit code {process.returncode}; expected {command.exit_code}")
    return usage.ru_utime + usage.ru_stime


def measured(programs: Sequence[Path], command: Command) -> list[list[float]]:
    """Return the processor times of a command by each program, in turn, after a run of each."""
    for program in programs:
        cpu_time(program, command)
    times: list[list[float]] = [[] for _ in programs]
    for pair in range(PAIRS):
        order = range(len(programs)) if pair % 2 == 0 else reversed(range(len(programs)))
        for index in order:
            times[index].append(cpu_time(programs[index], command))
    return times


def ratio_of(now: Sequence[float], before: Sequence[float]) -> Ratio:
    """Return the ratio of paired times, by the mean of its logarithm (Student's t).

    Raises ValueError for fewer than two pairs.
    """
    if len(now) < 2:
        raise ValueError(f"found {len(now)} pairs; allowed: 2 or more")
    logarithms = np.log(np.array(now) / np.array(before))
    mean = mean_of(logarithms)
    interval = mean.interval("paired")
    assert interval is not None  # two pairs or more
    low, middle, high = np.exp([interval.low, mean.value, interval.high]).round(3).tolist()
    return Ratio(low, middle, high)


def dearer(ratios: Mapping[str, Ratio], accepted: Mapping[str, str]) -> list[str]:
    """Return a sentence for each command that became dearer, unless that was accepted."""
    return [
        f"{command}: {ratio.mean:.2f} times as dear ({ratio.low:.2f} to {ratio.high:.2f}); "
        f"allowed: {MAX_RATIO}"
        for command, ratio in ratios.items()
        if ratio.is_dearer and command not in accepted
    ]


def last_line() -> Line | None:
    """Return the last line of the record."""
    if not RECORD.exists():
        return None
    lines = RECORD.read_bytes().splitlines()
    return msgspec.json.decode(lines[-1], type=Line) if lines else None


def measure(change: str, base: str | None) -> Line:
    """Measure the working tree, beside a commit if there is one; print a row for each command."""
    load = os.getloadavg()[0]
    cpu_s: dict[str, float] = {}
    ratios: dict[str, Ratio] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        programs = [install(ROOT, folder / "now")]
        if base is not None:
            programs.append(install(tree_of(base, folder / "tree"), folder / "before"))
        print(f"load {load:.1f}; {PAIRS} runs of each; processor time, median (s)")
        for command in COMMANDS:
            now, *before = measured(programs, command)
            cpu_s[command.text] = round(float(np.median(now)), 3)
            row = f"{cpu_s[command.text]:8.3f}"
            for times in before:
                ratio = ratio_of(now, times)
                ratios[command.text] = ratio
                row += f"  {ratio.mean:.2f} of the one before ({ratio.low:.2f} to {ratio.high:.2f})"
            print(f"{row}  {command.text}", flush=True)
    return Line(
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        change=change,
        python=platform.python_version(),
        load=round(load, 2),
        cpu_s=cpu_s,
        ratios=ratios,
    )


def main() -> str | None:
    """Measure; append a line, or check; return what became dearer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("change", nargs="?", help="what the change does, in a sentence")
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--accept", action="append", default=[], metavar="COMMAND=REASON")
    options = parser.parse_args()
    if options.check == (options.change is not None):
        parser.error("allowed: either a sentence about the change, or --check")
    base = commit_of_last_line(before_head=options.check)
    if options.check:
        if base is None:
            print("no earlier line in the record: nothing to compare with")
            return None
        line = last_line()
        accepted: dict[str, str] = {}
        if line is not None and base != commit_of_last_line(before_head=False):
            accepted = line.accepted  # HEAD itself brings the line
        return "\n".join(dearer(measure("", base).ratios, accepted)) or None
    accepted = dict(text.partition("=")[::2] for text in options.accept)
    line = msgspec.structs.replace(measure(options.change, base), accepted=accepted)
    with RECORD.open("ab") as record:
        record.write(msgspec.json.encode(line) + b"\n")
    return None


if __name__ == "__main__":
    sys.exit(main())
