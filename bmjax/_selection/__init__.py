"""Which features: best-subset search, starts, moves, and the criterion that ranks fits."""
