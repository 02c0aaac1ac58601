"""The runtime: one spelling for NumPy and JAX, precision, programs, threads, sharding."""
