"""The command line: parses arguments and calls ``farm.app``."""
