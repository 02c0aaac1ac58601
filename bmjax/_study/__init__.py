"""Monte Carlo studies: many simulated datasets, timed, kept and gone on with."""
