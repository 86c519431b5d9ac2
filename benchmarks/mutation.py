"""How many small faults in the code its tests notice: the mutation score.

A mutant is the code with one change: a comparison that takes its boundary in, a statement that is
gone, ``and`` for ``or``. It is killed if a test fails, and survives if all pass: then no test would
notice this fault. Mutants are drawn by a seed among all places of three rooms, and each runs
against the fast tests of these rooms that execute it. Drawing goes by what stands at a place,
not by its line: after a small change of the code, nearly the same mutants are drawn.

    python -m benchmarks.mutation [--count 300] [--seed 1] [--only farm/core/queues]
    python benchmarks/mutation.py --root OTHER_CHECKOUT        # with the Python of that checkout

First the tests run once, to learn which of them execute which lines. Then a process that has
imported their libraries forks for each mutant, which costs some two seconds. Both are kept in
``build/mutation`` for as long as no file changes, so an interrupted run continues.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import tempfile
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, Final, NamedTuple

import coverage
import pytest

#: packages whose faults are looked for, and the folders of their tests
ROOMS: Final = ("farm/core", "farm/live/protocol", "provisioner")
TESTS: Final = ("tests/core", "tests/live", "tests/provisioner")
FAST: Final = "not slow and not live and not timed and not docker and not browser"
#: imported once, for all mutants; none of ours, as these are imported anew with each change
LIBRARIES: Final = ("celery", "fakeredis", "hypothesis", "msgspec", "numpy", "pydantic", "redis",
                    "typer", "yaml")  # fmt: skip
#: tests of a mutant take no more than this together (s); the slowest are left out
MAX_TEST_TIME: Final = 60.0
#: a mutant that takes this many times as long as its tests did has an endless loop
MAX_SLOWDOWN: Final = 5.0
#: seconds beside its tests, for imports and for a busy machine
START_TIME: Final = 20.0
#: the first run of all tests takes no more than this (s of processor time)
MAX_FIRST_TIME: Final = 1_800.0
#: of memory, so that an endless loop cannot take the machine's (bytes)
MAX_MEMORY: Final = 3 << 30


# --- changes --------------------------------------------------------------------------------------


class Change(NamedTuple):
    """A change of a syntax tree, which can be made."""

    operator: str
    node: ast.AST
    before: str
    after: str
    #: the functions and classes that it stands in
    scope: tuple[str, ...]
    #: executed when its function is called, not when the module is imported
    in_function: bool
    make: Callable[[], None]


BOUNDARIES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
OPPOSITES: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
SIBLINGS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
#: calls whose first two arguments mean the same in either order, or are never mistaken
NO_ORDER: Final = {
    "min",
    "max",
    "isinstance",
    "issubclass",
    "cast",
    "getattr",
    "hasattr",
    "isclose",
}
LOGGERS: Final = {"log", "logger", "logging"}
#: keyword arguments that only guard against a mistake, or that save time or memory
WITHOUT_EFFECT: Final = {"strict", "maxsize", "exc_info", "stacklevel", "daemon"}
#: assignments that only save memory, or tell a linter what is public
NOT_RUN: Final = {"__slots__", "__all__", "__match_args__"}


class Finder(ast.NodeVisitor):
    """Collects the changes of a module, in the order of its text.

    What has no effect on behaviour is passed over: annotations, docstrings and other texts, what is
    logged, decorators and options of classes, blocks for type checkers.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._scope: list[str] = []
        self._depth = 0

    # what is passed over

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}
        if decorators & {"overload", "abstractmethod"} or node.name in {"__repr__", "__str__"}:
            return
        self._scope.append(node.name)
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        self._depth += 1
        self._visit_all(node.body)
        self._depth -= 1
        self._scope.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - as ast names it

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._depth += 1
        self.visit(node.body)
        self._depth -= 1

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scope.append(node.name)
        self._visit_all(node.body)
        self._scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Pass over the message."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Pass over a text."""

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not self._depth and isinstance(node.value, ast.Name):
            return
        self.generic_visit(node)

    # what is changed

    def generic_visit(self, node: ast.AST) -> None:
        """Remove each statement in turn, then look inside."""
        for _, value in ast.iter_fields(node):
            if isinstance(value, list):
                self._visit_all(value)
            elif isinstance(value, ast.AST):
                self.visit(value)

    def _visit_all(self, nodes: list[Any]) -> None:
        for index, node in enumerate(nodes):
            if not isinstance(node, ast.AST) or is_for_tools(node):
                continue
            if isinstance(node, ast.stmt) and is_removable(node):
                gone = ast.copy_location(ast.Pass(), node)
                self._add("statement", node, "pass", _setter(nodes, index, gone))
            self.visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, operator in enumerate(node.ops):
            for name, table in (("boundary", BOUNDARIES), ("comparison", OPPOSITES)):
                if type(operator) in table:
                    other = table[type(operator)]()
                    self._replace(name, node, node.ops, index, other)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._assign("and/or", node, "op", other)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._assign("not", node, "operand", negated(node.operand))
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        self._negate(node, "test")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node, "test")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node, "test")
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._negate(node, "guard")
            self.visit(node.guard)
        self._visit_all(node.body)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for index, test in enumerate(node.ifs):
            if is_plain(test):
                change = _setter(node.ifs, index, negated(test))
                self._add("condition", test, f"not {ast.unparse(test)}", change)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        literal = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set)
        sides = (node.left, node.right)
        is_text = any(isinstance(side, literal) or _is_text(side) for side in sides)
        is_union = isinstance(node.op, ast.BitOr) and not self._depth
        if type(node.op) in ARITHMETIC and not is_text and not is_union:
            self._assign("arithmetic", node, "op", ARITHMETIC[type(node.op)]())
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in ARITHMETIC:
            self._assign("arithmetic", node, "op", ARITHMETIC[type(node.op)]())
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._assign("constant", node, "value", not node.value)
        elif isinstance(node.value, int | float):
            self._assign("constant", node, "value", node.value + 1)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        if not isinstance(node.value, ast.Constant):
            nothing = ast.copy_location(ast.Constant(None), node.value)
            self._assign("return", node, "value", nothing)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if is_logging(node):
            return
        name = ast.unparse(node.func).split(".")[-1]
        if isinstance(node.func, ast.Name) and name in SIBLINGS:
            self._assign("function", node, "func", ast.Name(SIBLINGS[name], ast.Load()))
        arguments = node.args[:2]
        is_ordered = len(arguments) == 2 and name not in NO_ORDER
        if is_ordered and not any(isinstance(value, ast.Starred) for value in arguments):
            first, second = arguments
            if ast.dump(first) != ast.dump(second):
                swapped = [second, first, *node.args[2:]]
                self._assign("arguments", node, "args", swapped)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in WITHOUT_EFFECT:
            self.visit(node.value)

    # how a change is noted

    def _negate(self, node: Any, field: str) -> None:
        test = getattr(node, field)
        if is_plain(test):
            make = _field_setter(node, field, negated(test))
            self._add("condition", test, f"not {ast.unparse(test)}", make)

    def _assign(self, operator: str, node: Any, field: str, value: Any) -> None:
        """Note that a field of the node gets another value."""
        old, before = getattr(node, field), ast.unparse(node)
        setattr(node, field, value)
        after = ast.unparse(ast.fix_missing_locations(node))
        setattr(node, field, old)
        self._add(operator, node, after, _field_setter(node, field, value), before)

    def _replace(
        self, operator: str, node: ast.AST, values: list[Any], index: int, value: Any
    ) -> None:
        """Note that a list of the node gets another element."""
        old, before = values[index], ast.unparse(node)
        values[index] = value
        after = ast.unparse(node)
        values[index] = old
        self._add(operator, node, after, _setter(values, index, value), before)

    def _add(
        self,
        operator: str,
        node: ast.AST,
        after: str,
        make: Callable[[], None],
        before: str | None = None,
    ) -> None:
        self.changes.append(
            Change(
                operator=operator,
                node=node,
                before=ast.unparse(node) if before is None else before,
                after=after,
                scope=tuple(self._scope),
                in_function=self._depth > 0,
                make=make,
            )
        )


