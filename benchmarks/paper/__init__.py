"""The figures of the paper, and how far its claims hold here: `python -m benchmarks.paper`."""
