"""Reference implementations and benchmarks."""
