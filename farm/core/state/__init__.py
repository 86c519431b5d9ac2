"""What the scheduler knows: in its memory, as a snapshot, and restored from one."""
