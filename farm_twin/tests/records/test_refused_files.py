"""Files that carry no evidence are refused in one sentence, and nothing is left behind."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from farm.core.errors import TraceError
from farm_twin.importing import import_files, source_of
from tests.conftest import Said

HEADER = "submitted,started,finished,runner\n"
START = 1_793_610_000


def rows(count: int, wait: Callable[[int], int], ran: int = 300) -> list[str]:
    """Return jobs a minute apart, on nine runners."""
    return [
        f"{START + 60 * n},{START + 60 * n + wait(n)},{START + 60 * n + wait(n) + ran},r-{n % 9}\n"
        for n in range(count)
    ]


def table(path: Path, lines: Sequence[str]) -> Path:
    """Write a table."""
    path.write_text(HEADER + "".join(lines))
    return path


def damaged(path: Path, kind: str) -> Path:
    """Write a table that is good for more than a first read, and then is not."""
    text = (HEADER + "".join(rows(12_000, lambda n: n * n % 977))).encode()
    if kind == "truncated":
        packed = gzip.compress(text)
        path.write_bytes(packed[: len(packed) * 3 // 4])
    else:
        path.write_bytes(text[:-1000] + b"\xff\xfe\xfd" + text[-1000:])
    return path


@pytest.mark.parametrize(
    "command",
    [*(pytest.param(name, marks=pytest.mark.slow) for name in ("doctor", "twin")), "import"],
)
@pytest.mark.parametrize(
    ("kind", "words"), [("truncated", "damaged or truncated gzip"), ("binary", "not UTF-8 text")]
)
def test_damage_far_into_a_file(
    command: str, kind: str, words: str, tmp_path: Path, farm: Callable[..., Said]
):
    """What was read before it does not matter: one sentence, exit 2."""
    path = damaged(tmp_path / "log.csv", kind)
    words_of = {"doctor": ["doctor", path], "twin": ["twin", path, "-o", tmp_path / "mine.yaml"],
                "import": ["import", "csv", path, "-o", tmp_path / "mine"]}  # fmt: skip
    said = farm(*words_of[command], "--quiet")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: {path}: {words}")
    assert said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [path]


def test_the_source_of_a_damaged_file(tmp_path: Path):
    """It is refused already where its source is looked for."""
    path = tmp_path / "log.json"
    path.write_bytes(b"\x80\x81 no text")
    with pytest.raises(TraceError, match="not UTF-8 text"):
        source_of([path])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("jobs.json", "<!DOCTYPE html>\n<p>Sign in, please", "found a page of HTML or XML"),
        ("mine.yaml", "# a, b\npools: []\n", "found YAML"),
        ("jobs", "version: 1\npools: []\n", "found YAML"),
        ("README", "What this is.\n", "found text without columns"),
        (
            "jobs.json",
            '{"message": "Not Found", "status": "404"}',
            "a server's error: Not Found, 404",
        ),
    ],
)
def test_a_file_that_is_no_log(
    name: str, content: str, words: str, tmp_path: Path, farm: Callable[..., Said]
):
    """It is said what it is, and what is wanted: not which columns a web page lacks."""
    (tmp_path / name).write_text(content)
    said = farm("doctor", tmp_path / name, "--quiet")
    assert said.code == 2
    assert f"{words}; allowed: a table with a line of column names, or the JSON of " in said.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PK\x03\x04jobs,", "a zip archive; allowed: the files in it"),
        (
            b"PK\x03\x04\x14\x00[Content_Types].xml\xa2\x04\x02\xff\xff\xff",
            "a spreadsheet; allowed: its table, saved as CSV",
        ),
        (b"(\xb5/\xfdjobs", "a file packed by zstd; allowed: unpacked, or packed by gzip"),
    ],
    ids=["zip", "xlsx", "zstd"],
)
@pytest.mark.parametrize("command", ["doctor", "init"])
def test_a_file_that_is_no_text(
    command: str, content: bytes, words: str, tmp_path: Path, farm: Callable[..., Said]
):
    """It is said how it becomes one that can be read, by each command that reads records."""
    path = tmp_path / "jobs.csv"
    path.write_bytes(content)
    said = farm(command, path, "--quiet", *(("-o", tmp_path / "x") if command == "init" else ()))
    assert (said.code, said.err) == (2, f"error: {path}: found {words}\n")


NO_TIME = "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"


@pytest.mark.parametrize("command", ["doctor", "init"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEADER.encode() + b"".join(b"%d,%d,%d,%d\n" % (n, 99 + n, 50 + n, 60 + n)
                                    for n in range(40)), "40 of 40 attempts started before"),
        *((HEADER.encode() + f"{at},{at},{at},r\n".encode(), "that can be used: 1 without")
          for at in NO_TIME),
        (gzip.compress(gzip.compress(HEADER.encode())), "it is packed twice; allowed: once"),
    ],
    ids=["clocks jump", *NO_TIME, "packed twice"],
)  # fmt: skip
def test_a_table_that_is_no_evidence(
    command: str, content: bytes, words: str, tmp_path: Path, farm: Callable[..., Said]
):
    """Every reader says so in one sentence, and nothing is written."""
    path, out = tmp_path / "log.csv", tmp_path / "out.yaml"
    path.write_bytes(content)
    said = farm(command, path, "--quiet", *(("-o", out) if command == "init" else ()))
    assert (said.code, said.err.count("\n"), out.exists()) == (2, 1, False)
    assert words in said.err


def test_a_folder_is_read_as_its_files_together(tmp_path: Path, farm: Callable[..., Said]):
    """What was fetched lies in one: its pages were to be named one by one."""
    lines = rows(120, lambda n: n % 50)
    pages = tmp_path / "pages"
    (pages / "second").mkdir(parents=True)
    table(pages / "1.csv", lines[:60])
    (pages / "second" / "2.csv.gz").write_bytes(
        gzip.compress((HEADER + "".join(lines[60:])).encode())
    )
    (pages / "README.md").write_text("What this is.\n")

    assert len(import_files([pages]).attempts) == 120
    said = farm("init", pages, "-o", tmp_path / "mine.yaml", "--quiet")
    assert (said.code, said.err) == (0, "")
    assert 'path: "mine.records"' in (tmp_path / "mine.yaml").read_text()
    (tmp_path / "none").mkdir()
    said = farm("doctor", tmp_path / "none", "--quiet")
    assert (said.code, "is a folder, and not a bundle" in said.err) == (2, True)


def test_a_first_scenario_of_a_table_with_one_odd_row(tmp_path: Path, farm: Callable[..., Said]):
    """It plays the other rows, as the doctor examines them, and says that one is not among them."""
    lines = [*rows(60, lambda n: n % 50), "soon,,,\n"]
    said = farm("init", table(tmp_path / "log.csv", lines), "-o", tmp_path / "mine.yaml")
    assert said.code == 0
    assert "kept 60 of 61: 1 that could not be read" in said.err
    assert (tmp_path / "mine.records").is_dir()


@pytest.mark.parametrize("content", [HEADER.encode(), gzip.compress(b"", mtime=0), b"[]"])
def test_nothing_in_it(content: bytes, tmp_path: Path, farm: Callable[..., Said]):
    """The file is named."""
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    said = farm("doctor", path, "--quiet")
    assert (said.code, said.out) == (2, "")
    assert "log.csv: " in said.err


def test_a_column_named_twice(tmp_path: Path, farm: Callable[..., Said]):
    """Which of them is meant is not known; one that is not asked for does no harm."""
    header = HEADER.strip().replace("runner", "runner,note,note,submitted")
    cells = [f"{START + n},{START + n + 5},{START + n + 65},r-1,,,{START}\n" for n in range(3)]
    path = tmp_path / "log.csv"
    path.write_text("".join([f"{header}\n", *cells]))
    said = farm("import", "csv", path, "-o", tmp_path / "mine", "--quiet")
    assert (said.code, said.out) == (2, "")
    assert "twice; allowed: once" in said.err
    assert not (tmp_path / "mine").exists()
    path.write_text(path.read_text().replace(",submitted\n", ",other\n"))
    names = {"submitted": "submitted", "started": "started", "finished": "finished"}
    assert len(import_files([path], "csv", names).attempts) == 3


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (rows(100, lambda n: -3600 if n % 8 == 0 else 60), "13 of 100"),
        (rows(100, lambda _: 60, ran=-3600), "100 of 100"),
    ],
)
def test_clocks_that_jump(lines: list[str], found: str, tmp_path: Path):
    """Where an hour is often lost or won, no wait is evidence."""
    with pytest.raises(TraceError, match=f"{found} attempts started before they could"):
        import_files([table(tmp_path / "log.csv", lines)])


def test_a_few_jumps_are_left_out(tmp_path: Path):
    """And counted, as are times of 1970, which mean that there is none, and those of far years."""
    lines = rows(100, lambda n: -3600 if n % 25 == 0 else 60)
    in_2106 = 4_300_000_000
    far = [f"{START},{START + 5},{in_2106},r-1\n", f"{in_2106},{in_2106},{in_2106 + 60},r-1\n"]
    bundle = import_files([table(tmp_path / "log.csv", [*lines, *far, "0,1,2,r-1\n"])])
    assert bundle.manifest.left_out == {
        "with a negative wait": 4,
        "with a time of 1970, among later ones": 1,
        "that took more than a year: a clock jumped": 1,
        "of another year than all others: a clock jumped": 1,
    }
    begins, ends = bundle.arrivals
    assert ends - begins < 86_400


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (rows(3, lambda _: 60), "3 jobs with a known wait: too few to judge"),
        (rows(300, lambda _: 0), "every wait is zero"),
        ([f"{START + n},,{START + n + 60},\n" for n in range(30)], "of 30 jobs none ran"),
    ],
)
def test_records_that_cannot_carry_the_question(
    lines: list[str], words: str, tmp_path: Path, farm: Callable[..., Said]
):
    """The figures are shown, and the exit code is that of bad input."""
    said = farm("doctor", table(tmp_path / "log.csv", lines), "--quiet")
    assert said.code == 2
    assert f"cannot tell: {words}" in said.out
    assert said.err.startswith(f"error: these records cannot answer that: {words}")
