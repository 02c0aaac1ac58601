"""The closed forms against minimisation, the general steps, and Monte Carlo."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import bmjax
from bmjax import shrinkage
from tests.helpers import plain_fit, some_state

RNG = np.random.default_rng(0)
X = RNG.normal(size=30)
NOISE = RNG.normal(size=30)


def problem_of(features, y, dtype=np.float64):
    return bmjax.Problem(
        X=jnp.asarray(features.T, dtype),
        y=jnp.asarray(y, dtype),
        noise_precision=jnp.asarray(2.0, dtype),
        prune_threshold=jnp.asarray(0.0, dtype),
    )


def weights_of(problem, mask_mean):
    """The general M step at given masks."""
    k = len(problem.X)
    state = bmjax.State(
        mask_mean=jnp.asarray(mask_mean),
        weights=jnp.zeros(k),
        log_odds=jnp.zeros(k),
        noise_precision=jnp.asarray(2.0),
        active=jnp.ones(k, bool),
    )
    return bmjax.m_step(problem, state).weights


@pytest.mark.parametrize("effect", [-1.0, -0.1, 0.02, 0.3])
def test_least_squares_and_lasso_minimise_their_objective(effect):
    y = effect * X + 0.3 * NOISE
    for alpha in (0.0, 2.0, 5.0):
        best = minimize_scalar(
            lambda b, a=alpha: 0.5 * 1.7 * np.sum((y - X * b) ** 2) + a * abs(b),
            bracket=(-2, 2),
            tol=1e-12,
        ).x
        assert shrinkage.lasso(X, y, alpha, 1.7) == pytest.approx(best, abs=1e-7)
    assert shrinkage.least_squares(X, y) == pytest.approx(np.linalg.lstsq(X[:, None], y)[0][0])


def test_lasso_moves_by_alpha_over_lambda_xx():
    """Half of what the paper prints: its erratum."""
    y = X + 0.1 * NOISE
    moved = shrinkage.least_squares(X, y) - shrinkage.lasso(X, y, 3.0, 2.0)
    assert moved == pytest.approx(3.0 / (2.0 * X @ X))


@pytest.mark.parametrize("effect", [-1.0, -0.1, 0.02, 0.3])
def test_ard_maximises_the_marginal_likelihood(effect):
    y, precision = effect * X + 0.3 * NOISE, 1 / 0.09
    n = len(X)

    def minus_evidence(log_gamma):
        covariance = np.eye(n) / precision + np.exp(log_gamma) * np.outer(X, X)
        return np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y)

    grid = np.linspace(-25, 5, 301)
    start = grid[np.argmin([minus_evidence(g) for g in grid])]
    best = minimize_scalar(
        minus_evidence, bounds=(start - 0.2, start + 0.2), method="bounded", options={"xatol": 1e-9}
    ).x
    gamma = np.exp(best)
    mean = gamma * X @ np.linalg.solve(np.eye(n) / precision + gamma * np.outer(X, X), y)
    # On the scale of gamma, zero is infinitely far away: the grid ends near it.
    assert shrinkage.ard(X, y, precision) == pytest.approx(mean, abs=1e-6)
    if start < -24:
        assert shrinkage.ard(X, y, precision) == 0


def test_fab_is_the_m_step_with_one_feature():
    y, mask = X + NOISE, RNG.uniform(size=30)
    general = weights_of(problem_of(X[:, None], y), mask[None])
    assert shrinkage.fab(X, y, mask) == pytest.approx(float(general[0]), rel=1e-12)
    assert shrinkage.fab(X, y, 1.0) == pytest.approx(float(shrinkage.least_squares(X, y)))
    # Whatever the masks are, without noise the truth.
    assert shrinkage.fab(X, 0.7 * X, mask) == pytest.approx(0.7)


def test_fab_at_the_masks_of_a_fit_is_its_weight():
    y = 0.8 * X + 0.3 * NOISE
    fit = plain_fit(X[:, None], y, noise_precision=1 / 0.09, tolerance=1e-9)
    assert fit.converged
    inclusion = np.asarray(fit.inclusion)[0]
    problem = problem_of(X[:, None], y)
    state = bmjax.State(
        mask_mean=jnp.full((1, 30), inclusion),
        weights=fit.weights,
        log_odds=jnp.log(fit.inclusion) - jnp.log1p(-fit.inclusion),
        noise_precision=fit.noise_precision,
        active=fit.support,
    )
    mask = bmjax.e_step(problem, state).mask_mean[0]
    assert shrinkage.fab(X, y, mask) == pytest.approx(float(fit.weights[0]), rel=1e-5)


def test_bias_is_exact_without_noise(dtype, rounding):
    problem, state = some_state(3, n=40, k=4, dtype=dtype)
    mask = jnp.asarray(RNG.uniform(0.2, 1, size=(4, 40)), dtype)
    truth = jnp.asarray([1.0, -2.0, 0.5, 0.0], dtype)
    bias = shrinkage.fab_bias(problem.X.T, mask, truth)
    assert bias.dtype == dtype
    everything = state._replace(mask_mean=mask, active=jnp.ones(4, bool))
    weights = bmjax.m_step(problem._replace(y=truth @ problem.X), everything).weights
    np.testing.assert_allclose(bias, weights - truth, atol=10 * rounding)
    assert jnp.abs(bias).max() > 0.05


def test_bias_is_the_monte_carlo_mean_over_the_noise():
    n, k, repeats = 40, 3, 4000
    features = RNG.normal(size=(n, k)) + RNG.normal(size=(n, 1))
    mask, truth = RNG.uniform(0.1, 1, size=(k, n)), np.array([1.0, 0.0, -0.5])
    y = features @ truth + 0.5 * RNG.normal(size=(repeats, n))
    problem = problem_of(features, y[0])
    weights = jax.jit(jax.vmap(lambda y: weights_of(problem._replace(y=y), mask)))(jnp.asarray(y))
    error = np.asarray(weights).mean(axis=0) - truth
    standard_error = np.asarray(weights).std(axis=0) / np.sqrt(repeats)
    bias = np.asarray(shrinkage.fab_bias(features, mask, truth))
    assert np.abs((error - bias) / standard_error).max() < 4
    assert np.abs(bias / standard_error).max() > 20  # there is a bias to be seen


def test_where_the_bias_vanishes():
    features, truth = RNG.normal(size=(20, 3)), np.array([1.0, 2.0, 3.0])
    mask = RNG.uniform(0.1, 1, size=(3, 20))
    np.testing.assert_allclose(shrinkage.fab_bias(features, np.ones((3, 20)), truth), 0, atol=1e-14)
    np.testing.assert_allclose(
        shrinkage.fab_bias(features[:, :1], mask[:1], truth[:1]), 0, atol=1e-14
    )
    mask[1] = 0  # the feature gets weight zero, and the others take over
    bias = shrinkage.fab_bias(features, mask, truth)
    weights = weights_of(problem_of(features, features @ truth), mask)
    np.testing.assert_allclose(bias, weights - truth, atol=1e-12)
    assert bias[1] == -2


def test_edges_and_derivatives(dtype):
    zero, x, y = (jnp.asarray(v, dtype) for v in (np.zeros(30), X, NOISE))
    estimators = {
        "least_squares": shrinkage.least_squares,
        "lasso": lambda x, y: shrinkage.lasso(x, y, 1.0, 2.0),
        "ard": lambda x, y: shrinkage.ard(x, y, 2.0),
        "fab": lambda x, y: shrinkage.fab(x, y, 0.5),
    }
    for estimate in estimators.values():
        for features, target in [(zero, y), (x, zero), (x, y)]:
            assert estimate(features, target).dtype == dtype
            assert jnp.isfinite(estimate(features, target))
            assert jnp.isfinite(jax.grad(estimate, argnums=(0, 1))(features, target)[1]).all()
        assert estimate(zero, y) == 0
        assert estimate([2.0], [2.0]) >= 0  # one sample is enough
    assert shrinkage.fab(x, y, 0.0) == 0
    unknown = jax.jit(shrinkage.ard)(x, y.at[0].set(jnp.nan), jnp.asarray(1, dtype))
    assert jnp.isnan(unknown)
    lanes = jax.vmap(lambda a: shrinkage.lasso(x, y, a))(jnp.asarray([0.0, 1.0], dtype))
    assert lanes[0] == pytest.approx(float(shrinkage.least_squares(x, y)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shrinkage.least_squares(X[:, None], X), r"x has shape \(30, 1\)"),
        (lambda: shrinkage.least_squares(X, X[:2]), r"y \(2,\)"),
        (lambda: shrinkage.lasso(X, X, -1.0), "alpha is -1.0; it must be at least 0"),
        (lambda: shrinkage.ard(X, X, 0), "noise_precision is 0; it must be above 0"),
        (lambda: shrinkage.fab(X, X, 1.5), r"mask_mean holds values outside \[0, 1\]"),
        (lambda: shrinkage.fab(X, X * np.nan, 1), "y holds NaN"),
        (lambda: shrinkage.fab_bias(np.ones((5, 2)), np.ones((5, 2)), 1), r"\(n, k\) and \(k, n\)"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
