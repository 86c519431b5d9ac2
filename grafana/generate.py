"""Write the dashboards: ``python grafana/generate.py`` (``--check``: say whether they are current).

Needs the development dependency grafana-foundation-sdk; Grafana itself only reads the JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from boards import BOARDS
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from marks import FORMATS

FOLDER = Path(__file__).parent / "dashboards"


def rendered() -> dict[str, str]:
    """Return the text of each file, by name."""
    found = {name: mended(make().build()) for name, make in BOARDS.items()}
    return {
        f"{name}.json": json.dumps(board, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
        for name, board in found.items()
    }


def mended(board: object) -> dict[str, Any]:
    """Return a dashboard as Grafana's own schema has it, where the SDK's differs."""
    plain: dict[str, Any] = json.loads(JSONEncoder().encode(board))
    for variable in plain["templating"]["list"]:
        for key in ("auto", "auto_count", "auto_min"):  # only a variable of type interval has these
            variable.pop(key, None)
    for annotation in plain["annotations"]["list"]:
        annotation.update(FORMATS[annotation["name"]])
    return plain


def stale() -> list[str]:
    """Return the names of files that are not what the code makes (missing, or left over)."""
    wanted = rendered()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    return sorted(n for n in wanted.keys() | there.keys() if wanted.get(n) != there.get(n))


def main() -> None:
    """Write the files, or say which are stale."""
    if "--check" in sys.argv[1:]:
        if found := stale():
            sys.exit(f"stale: {', '.join(found)}; run python grafana/generate.py")
        return
    FOLDER.mkdir(exist_ok=True)
    for name, text in rendered().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
