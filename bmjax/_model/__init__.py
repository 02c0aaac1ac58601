"""Bayesian masking itself: the problem, its state, the bound and the steps that raise it."""
