"""Experiments: published ones repeated, autoscalers compared, calibrations checked."""
