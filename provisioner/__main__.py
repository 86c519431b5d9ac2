"""``python -m provisioner``: the provisioner as a process."""

from __future__ import annotations

from farm.terminal.error_messages import with_error_messages
from provisioner.command import app

if __name__ == "__main__":
    with_error_messages(app)
