"""Jobs that burn real processor time and memory, and the machine's measured rates of work."""
