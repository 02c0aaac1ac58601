"""Checks of what a user passes in: arrays of real numbers, and arguments in range."""
