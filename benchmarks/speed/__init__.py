"""How fast, against whom, and where it ends: `python -m benchmarks.speed`."""
