"""An EM iteration in blocks of samples, against the same iteration on all samples at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax._model import blocks, steps, sweep
from bmjax._model.blocks import Blocks
from bmjax._model.bound import bound_after_m_step


def problem_of(n, dtype, *, weighted, unmasked):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(5, n)).astype(dtype)
    y = (X[0] - 0.5 * X[1] * (rng.uniform(size=n) < 0.4) + rng.normal(size=n)).astype(dtype)
    return bmjax.Problem(
        jnp.asarray(X),
        jnp.asarray(y),
        None,
        prune_threshold=jnp.asarray(1e-6, dtype),
        sample_weights=jnp.asarray(rng.integers(0, 3, n).astype(dtype)) if weighted else None,
        unmasked=jnp.arange(5) == 1 if unmasked else None,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [64, 100, 129])
@pytest.mark.parametrize(("weighted", "unmasked"), [(False, False), (True, True)])
def test_an_iteration_in_blocks_is_that_of_all_samples(n, weighted, unmasked, dtype):
    """Also where the last block is not full, and after a feature has been pruned."""
    with jax.enable_x64(dtype == np.float64):
        problem = problem_of(n, dtype, weighted=weighted, unmasked=unmasked)
        state = bmjax.initialise(problem, jnp.asarray([0.9, 0.9, 0.5, 0.0, 0.3], dtype))
        in_blocks = problem._replace(blocks=Blocks(32))
        for sweeps in (1, 2):
            left = sweep.residual(problem, state)
            state, wanted = steps.em_iteration(problem, state, left, sweeps)
            other, found = steps.em_iteration(
                in_blocks, state, wanted.residual, sweeps, state.weights
            )
            state, wanted = steps.em_iteration(
                problem, state, wanted.residual, sweeps, state.weights
            )
            # Sums in another order differ by some roundings of n terms.
            close = {"rtol": 200 * np.finfo(dtype).eps, "atol": 200 * np.finfo(dtype).eps}
            for a, b in zip(state, other, strict=True):
                np.testing.assert_allclose(a, b, **close)
            for a, b in zip(wanted, found, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e3 * close["rtol"], atol=close["atol"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bound_in_blocks_is_that_of_all_samples(dtype):
    with jax.enable_x64(dtype == np.float64):
        problem = problem_of(129, dtype, weighted=True, unmasked=True)
        state = bmjax.initialise(problem, jnp.asarray([0.9, 0.9, 0.5, 0.0, 0.3], dtype))
        left = sweep.residual(problem, state)
        state, leftover = steps.em_iteration(problem, state, left, 1)
        in_blocks = problem._replace(blocks=Blocks(32))
        wanted = bmjax.lower_bound(problem, state)
        close = {"rtol": 200 * np.finfo(dtype).eps}  # sums in another order
        np.testing.assert_allclose(bmjax.lower_bound(in_blocks, state), wanted, **close)
        for one in (problem, in_blocks):
            found = bound_after_m_step(one, state, leftover.sum_squares)
            np.testing.assert_allclose(found, wanted, **close)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_tall_fit_is_the_same_in_blocks(weighted, monkeypatch):
    """By `fit` and `fit_batch`, against the fit of all samples at once under `jit`."""
    rng = np.random.default_rng(3)
    n = blocks._TALL + 1000
    X = rng.normal(size=(n, 4))
    y = X[:, 0] + 0.05 * X[:, 1] + rng.normal(size=n)
    counts = rng.integers(0, 2, n) if weighted else np.ones(n)
    made = []
    monkeypatch.setattr(blocks, "Blocks", lambda size: made.append(size) or Blocks(size))
    found = bmjax.fit(X, y, sample_weights=counts)
    assert made
    batch = bmjax.fit_batch(X[None], y[None], sample_weights=counts[None])
    whole = jax.jit(lambda X, y, counts: bmjax.fit(X, y, sample_weights=counts))(X, y, counts)
    for one in (found, batch[0]):
        np.testing.assert_array_equal(one.support, whole.support)
        assert one.status == whole.status
        # Two ends within the tolerance of the same optimum.
        np.testing.assert_allclose(one.coef, whole.coef, rtol=1e-3)
        np.testing.assert_allclose(one.bound, whole.bound, rtol=1e-6)
