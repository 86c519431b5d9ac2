"""The faults that the mutation score is made of: which are tried, where, and by which tests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks import mutation


def changes(source: str) -> list[str]:
    """Return each change of a module as operator: before → after."""
    _, found = mutation.changes_of(source)
    return [f"{change.operator}: {change.before} → {change.after}" for change in found]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", ["boundary: a < b → a <= b", "comparison: a < b → a >= b"]),
        ("a is None", ["comparison: a is None → a is not None"]),
        ("a and b", ["and/or: a and b → a or b"]),
        ("not a", ["not: not a → not not a"]),
        ("if a: pass", ["condition: a → not a"]),
        ("[a for a in b if a.c]", ["condition: a.c → not a.c"]),
        ("a + b", ["arithmetic: a + b → a - b"]),
        ("a += b", ["statement: a += b → pass", "arithmetic: a += b → a -= b"]),
        ("a = 1", ["constant: 1 → 2"]),
        ("a = True", ["constant: True → False"]),
        ("a.b = c", ["statement: a.b = c → pass"]),
        ("del a[b]", ["statement: del a[b] → pass"]),
        ("a()", ["statement: a() → pass"]),
        ("raise a", ["statement: raise a → pass"]),
        ("def f(): return a", ["return: return a → return None"]),
        ("b = f(a, c)", ["arguments: f(a, c) → f(c, a)"]),
        ("b = min(a, c)", ["function: min(a, c) → max(a, c)"]),
        ("match a:\n  case b if c: pass", ["condition: c → not c"]),
    ],
)
def test_each_operator_makes_its_faults(source: str, expected: list[str]) -> None:
    """An operator that makes nothing raises the score without a word."""
    assert changes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""Text."""',
        "a: Literal[1] = b",
        "def f(a: A[1, 2]) -> B[3]: pass",
        "@dataclass(frozen=True)\nclass A(B, gc=False): pass",
        "__slots__ = (1,)",
        "log.info('text', 1)",
        "self._log.warning(a + b)",
        "if TYPE_CHECKING:\n  a = 1",
        "a = f'{b + 1}'",
        "a = 'x' + b",
        "zip(a, b, strict=True)[c]",
        "A = int | None",
        "def f(): raise NotImplementedError",
    ],
)
def test_what_has_no_effect_on_behaviour_is_not_changed(source: str) -> None:
    """No test could kill such a mutant."""
    assert [change for change in changes(source) if not change.startswith("arguments")] == []


def test_a_mutant_differs_in_one_place() -> None:
    """The number of a change is that of the report, also after others in the file."""
    source = "def f(a, b):\n    return a + b if a < b else 0\n"
    _, found = mutation.changes_of(source)

    texts = [ast.unparse(mutation.mutated(source, number)) for number in range(len(found))]

    assert [text.splitlines()[1].strip() for text in texts] == [
        "return None",
        "return a + b if a <= b else 0",
        "return a + b if a >= b else 0",
        "return a - b if a < b else 0",
        "return a + b if a < b else 1",
    ]


def test_mutants_of_unchanged_code_stay_drawn(tmp_path: Path) -> None:
    """Else two versions would be compared by other faults."""
    room = tmp_path / "provisioner"
    room.mkdir()
    code = "\n".join(f"def f{number}(a):\n    return a + {number}" for number in range(40))
    (room / "a.py").write_text(code)
    before = mutation.draw(mutation.all_mutants(tmp_path), count=20, seed=1)
    (room / "a.py").write_text("b = 1\n" + code.replace("def f7(a):", "def g(a):"))
    after = mutation.draw(mutation.all_mutants(tmp_path), count=20, seed=1)

    assert len(before) == len(after) == 20
    assert len({mutant.key for mutant in before} & {mutant.key for mutant in after}) >= 15
    other = mutation.draw(mutation.all_mutants(tmp_path), count=20, seed=2)
    assert {mutant.key for mutant in after} != {mutant.key for mutant in other}


def test_a_mutant_runs_against_the_tests_that_execute_it(tmp_path: Path) -> None:
    """The cheapest first; what is executed at import may matter to each test of the module."""
    (tmp_path / "provisioner").mkdir()
    (tmp_path / "provisioner/a.py").write_text("A = 1\ndef f():\n    a.b = A\n")
    at_import, in_function = mutation.all_mutants(tmp_path)
    lines = {"provisioner/a.py": {1: ["", "first"], 3: ["dear", "cheap", "failed"]}}
    knowledge = mutation.Knowledge({"first": 2.0, "dear": 1.0, "cheap": 0.1, "other": 0.0}, lines)

    assert knowledge.tests_for(in_function) == ["cheap", "dear"]
    assert knowledge.tests_for(at_import) == ["cheap", "dear", "first"]
    assert mutation.Knowledge({"other": 0.0}, {}).tests_for(in_function) == []
    assert mutation.Knowledge({"other": 0.0}, {}).tests_for(at_import) == ["other"]
    called_at_import = {"provisioner/a.py": {3: [""]}}
    assert mutation.Knowledge({"other": 0.0}, called_at_import).tests_for(in_function) == ["other"]
