"""The command line of the provisioner."""

import re
from pathlib import Path

import typer.main
import yaml

from farm.core.fields import fields_of
from farm.live.settings import LiveSettings
from farm.terminal.command_help import with_docstring
from provisioner.command import app, provision


def test_every_option_has_a_help():
    """Also those that the docstring of the command describes, as farm's commands do."""
    command = with_docstring(typer.main.get_command(app), provision.__doc__)
    assert [one.name for one in command.params if not one.help] == []
    assert "Args:" not in command.help


def test_compose_sets_no_variable_that_nothing_reads():
    """Options, settings, and what the image's entry point reads: a misspelt one is found."""
    root = Path(__file__).parents[2]
    services = yaml.safe_load((root / "docker-compose.yml").read_text())["services"]
    given = {
        variable
        for service in services.values()
        if "provisioner" in (service.get("command") or ())
        for variable in service["environment"]
        if variable.startswith("FARM_")
    }
    names = [one.envvar or [] for one in typer.main.get_command(app).params]
    read = {name for some in names for name in ([some] if isinstance(some, str) else some)}
    read |= {field.key for field in fields_of(LiveSettings).values()}
    read |= set(re.findall(r"FARM_\w+", (root / "deploy/entrypoint.sh").read_text()))
    passwords = {f"FARM_{whose}REDIS_PASSWORD_FILE" for whose in ("", "BUILDER_")}
    assert given >= {"FARM_BACKEND", "FARM_BUILDER_CPUS", "FARM_DOCKER_HOST"}
    assert given <= read | passwords
