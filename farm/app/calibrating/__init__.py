"""What jobs on this machine cost each other: measured, kept, compared with the simulation."""
