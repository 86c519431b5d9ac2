"""Write the dashboards: ``python grafana/generate.py`` (``--check``: say whether they are current).

Needs the development dependency grafana-foundation-sdk; Grafana itself only reads the JSON.
"""

from __future__ import annotations

import sys
from pathlib import Path

from boards import BOARDS
from grafana_foundation_sdk.cog.encoder import JSONEncoder

FOLDER = Path(__file__).parent / "dashboards"


def rendered() -> dict[str, str]:
    """Return the text of each file, by name."""
    encoder = JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False)
    return {f"{name}.json": encoder.encode(make().build()) + "\n" for name, make in BOARDS.items()}


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
