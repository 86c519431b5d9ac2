"""Estimators of run times, one file each (BOINC's three in one), and the registry of all.

The scheduler uses the kind-level estimate while a job waits and the builder-level one when it is
dispatched, and reports every ended attempt (``learn``). Estimators are pure: no clock, no random
numbers, no I/O; their statistics are saved and restored as plain JSON values (``dump``, ``load``).

To add one: a file here with a class that has ``name`` and implements ``RuntimeEstimator``, and one
line in the registry.
"""
