"""``python -m provisioner``: the provisioner as a process."""

from __future__ import annotations

from farm.cli.main import told
from provisioner.command import app

if __name__ == "__main__":
    told(app)
