"""Benchmark of `posterior`: errors, calibration, chains beside enumeration, time."""
