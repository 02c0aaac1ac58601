"""Designs and data that others published, with their own figures beside ours; never tuned on."""
