"""Simulated datasets whose intervals are checked, by name."""

import jax
import numpy as np

from benchmarks.optimum.designs import Batch
from bmjax import simulate

# Real features lie among idle ones, so each has idle neighbours under correlation.
EFFECTS = (1.0, 0.0, -1.0, 0.0, 0.8, 0.0, 0.5, 0.0, 0.3, 0.0)
SEED = 211


def draw(b: int) -> dict[str, Batch]:
    """The designs, with b datasets each."""
    return {
        "normal, n = 200": _normal(b, 200, 0.0),
        "correlated 0.7, n = 200": _normal(b, 200, 0.7),
        "normal, n = 50": _normal(b, 50, 0.0),
        "paper, n = 200": _paper(b),
    }


def _normal(b: int, n: int, correlation: float) -> Batch:
    """Normal columns, each correlated with the one before; five effects of ten, noise 1."""
    rng = np.random.default_rng([SEED, n, round(100 * correlation)])
    X, coef = rng.normal(size=(b, n, len(EFFECTS))), np.tile(EFFECTS, (b, 1))
    for j in range(1, len(EFFECTS)):
        X[:, :, j] = correlation * X[:, :, j - 1] + np.sqrt(1 - correlation**2) * X[:, :, j]
    return Batch(X, X @ np.array(EFFECTS) + rng.normal(size=(b, n)), coef)


def _paper(b: int) -> Batch:
    """Section 5.3 of the paper with ten features, five of them real, noise variance 0.2."""
    keys = jax.random.split(jax.random.key(SEED), b)
    d = jax.jit(jax.vmap(lambda key: simulate.uniform_design(key, 10)))(keys)
    return Batch(np.asarray(d.X), np.asarray(d.y), np.asarray(d.coef))
