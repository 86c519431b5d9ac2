"""Rules about the code that no linter checks: where settings are read, which names are used."""

from __future__ import annotations

import ast
import contextlib
import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]
PACKAGES = ("farm", "workers", "provisioner", "farm_twin", "farm_studies", "farm_chaos")
TESTS = ("tests", "farm_twin/tests", "farm_studies/tests", "farm_chaos/tests")

FORBIDDEN_NAMES = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}


def sources(*folders: str) -> Iterator[Path]:
    """Every Python file of these folders, without a package's own tests."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "tests" not in path.relative_to(ROOT / folder).parts:
                yield path


def place(path: Path) -> str:
    """Return a file's path relative to the project's root."""
    return path.relative_to(ROOT).as_posix()


def reads_the_environment(path: Path) -> bool:
    """Return whether a module reads os.environ; passing all of it to a child does not count."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if re.search("environ|getenv", text) else ():
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            if any(alias.name in {"environ", "getenv"} for alias in node.names):
                return True
        elif isinstance(node, ast.Attribute) and node.attr == "getenv":
            return True
        elif not isinstance(node, ast.BinOp | ast.Call | ast.keyword):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.Attribute) and child.attr in {"environ", "environb"}:
                    return True
    return False


def test_a_wing_is_imported_for_type_checkers_only():
    """The contract lets ``farm`` name what ``import farm`` has of a wing; it runs without one."""
    source = (ROOT / "farm" / "__init__.py").read_text("utf-8")
    of_wings = [
        (node.col_offset, node.module)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("farm_")
    ]
    checked = source[source.index("if TYPE_CHECKING:") :].partition("\n\n")[0]
    assert of_wings
    assert all(offset and f"from {module} import" in checked for offset, module in of_wings)


IMPORT = re.compile(
    r"^ *(?:from (farm[\w.]*|workers[\w.]*|provisioner[\w.]*) import (\([^)]*\)|.*))", re.MULTILINE
)


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """Return which of these modules a file imports, also within functions or for type checkers."""
    imported = set()
    for package, names in IMPORT.findall(path.read_text("utf-8")):
        for name in re.findall(r"\w+", names):
            inner = f"{package}.{name}"
            imported.add(inner if inner in modules else package)
    return imported & modules


def in_circles(imports: dict[str, set[str]]) -> set[str]:
    """Return the modules that remain when those that nothing follows, or precedes, are left out."""
    while True:
        imported = set().union(*imports.values())
        inner = {name: names for name, names in imports.items() if names and name in imported}
        if len(inner) == len(imports):
            return set(inner)
        imports = {name: names & inner.keys() for name, names in inner.items()}


def test_modules_import_each_other_in_one_circle_only():
    """What a module needs can be read without what needs it, but for core's registry of lanes.

    The names that only type checkers need count too: who reads a module follows them. Which modules
    are in it stands in ARCHITECTURE.md.
    """
    paths = {
        place(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
        for path in sources(*PACKAGES)
    }
    imports = {name: imports_of(path, set(paths) - {name}) for name, path in paths.items()}
    circle = in_circles(imports)
    queues = {name for name in circle if name.startswith("farm.core.queues.")}
    registries = {"state.working_state", "dispatching.matching", "dispatching.balancers"}
    assert circle - queues == {f"farm.core.{name}" for name in registries}


def test_the_environment_is_read_in_settings_only():
    """All settings of the environment are listed in one docstring."""
    readers = [place(path) for path in sources(*PACKAGES) if reads_the_environment(path)]
    assert readers, "the search finds nothing any more"
    assert [path for path in readers if not path.endswith("/settings.py")] == []


def test_no_file_has_a_meaningless_name():
    """A file's name says what is in it."""
    named = [place(path) for path in sources(*PACKAGES, *TESTS) if path.name in FORBIDDEN_NAMES]
    assert named == []


def test_one_word_for_an_event_and_one_for_a_command():
    """GLOSSARY.md: what happened is an event, what was decided is a command."""
    other_words = re.compile(
        r"\bfacts?\b|_facts?\b|\bclass _?Order\b|\borders: list\[Command\]", re.IGNORECASE
    )
    found = [place(path) for path in sources(*PACKAGES) if other_words.search(path.read_text())]
    assert found == []


def test_data_do_not_speak():
    """A value has the name of what it is, and not *told* or *said*: people and programs speak."""
    speaking = re.compile(r"(?:\w+_|\b_?)(?:un)?(?:told|said)(?:_\w+)?")
    found = [
        f"{place(path)}:{node.lineno}: {name}"
        for path in sources("farm", "workers", "provisioner")
        if path.parent.name != "kernel" and speaking.search(text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        for field in ("id", "arg", "attr", "name")
        if isinstance(name := getattr(node, field, None), str) and speaking.fullmatch(name)
    ]
    assert found == []


def test_no_list_of_commands_is_passed_about():
    """The parts of the scheduler share one output, given once; events are handled without it."""
    functions = [
        (place(path), node)
        for path in sources("farm/core")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    assert functions, "the search finds nothing any more"
    filled = [
        f"{file}:{function.name}({argument.arg})"
        for file, function in functions
        for argument in (*function.args.args, *function.args.kwonlyargs)
        if argument.annotation is not None
        and (
            ast.unparse(argument.annotation) == "list[Command]"
            or (ast.unparse(argument.annotation) == "Out" and not made_with(function))
        )
    ]
    assert filled == []


def made_with(function: ast.FunctionDef) -> bool:
    """Return whether a function builds a part of the scheduler, and so is given its output."""
    return function.name == "__init__" or function.name.startswith("_make")


def test_lanes_are_asked_not_searched():
    """Other modules ask Matching, which knows its lanes, and do not go through them themselves."""
    reaching = [
        place(path)
        for path in sources(*PACKAGES)
        if re.search(r"\bmatching\.lanes\b", path.read_text(encoding="utf-8"))
    ]
    assert 0 < len(reaching) <= 5, reaching


def test_every_package_has_an_init_file():
    """A folder without one is invisible to the import contracts and to the installed package."""
    folders = {path.parent for path in sources(*PACKAGES)}
    assert [place(f) for f in sorted(folders) if not (f / "__init__.py").exists()] == []


def test_dependencies_are_pinned():
    """Every dependency has a version in constraints.txt, and only one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    asked = [requirement for group in groups for requirement in group]
    pinned = [
        normal(line)
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert len(pinned) == len(set(pinned))
    assert sorted({normal(name) for name in asked} - set(pinned)) == []


def test_a_plain_install_draws_pages():
    """README installs no extra, and then calls `farm report`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "matplotlib" in {normal(name) for name in project["dependencies"]}
    assert "pip install build_farm_emulator-*.whl && farm run" in (ROOT / "README.md").read_text()


def test_pinned_versions_run_on_the_oldest_python():
    """Python 3.11.2 is Debian 12's: a pin that needs 3.11.5 cannot be installed there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    needs = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        name, _, pinned = line.partition("==")
        with contextlib.suppress(metadata.PackageNotFoundError):
            found = metadata.metadata(name)
            if found["Version"] == pinned:
                needs[name] = found["Requires-Python"] or ""
    assert needs, "nothing of it is installed"
    assert {n: text for n, text in needs.items() if oldest not in SpecifierSet(text)} == {}


def normal(requirement: str) -> str:
    """Return the distribution's name as package indexes compare it."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found.group()).lower()
