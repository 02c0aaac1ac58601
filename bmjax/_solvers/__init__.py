"""Solvers, from one start to one optimum: the paper's, the accelerated one, the stopping rule."""