def _setter(values: list[Any], index: int, value: Any) -> Callable[[], None]:
    return lambda: values.__setitem__(index, value)


def _field_setter(node: Any, field: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


def negated(test: ast.expr) -> ast.expr:
    """Return ``not test``."""
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


def is_plain(test: ast.expr) -> bool:
    """Whether a condition is no comparison or combination, which has changes of its own."""
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return not is_not and not isinstance(test, ast.Compare | ast.BoolOp | ast.Constant)


def is_removable(node: ast.stmt) -> bool:
    """Whether a statement can be left out without a name that is missing then."""
    match node:
        case ast.Expr(value=ast.Call() as call):
            return not is_logging(call)
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            return True
        case ast.Assign(targets=[target]):
            return isinstance(target, ast.Attribute | ast.Subscript)
        case ast.Delete(targets=[target]):
            return isinstance(target, ast.Attribute | ast.Subscript)
        case ast.Raise(exc=error):
            return error is None or "NotImplementedError" not in ast.unparse(error)
        case ast.AugAssign() | ast.Continue() | ast.Break():
            return True
        case ast.Return(value=None):
            return True
    return False


def is_logging(call: ast.Call) -> bool:
    """Whether a call only writes a log line."""
    match call.func:
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name.lstrip("_").lower() in LOGGERS
    return False


def is_for_tools(node: ast.AST) -> bool:
    """Whether a statement is an assignment without an effect on behaviour."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(target, ast.Name) and target.id in NOT_RUN for target in targets)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def changes_of(source: str) -> tuple[ast.Module, list[Change]]:
    """Return the tree of a module, and the changes of it."""
    tree = ast.parse(source)
    finder = Finder()
    finder.visit(tree)
    return tree, finder.changes


def mutated(source: str, number: int) -> ast.Module:
    """Return the tree of a module with the change of this number."""
    tree, changes = changes_of(source)
    changes[number].make()
    return ast.fix_missing_locations(tree)


# --- drawing --------------------------------------------------------------------------------------


class Mutant(NamedTuple):
    """A change of a file, as it is drawn and reported."""

    #: names it for as long as its function does not change
    key: str
    path: str
    room: str
    #: of the change in its file
    number: int
    operator: str
    scope: str
    line: int
    last_line: int
    in_function: bool
    before: str
    after: str

    @property
    def text(self) -> str:
        """Where it is, and what it changes."""
        place = f"{self.path}:{self.line} {self.scope}".rstrip()
        return f"{place}: {self.operator}: {shortened(self.before)}  →  {shortened(self.after)}"


def shortened(text: str, length: int = 90) -> str:
    """Return a text on one line, without its end if it is long."""
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[:length]}…"


def all_mutants(root: Path) -> Iterator[Mutant]:
    """Yield the mutants of all rooms."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            if path.name == "__main__.py":
                continue
            _, changes = changes_of(path.read_text(encoding="utf-8"))
            seen: Counter[str] = Counter()
            for number, change in enumerate(changes):
                scope = ".".join(change.scope)
                parts = (path.name, scope, change.operator, change.before, change.after)
                name = "\n".join(parts)
                seen[name] += 1
                key = hashlib.sha256(f"{name}\n{seen[name]}".encode()).hexdigest()[:16]
                line: int = getattr(change.node, "lineno")  # noqa: B009 - not all nodes have it
                last_line: int = getattr(change.node, "end_lineno")  # noqa: B009
                yield Mutant(
                    key=key,
                    path=path.relative_to(root).as_posix(),
                    room=room,
                    number=number,
                    operator=change.operator,
                    scope=scope,
                    line=line,
                    last_line=last_line,
                    in_function=change.in_function,
                    before=change.before,
                    after=change.after,
                )


def draw(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return this number of mutants, each as likely as any other, in the order of their places.

    Their keys and the seed decide, not how many there are: those of unchanged code stay drawn.
    """

    def lot(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    drawn = sorted(mutants, key=lot)[:count]
    return sorted(drawn, key=lambda mutant: (mutant.path, mutant.line, mutant.number))


# --- tests ----------------------------------------------------------------------------------------


class Knowledge(NamedTuple):
    """What a run of the unchanged tests shows."""

    #: seconds of each test that passed, by its node id
    times: dict[str, float]
    #: of each file the tests that execute each line; "": it is executed by an import
    tests_of_line: dict[str, dict[int, list[str]]]

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Return the tests that can notice a mutant, the cheapest first.

        What is executed while a module is imported may matter to every test that uses it.
        """
        lines = self.tests_of_line.get(mutant.path, {})
        place = range(mutant.line, mutant.last_line + 1)
        names = {name for line in place for name in lines.get(line, ())}
        if "" in names or not mutant.in_function:
            names = {name for tests in lines.values() for name in tests}
            names = names if names > {""} else {*self.times}
        tests = sorted(names & self.times.keys(), key=lambda name: (self.times[name], name))
        total = 0.0
        for number, name in enumerate(tests):
            total += self.times[name]
            if total > MAX_TEST_TIME:
                return tests[: max(number, 1)]
        return tests


class Observer:
    """A pytest plugin: which tests pass, how long they take, and which lines they execute."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.times: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count lines for this test."""
        self._measured.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how it went."""
        self.times[report.nodeid] += report.duration
        if not report.passed:
            self.failed.add(report.nodeid)


class Selection:
    """A pytest plugin: runs these tests in this order, and notes the first that fails."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._rank = {name: number for number, name in enumerate(tests)}
        self.failed = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, object, object]:
        """Leave out all others, after what conftest.py does."""
        result = yield
        chosen = [item for item in items if item.nodeid in self._rank]
        items[:] = sorted(chosen, key=lambda item: self._rank[item.nodeid])
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first test that fails."""
        if report.failed and not self.failed:
            self.failed = report.nodeid


def run_pytest(arguments: Sequence[str], plugin: object, folder: str) -> int:
    """Run pytest without what is kept between runs; return its exit code."""
    options = ["-q", "--assert=plain", "-p", "no:cacheprovider", f"--basetemp={folder}/tests"]
    return int(pytest.main([*options, *arguments], plugins=[plugin]))


def observe(root: Path, folder: str) -> dict[str, Any]:
    """Run the fast tests; return their times, and which executed which line."""
    measured = coverage.Coverage(
        data_file=None,
        include=[f"{root}/{room}/*" for room in ROOMS],
        config_file=False,
        messages=False,
    )
    observer = Observer(measured)
    measured.start()
    run_pytest(["-m", FAST, *TESTS], observer, folder)
    measured.stop()
    data = measured.get_data()
    lines = {
        Path(path).relative_to(root).as_posix(): data.contexts_by_lineno(path)
        for path in data.measured_files()
    }
    times = {name: spent for name, spent in observer.times.items() if name not in observer.failed}
    return {"times": times, "lines": lines, "failed": sorted(observer.failed)}


class ChangedLoader(importlib.machinery.SourceFileLoader):
    """Loads a file as if it had this code."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - it has one file
        """Return the code that was given."""
        return self._code


class ChangedModule(importlib.abc.MetaPathFinder):
    """Finds a module by a loader of its own; others are found as always."""

    def __init__(self, loader: ChangedLoader) -> None:
        self._loader = loader

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """Find the module whose code is changed."""
        if fullname != self._loader.name:
            return None
        return importlib.util.spec_from_file_location(
            fullname, self._loader.path, loader=self._loader
        )


def module_name(path: str) -> str:
    """Return the name that a file is imported by."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def try_mutant(root: Path, mutant: Mutant, tests: Sequence[str], folder: str) -> dict[str, Any]:
    """Run the tests of a mutant; return the exit code, and the first test that failed."""
    path = root / mutant.path
    tree = mutated(path.read_text(encoding="utf-8"), mutant.number)
    code = compile(tree, str(path), "exec", dont_inherit=True)
    loader = ChangedLoader(module_name(mutant.path), str(path), code)
    sys.meta_path.insert(0, ChangedModule(loader))
    selection = Selection(tests)
    files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
    exit_code = run_pytest(["-x", "-m", FAST, *files], selection, folder)
    return {"exit": exit_code, "failed": selection.failed}


# --- processes ------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """How a child process ended."""

    #: what it returned; None: it was stopped, or fell
    value: dict[str, Any] | None
    #: seconds of processor time of it and its children
    cpu_time: float


def in_child(action: Callable[[str], dict[str, Any]], cpu_limit: float) -> Ended:
    """Do this in a fork of this process, with an empty folder; return how it ended.

    It is stopped after ``cpu_limit`` seconds of processor time, or ten times as many of waiting.
    Whatever it started ends with it.
    """
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        answer = Path(folder, "answer.json")
        child = os.fork()
        if child == 0:
            _be_child(action, answer, folder, cpu_limit)
        watched = os.pidfd_open(child)
        ready, _, _ = select.select([watched], [], [], 10 * cpu_limit)
        os.close(watched)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        if not ready:
            os.kill(child, signal.SIGKILL)
        _, _, usage = os.wait4(child, 0)
        value = None
        if answer.exists():
            value = json.loads(answer.read_text(encoding="utf-8"))
    return Ended(value, usage.ru_utime + usage.ru_stime)


def _be_child(
    action: Callable[[str], dict[str, Any]], answer: Path, folder: str, cpu_limit: float
) -> None:
    """Act as the child process does, and end it."""
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_limit), int(cpu_limit) + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
        os.environ["TMPDIR"] = folder
        tempfile.tempdir = None
        output = os.open(f"{folder}/output", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        value = action(folder)
        written = answer.with_suffix(".new")
        written.write_text(json.dumps(value), encoding="utf-8")
        written.rename(answer)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
        traceback.print_exc()
        os._exit(1)


# --- a run ----------------------------------------------------------------------------------------


def digest_of(root: Path) -> str:
    """Return what changes with the code and its tests."""
    digest = hashlib.sha256()
    for top in ("farm", "workers", "provisioner", "tests"):
        for path in sorted((root / top).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode())
            digest.update(path.read_bytes())
    digest.update((root / "pyproject.toml").read_bytes())
    return digest.hexdigest()[:12]


def learn(root: Path, kept: Path) -> Knowledge:
    """Return what the unchanged tests show, from an earlier run if there is one."""
    if not kept.exists():
        ended = in_child(lambda folder: observe(root, folder), MAX_FIRST_TIME)
        if ended.value is None or not ended.value["times"]:
            sys.exit(f"{', '.join(TESTS)}: no test passed; allowed: tests that do")
        print(f"{len(ended.value['times'])} tests, {ended.cpu_time:.0f} s of CPU")
        for name in ended.value["failed"]:
            print(f"  left out, as it does not pass: {name}")
        kept.write_text(json.dumps(ended.value), encoding="utf-8")
    known = json.loads(kept.read_text(encoding="utf-8"))
    lines = {
        path: {int(line): names for line, names in tests.items()}
        for path, tests in known["lines"].items()
    }
    return Knowledge(known["times"], lines)


def verdict_of(root: Path, mutant: Mutant, knowledge: Knowledge) -> dict[str, Any]:
    """Try a mutant; return its line of the results."""
    tests = knowledge.tests_for(mutant)
    result: dict[str, Any] = {"tests": len(tests), "failed": "", "cpu_s": 0.0}
    if not tests:
        result["verdict"] = "not executed"
    else:
        spent = sum(knowledge.times[name] for name in tests)
        cpu_limit = START_TIME + MAX_SLOWDOWN * spent
        ended = in_child(lambda folder: try_mutant(root, mutant, tests, folder), cpu_limit)
        result["cpu_s"] = round(ended.cpu_time, 2)
        if ended.value is None:
            result["verdict"] = "stopped"
        elif ended.value["exit"] in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            result["verdict"] = "survived"
        else:
            result["verdict"] = "killed"
            result["failed"] = ended.value["failed"]
    return {**mutant._asdict(), **result}


ALIVE: Final = {"survived", "not executed"}


def print_report(results: Sequence[dict[str, Any]]) -> None:
    """Print the survivors, and the score of each room and operator."""
    for result in results:
        if result["verdict"] in ALIVE:
            mutant = Mutant(**{field: result[field] for field in Mutant._fields})
            print(f"{result['verdict']}: {mutant.text}")
    for field in ("operator", "room"):
        groups: dict[str, list[str]] = defaultdict(list)
        for result in results:
            groups[result[field]].append(result["verdict"])
        print()
        for name, verdicts in sorted(groups.items()):
            print(f"{name:20} {score_of(verdicts)}")
    cpu_time = sum(result["cpu_s"] for result in results)
    print(f"{'all':20} {score_of([result['verdict'] for result in results])}")
    print(f"{cpu_time:.0f} s of CPU, load {os.getloadavg()[0]:.1f}")


def score_of(verdicts: Sequence[str]) -> str:
    """Return the share of mutants that are killed, in words."""
    counts = Counter(verdicts)
    killed = counts["killed"] + counts["stopped"]
    return (
        f"{killed:4} of {len(verdicts):4} killed: {100 * killed / len(verdicts):5.1f} %"
        f"  ({counts['stopped']} stopped, {counts['not executed']} not executed)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--count", type=int, default=30, help="mutants that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="of the drawn ones those whose path has this")
    parser.add_argument("--survivors-of", type=Path, help="of the drawn ones these results' alive")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    options = parser.parse_args()

    if os.environ.get("PYTHONHASHSEED") != "0":
        # so that sets have the same order each time
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    root = options.root.resolve()
    os.chdir(root)
    sys.path[:] = [str(root), *(path for path in sys.path if path != str(Path(__file__).parent))]
    for name in LIBRARIES:
        importlib.import_module(name)

    folder = root / "build/mutation"
    folder.mkdir(parents=True, exist_ok=True)
    digest = digest_of(root)
    knowledge = learn(root, folder / f"{digest}.json")
    drawn = draw(all_mutants(root), options.count, options.seed)
    drawn = [mutant for mutant in drawn if options.only in mutant.path]
    if options.survivors_of is not None:
        earlier = read_results(options.survivors_of)
        alive = {key for key, result in earlier.items() if result["verdict"] in ALIVE}
        drawn = [mutant for mutant in drawn if mutant.key in alive]

    file = folder / f"{digest}.jsonl"
    known = read_results(file)
    results: list[dict[str, Any]] = []
    for mutant in drawn:
        result = known.get(mutant.key)
        if result is None:
            result = verdict_of(root, mutant, knowledge)
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(result) + "\n")
        results.append(result)
    print_report(results)
    print(f"results: {file.relative_to(root)}")


def read_results(file: Path) -> dict[str, dict[str, Any]]:
    """Return the results of a file by the keys of their mutants; empty without that file."""
    if not file.exists():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    return {result["key"]: result for result in map(json.loads, lines)}


if __name__ == "__main__":
    main()
