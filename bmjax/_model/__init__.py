"""The model of Bayesian masking: the problem, its state, the bound and the steps that raise it."""
