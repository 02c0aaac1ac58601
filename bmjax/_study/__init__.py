"""Monte Carlo studies: methods on many simulated datasets, with times and checkpoints."""
