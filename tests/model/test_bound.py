"""The bound against enumeration of all masks and against the reference."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from benchmarks import reference
from tests.helpers import for_reference, some_state


@pytest.mark.parametrize("seed", range(5))
def test_equals_reference(seed, dtype, rounding):
    problem, state = some_state(seed, dtype=dtype)
    got = bmjax.lower_bound(problem, state)
    X, y, mask, weights, precision, inclusion = for_reference(problem, state)
    want = reference.bound(X, y, mask, weights, precision, inclusion)
    assert got.dtype == dtype
    assert got == pytest.approx(want, rel=rounding)


@pytest.mark.parametrize(("n", "k"), [(6, 2), (4, 3), (12, 1), (2, 6)])
def test_expectations_by_enumeration(n, k):
    """Every expectation of equation (10), summed over all 2^(n k) masks."""
    rng = np.random.default_rng(n)
    problem, state = some_state(3, n=n, k=k)
    # Nothing pruned, all rates inside, and one sample of each feature on for certain, so that
    # log sum_n z_nk is finite and its linearised lower bound can be tested.
    mask = rng.uniform(0.1, 0.9, size=(k, n))
    mask[:, 0] = 1
    inclusion = rng.uniform(0.2, 0.8, size=k)
    state = state._replace(
        mask_mean=jnp.asarray(mask),
        log_odds=jnp.asarray(np.log(inclusion / (1 - inclusion))),
        weights=jnp.asarray(rng.normal(size=k)),
        active=jnp.ones(k, bool),
    )
    X, y = np.asarray(problem.X), np.asarray(problem.y)
    weights, precision = np.asarray(state.weights), float(state.noise_precision)
    log_likelihood = log_prior = entropy = hessian = 0.0
    for bits in itertools.product((0, 1), repeat=n * k):
        z = np.reshape(bits, (k, n))
        q = np.prod(np.where(z == 1, mask, 1 - mask))
        if q == 0:
            continue
        error = y - weights @ (X * z)
        log_likelihood += q * (n * np.log(precision / (2 * np.pi)) - precision * error @ error) / 2
        by_mask = z * np.log(inclusion)[:, None] + (1 - z) * np.log1p(-inclusion)[:, None]
        log_prior += q * np.sum(by_mask)
        entropy -= q * np.log(q)
        hessian -= 0.5 * q * np.sum(np.log(z.sum(axis=1)))
    penalty = -0.5 * np.sum(np.log(n * inclusion) + (mask.mean(axis=1) - inclusion) / inclusion)
    constant = -0.5 * (k + 1) * np.log(n)
    want = log_likelihood + log_prior + entropy + penalty + constant
    assert bmjax.lower_bound(problem, state) == pytest.approx(want, rel=1e-12)
    # Appendix B: the linearised term bounds the expectation of the Hessian term from below.
    assert penalty <= hessian + 1e-12


def test_exact_at_the_ends(dtype):
    """Inclusion and masks of exactly one: least squares, with no NaN in value or gradient."""
    problem, state = some_state(1, dtype=dtype)
    k, n = problem.X.shape
    state = state._replace(
        mask_mean=jnp.ones((k, n), dtype),
        log_odds=jnp.full(k, jnp.inf, dtype),
        active=jnp.ones(k, bool),
    )
    error = np.asarray(problem.y - state.weights @ problem.X, float)
    want = 0.5 * n * np.log(1.7 / (2 * np.pi)) - 0.85 * error @ error - (k + 0.5) * np.log(n)
    assert bmjax.lower_bound(problem, state) == pytest.approx(want, rel=1e-5)
    slopes = jax.grad(bmjax.lower_bound, argnums=(0, 1), allow_int=True)(
        problem._replace(noise_precision=jnp.asarray(1.0, dtype)), state
    )
    for leaf in jax.tree.leaves(slopes):
        if leaf.dtype == dtype:
            assert jnp.isfinite(leaf).all()


def test_contradicted_certainty_is_impossible(dtype):
    """A mask below one under an inclusion of one has probability zero."""
    problem, state = some_state(1, dtype=dtype)
    state = state._replace(log_odds=jnp.full(5, jnp.inf, dtype))
    assert bmjax.lower_bound(problem, state) == -jnp.inf


def test_gradient_by_finite_differences():
    """Interior and pruned features alike; the pruned one's fields have no influence."""
    problem, state = some_state(4)
    free = state._replace(log_odds=jnp.where(jnp.isinf(state.log_odds), 2.0, state.log_odds))
    free = free._replace(mask_mean=jnp.clip(free.mask_mean, 0.1, 0.9))

    for field in ("mask_mean", "weights", "log_odds", "noise_precision"):
        value = getattr(free, field)

        def along(v, field=field):
            return bmjax.lower_bound(problem, free._replace(**{field: v}))

        direction = jnp.asarray(np.random.default_rng(0).normal(size=value.shape))
        h = 1e-5
        numeric = (along(value + h * direction) - along(value - h * direction)) / (2 * h)
        slope = jax.grad(along)(value)
        assert jnp.sum(slope * direction) == pytest.approx(float(numeric), rel=1e-7)
        if value.ndim:
            assert (slope[2] == 0).all()  # feature 2 is pruned
