"""The parts of .ci/run: their order, failures of what runs beside them, and who calls them."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted(GITHUB.glob("workflows/*.yml"))
TOOLS = [
    "git", "promtool", "cc", "stress-ng", "redis-server", "node", "openssl", "ip", "chromium",
    "dockerd", "docker-compose", "iptables", "debootstrap", "python3",
]  # fmt: skip
#: writes its target; the one named in $FAILS fails; the deployed farm is tested until $DOCKER_ENDS
MAKE = """#!/bin/sh
shift
[ "$1" = test-docker ] && while [ ! -e "$DOCKER_ENDS" ]; do sleep 0.01; done
echo "target $1"
echo "$1" >>targets
[ "$1" != "$FAILS" ]
"""
#: as the targets; it takes until $BARE_ENDS
BARE = """#!/bin/sh
while [ ! -e "$BARE_ENDS" ]; do sleep 0.01; done
echo "a bare machine"
echo bare >>targets
[ bare != "$FAILS" ]
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with .ci/run, in which every tool is there and does nothing."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "bin").mkdir()
    for name in TOOLS:
        script(tmp_path / "bin" / name, "#!/bin/sh\n")
    script(tmp_path / "bin/make", MAKE)
    script(tmp_path / ".ci/bare", BARE)
    script(tmp_path / ".ci/make-venv", "#!/bin/sh\nexit 1\n")
    return tmp_path


def script(path: Path, text: str) -> None:
    """Write a program."""
    path.write_text(text)
    path.chmod(0o755)


