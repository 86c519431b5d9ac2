"""Processes of this project in a user's folder."""

import subprocess

from farm.processes.module_command import module_command


def test_a_file_of_the_users_takes_the_place_of_no_module(tmp_path):
    """A farm is started in any folder: one that has a ``re.py`` once kept all builders away."""
    for name in ("re", "queue", "farm"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    command = module_command("farm.processes.identity")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_checkout_that_is_not_installed_runs_its_own_modules(tmp_path, monkeypatch):
    """There nothing but the present folder would lead to them, and no farm came up."""
    monkeypatch.setattr("farm.processes.module_command.is_installed", lambda: False)
    python, *words = module_command("farm.processes.identity")
    without_site = [python, "-S", *words]
    done = subprocess.run(without_site, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
