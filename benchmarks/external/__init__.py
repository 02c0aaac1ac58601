"""Designs and data published by others, with their figures next to ours; never tuned on."""
