"""Speed of the package, compared with rivals, and its limits: `python -m benchmarks.speed`."""
