"""The selection of features: best-subset search, starts, moves, and the criterion for fits."""
