"""What carries the computation: one spelling for NumPy and JAX, precision, programs, threads."""