def run(clone: Path, *parts: str, **environment: str) -> tuple[int, str, list[str]]:
    """Run parts; return the exit code, what was written, and make's targets as they ended."""
    path = f"{clone / 'bin'}:{os.environ['PATH']}"
    at_once = dict.fromkeys(("DOCKER_ENDS", "BARE_ENDS"), str(clone))
    done = subprocess.run(
        [clone / ".ci/run", *parts],
        env={**os.environ, "PATH": path, **at_once, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
    )  # fmt: skip
    targets = clone / "targets"
    return done.returncode, done.stdout, targets.read_text().split() if targets.exists() else []


def all_parts(clone: Path) -> list[str]:
    """Return the parts that .ci/run names when it refuses one."""
    code, said, ran = run(clone, "lint", "nonsense")
    assert (code, ran) == (2, [])
    found = re.fullmatch(r"error: .ci/run: found the part 'nonsense'; allowed: (.*)\n", said)
    assert found, said
    return found[1].split()


def test_times_are_compared_alone_and_last(clone: Path) -> None:
    """All parts run; what runs beside them ends before times of a live farm are compared."""
    code, said, ran = run(clone)
    assert code == 0, said
    assert ran.count("test-docker") == ran.count("bare") == 1
    assert set(ran) == {
        ".venv/.installed-dev", "lint", "types", "contracts", "audit", "kernel", "test-all",
        "bare", "test-docker", "check-record", "test-timed",
    }  # fmt: skip
    assert ran[-2:] == ["check-record", "test-timed"]
    assert ran.index("kernel") < ran.index("test-all")
    assert said.endswith("target test-timed\n"), "pytest's closing line ends the log"
    assert said.index("target test-docker") < said.index("=== durations")
    assert said.index("a bare machine") < said.index("=== durations")


def test_the_deployed_farm_is_tested_beside_the_other_parts(clone: Path) -> None:
    """It mostly waits: here until the slow tests have ended."""
    script(clone / "bin/make", MAKE + '[ "$1" != test-slow ] || touch slow-ended\n')
    parts = ("types", "slow", "docker")
    code, said, ran = run(clone, *parts, DOCKER_ENDS=str(clone / "slow-ended"))
    assert code == 0, said
    assert {*ran[1:3]} == {"kernel", "types"}
    assert [ran[0], *ran[3:]] == [".venv/.installed-dev", "test-slow", "test-docker"]


def test_a_bare_machine_is_tried_beside_the_other_parts(clone: Path) -> None:
    """It mostly installs: here until the fast tests have ended; alone, it is a step."""
    script(clone / "bin/make", MAKE + '[ "$1" != test ] || touch fast-ended\n')
    code, said, ran = run(clone, "lint", "fast", "bare", BARE_ENDS=str(clone / "fast-ended"))
    assert code == 0, said
    assert ran[-2:] == ["test", "bare"]
    assert "=== bare machine, beside the steps above\na bare machine\n" in said
    (clone / "targets").unlink()
    code, said, ran = run(clone, "bare")
    assert (code, ran) == (0, [".venv/.installed-dev", "bare"]), said
    assert said.endswith("=== bare machine\na bare machine\n")


@pytest.mark.parametrize(
    "part", ["kernel", "lint", "test-all", "bare", "test-docker", "check-record", "test-timed"]
)
def test_any_failure_ends_it(clone: Path, part: str) -> None:
    """Also one beside the steps, whose output is shown: nothing later is run."""
    code, said, ran = run(clone, FAILS=part)
    assert code != 0, said
    assert f"target {part}\n" in said or f"a {part} machine\n" in said
    assert "test-timed" not in ran or part == "test-timed"


def test_a_bare_machine_needs_root(clone: Path) -> None:
    """It says so at once, and changes nothing."""
    script(clone / "bin/id", "#!/bin/sh\necho visitor\n")
    done = subprocess.run(
        [ROOT / ".ci/bare"], env={"PATH": f"{clone / 'bin'}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: .ci/bare: found the user visitor; allowed: .*\n", done.stderr)


def test_a_bare_machine_has_indexes_of_packages_and_nothing_else_of_pip() -> None:
    """A folder or constraints of this machine would let a command pass that fails elsewhere."""
    where_packages_are = runpy.run_path(str(ROOT / ".ci/pip_settings.py"))["where_packages_are"]
    listed = """\
:env:.timeout='60'
:env:.cache-dir='/var/cache/pip'
global.constraint='/etc/constraints.txt'
global.extra-index-url='file:///srv/packages https://b.example/simple\\nhttps://c.example/simple'
global.find-links='/srv/wheels'
global.index-url='https://a.example/simple'
user.index-url='https://mine.example/simple'
user.timeout='5'
"""
    environment = {"https_proxy": "http://proxy.example:3128", "PIP_TIMEOUT": "60"}
    assert where_packages_are(listed.splitlines(), environment) == {
        "index-url": "https://mine.example/simple",
        "extra-index-url": "https://b.example/simple https://c.example/simple",
        "proxy": "http://proxy.example:3128",
        "timeout": "60",
    }


@pytest.mark.parametrize("mark", ["browser", "docker", "timed"])
def test_a_target_reads_every_file_that_has_its_mark(mark: str) -> None:
    """It names where they are, so that no other is read."""
    (named,) = re.findall(rf"pytest .*-q -m {mark} (.+) \$", (ROOT / "Makefile").read_text())
    marked = [
        path
        for tests in ("tests", "farm_twin/tests", "farm_studies/tests", "farm_chaos/tests")
        for path in (ROOT / tests).rglob("*.py")
        if f"mark.{mark}" in path.read_text()
    ]
    assert marked
    assert [
        p for p in marked if not any(map(p.is_relative_to, map(ROOT.joinpath, named.split())))
    ] == []


def test_an_ended_run_leaves_no_deployed_farm(clone: Path) -> None:
    """A failure beside the deployed farm interrupts its tests, and waits for their end."""
    cleaning = """#!/bin/sh
    shift
    [ "$1" = lint ] && { while [ ! -e begun ]; do sleep 0.01; done; exit 1; }
    [ "$1" = test-docker ] || exit 0
    trap 'touch removed; exit 130' INT
    touch begun
    while :; do sleep 0.01; done
    """
    script(clone / "bin/make", cleaning)
    assert run(clone)[0] == 1
    assert (clone / "removed").exists()


def calls() -> list[tuple[str, dict[str, Any]]]:
    """Return each command line of .ci/run in a workflow, for each entry of its job's matrix."""
    found = []
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            matrix = job.get("strategy", {}).get("matrix", {})
            assert len(matrix) <= 1, "one axis, or this must learn more"
            for axis, values in matrix.items() or {"": [""]}.items():
                found += [
                    (step["run"].replace(f"${{{{ matrix.{axis} }}}}", value), job)
                    for value in values
                    for step in job["steps"]
                    if ".ci/run" in step.get("run", "")
                ]
    return found


def test_the_workflows_call_every_part_and_no_other(clone: Path) -> None:
    """A part that is renamed or added here is renamed or called there."""
    lines = [line for line, _ in calls()]
    assert all(re.fullmatch(r"\.ci/run( [a-z]+)+", line) for line in lines), lines
    called = {part for line in lines for part in line.split()[1:]}
    assert called == set(all_parts(clone))


def test_the_fast_tests_run_on_each_supported_python() -> None:
    """Those that the package promises."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    tried = [
        version
        for path in WORKFLOWS
        for job in yaml.safe_load(path.read_text())["jobs"].values()
        for version in job.get("strategy", {}).get("matrix", {}).get("python", ())
        if any(step.get("run") == ".ci/run fast" for step in job["steps"])
    ]
    assert tried == promised


def test_workflows_can_do_little() -> None:
    """They may read the clone, and nothing else; their actions have a version."""
    assert WORKFLOWS
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        assert workflow["concurrency"]["cancel-in-progress"] is True
        for job in workflow["jobs"].values():
            assert "permissions" not in job
            assert job["timeout-minutes"] <= 60
            uses = [step for step in job["steps"] if "uses" in step]
            assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in uses)
            (checkout,) = (s for s in uses if s["uses"].startswith("actions/checkout@"))
            assert checkout["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", sorted(GITHUB.glob("ISSUE_TEMPLATE/*.yml")), ids=lambda p: p.stem)
def test_forms_are_complete(path: Path) -> None:
    """What GitHub demands of a form; it would silently not offer a wrong one."""
    form = yaml.safe_load(path.read_text())
    assert {"name", "description", "body"} <= set(form)
    assert {field["type"] for field in form["body"]} <= {"input", "textarea"}
    assert all(field["attributes"]["label"] for field in form["body"])
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids))
