"""What makes a plan so: processes of this machine, containers, or nothing at all (dry run)."""
