"""pip_settings.py ROOT: let pip in another root folder find packages where pip here does.

It writes ROOT/etc/pip.conf: indexes, certificates and limits of time; not the cache, the
constraints or the folders that this machine's settings name.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

INDEXES = ("index-url", "extra-index-url", "find-links")
CERTIFICATES = ("cert", "client-cert")
OTHERS = ("trusted-host", "proxy", "timeout", "default-timeout", "retries")


def main(root: Path) -> None:
    """Write pip's settings, with the files of certificates that they name."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    settings = where_packages_are(listed.splitlines(), os.environ)
    for name in CERTIFICATES:
        if name in settings:
            copy = root / settings[name].lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(settings[name], copy)
    lines = [f"{name} = {value}\n" for name, value in settings.items()]
    (root / "etc/pip.conf").write_text("".join(["[global]\n", *lines]))
    sys.stdout.write(f"pip's settings of this machine: {', '.join(settings) or 'none'}\n")


def where_packages_are(listed: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that name indexes, and how they are reached.

    Args:
        listed: the lines of ``pip config list``, such as ``global.index-url='https://…'``.
        environment: a proxy may be named there only.
    """
    of_files: dict[str, str] = {}
    of_environment: dict[str, str] = {}
    proxy = environment.get("https_proxy") or environment.get("HTTPS_PROXY")
    if proxy:
        of_files["proxy"] = proxy
    for line in listed:
        key, _, literal = line.partition("=")
        section, _, name = key.rpartition(".")
        value = str(ast.literal_eval(literal))
        if name in INDEXES:
            value = " ".join(word for word in value.split() if word.startswith("http"))
        elif name not in CERTIFICATES + OTHERS:
            continue
        # of files, pip lists the one that counts most last
        settings = of_environment if section == ":env:" else of_files
        settings[name] = value
    merged = of_files | of_environment
    return {name: value for name, value in merged.items() if value}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
