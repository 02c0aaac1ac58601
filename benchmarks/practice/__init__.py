"""What the package is worth in use: real data, intervals, stability, each beside its yardstick."""
