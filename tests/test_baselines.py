"""The rivals against scikit-learn, closed forms and enumeration, in both precisions and batched."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import Lasso, LassoCV

from bmjax import Status, baselines, shrinkage
from bmjax.baselines._ard import _ard
from tests.helpers import lane, normal_design, uniform_design

SHAPES = [(41, 7), (15, 15), (12, 20)]  # 17 problems of each


def problems(n, k, count=17):
    """Uniform, normal and correlated designs in turn, at noise from weak to strong."""
    rng = np.random.default_rng(n)
    X, y = np.empty((count, n, k)), np.empty((count, n))
    for i in range(count):
        features = [
            rng.uniform(size=(n, k)),
            rng.normal(size=(n, k)) * rng.uniform(0.1, 10, size=k),
            rng.normal(size=(n, k)) + rng.normal(size=(n, 1)),
        ][i % 3]
        truth = rng.normal(size=k) * (rng.uniform(size=k) < 0.5)
        mean = features @ truth
        X[i] = features
        y[i] = mean + rng.uniform(0.1, 2) * (mean.std() + 0.1) * rng.normal(size=n)
    return X, y


def batch_of(b, k, n=None, dtype=np.float64):
    designs = [uniform_design(seed, k, n) for seed in range(b)]
    return tuple(jnp.asarray(np.stack([d[i] for d in designs]), dtype) for i in (0, 1))


# Least squares


def test_least_squares(dtype, rounding):
    for n, k in [(40, 6), (6, 6), (6, 10)]:
        X, y = normal_design(0, n, np.arange(k))
        r = baselines.least_squares(jnp.asarray(X, dtype), jnp.asarray(y, dtype))
        expected = np.linalg.lstsq(X, y)[0]  # the smallest solution where there are many
        np.testing.assert_allclose(r.coef, expected, rtol=0, atol=20 * rounding * k)
        assert {r.coef.dtype, r.noise_precision.dtype, r.objective.dtype} == {dtype}
        assert r.support.all()
        if n > k:
            variance = np.sum((y - X @ expected) ** 2) / (n - k)
            assert r.status == Status.CONVERGED
            assert float(r.noise_precision) * variance == pytest.approx(1, rel=20 * rounding)
            np.testing.assert_allclose(
                r.predict(jnp.asarray(X, dtype)), X @ expected, atol=20 * rounding * k
            )
        elif dtype == jnp.float64:
            assert r.status == Status.EXACT_FIT
            assert jnp.isfinite(r.noise_precision)


def test_least_squares_of_dependent_columns():
    X, y = normal_design(0, 30, [1.0, 2.0])
    doubled = np.column_stack([X, X[:, 0], np.zeros(30)])
    r = baselines.least_squares(doubled, y)
    np.testing.assert_allclose(r.predict(doubled), X @ np.linalg.lstsq(X, y)[0], atol=1e-8)
    np.testing.assert_array_equal(r.support, [True, True, True, False])
    assert r.coef[3] == 0


# Lasso


@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_lasso_equals_scikit_learn(n, k):
    X, y = problems(n, k)
    precision = 2.5
    shares = np.geomspace(0.5, 0.003, len(X))
    alphas = shares * precision * np.abs(np.einsum("bnk,bn->bk", X, y)).max(axis=1)
    fits = jax.vmap(partial(baselines.lasso, noise_precision=precision))(X, y, alphas)
    assert fits.converged.all()
    for i in range(len(X)):
        peer = Lasso(
            alpha=alphas[i] / (precision * n), fit_intercept=False, tol=1e-13, max_iter=1_000_000
        ).fit(X[i], y[i])
        np.testing.assert_allclose(fits.coef[i], peer.coef_, rtol=0, atol=1e-6)
        objective = precision / 2 * np.sum((y[i] - X[i] @ peer.coef_) ** 2)
        objective += alphas[i] * np.abs(peer.coef_).sum()
        assert fits.objective[i] <= objective * (1 + 1e-12)
    np.testing.assert_array_equal(fits.support, fits.coef != 0)


@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_lasso_cv_equals_scikit_learn(n, k):
    X, y = problems(n, k)
    fits = jax.jit(jax.vmap(baselines.lasso_cv))(X, y)
    assert fits.converged.all()
    for i in range(len(X)):
        peer = LassoCV(cv=5, fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(X[i], y[i])
        np.testing.assert_allclose(fits.cross_validation.alphas[i], peer.alphas_ * n, rtol=1e-12)
        assert fits.alpha[i] == pytest.approx(peer.alpha_ * n, rel=1e-12)
        errors = fits.cross_validation.errors[i]
        np.testing.assert_allclose(errors, peer.mse_path_, rtol=1e-3)
        refit = Lasso(alpha=peer.alpha_, fit_intercept=False, tol=1e-13, max_iter=1_000_000)
        coef = refit.fit(X[i], y[i]).coef_
        np.testing.assert_allclose(fits.coef[i], coef, rtol=0, atol=1e-6)
        again = baselines.lasso(X[i], y[i], fits.alpha[i])
        np.testing.assert_allclose(fits.coef[i], again.coef, rtol=0, atol=1e-8)
        assert fits.objective[i] == pytest.approx(float(again.objective))


def test_lasso_at_its_ends():
    X, y = normal_design(1, 40, [1.0, 0.5, 0.0])
    largest = np.abs(X.T @ y).max()
    assert not baselines.lasso(X, y, 1.0001 * largest).support.any()
    assert baselines.lasso(X, y, 0.999 * largest).support.sum() == 1
    np.testing.assert_allclose(
        baselines.lasso(X, y, 0.0).coef, baselines.least_squares(X, y).coef, rtol=1e-9
    )
    # Only alpha / noise_precision matters to the coefficients.
    a, b = baselines.lasso(X, y, 6.0, 2.0), baselines.lasso(X, y, 3.0)
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-9)
    assert (a.noise_precision, b.noise_precision) == (2, 1)
    out_of_steps = baselines.lasso(X, y, 3.0, max_steps=0)
    assert out_of_steps.status == Status.MAX_STEPS
    for r in (baselines.lasso(X, 0 * y, 1.0), baselines.lasso_cv(X, 0 * y)):
        assert r.converged
        assert not r.support.any()
    X[:, 1], X[:, 2] = 0, X[:, 0]
    r = baselines.lasso_cv(X, y)
    assert r.converged
    assert r.coef[1] == 0


def test_lasso_with_one_feature_is_the_closed_form(dtype, rounding):
    X, y = (jnp.asarray(z, dtype) for z in normal_design(2, 30, [0.4]))
    for alpha in (0.5, 5.0, 50.0):
        closed = shrinkage.lasso(X[:, 0], y, alpha, 1.5)
        np.testing.assert_allclose(
            baselines.lasso(X, y, alpha, 1.5).coef[0], closed, rtol=0, atol=rounding
        )


def test_leaving_one_out():
    X, y = normal_design(3, 11, [1.0, 0.0])
    r = baselines.lasso_cv(X, y, 11, 20)
    peer = LassoCV(cv=11, alphas=20, fit_intercept=False, tol=1e-10).fit(X, y)
    assert r.alpha == pytest.approx(peer.alpha_ * 11)
    assert r.cross_validation.errors.shape == (20, 11)


# ARD


@pytest.mark.parametrize("effect", [-1.0, -0.2, 0.02, 0.35])
def test_ard_with_one_feature_is_the_closed_form(effect, dtype):
    X, y = (jnp.asarray(z, dtype) for z in normal_design(4, 30, [effect]))
    r = baselines.ard(X, y, 1.3)
    closed = shrinkage.ard(X[:, 0], y, 1.3)
    assert r.converged
    assert r.noise_precision == jnp.asarray(1.3, dtype)
    # Near the threshold the reweighting halves the distance each round.
    np.testing.assert_allclose(r.coef[0], closed, rtol=0, atol=jnp.finfo(dtype).eps ** 0.5)
    assert (r.coef[0] == 0) == (closed == 0)


def minus_evidence(X, y, precision, variances):
    covariance = np.eye(len(y)) / precision + (X * variances) @ X.T
    return np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y)


@pytest.mark.parametrize(("n", "k"), [(41, 7), (12, 20)])
def test_ard_never_raises_its_objective(n, k):
    X, y = problems(n, k)
    precision = 1 / np.var(y, axis=1)
    rounds = jnp.arange(16, dtype=jnp.int32)

    def course(X, y, precision):
        def stopped(steps):
            return _ard(X, y, precision, jnp.asarray(1e-9), steps)

        return jax.vmap(stopped)(rounds).objective

    objective = np.asarray(jax.jit(jax.vmap(course))(jnp.asarray(X), y, precision))
    assert (np.diff(objective, axis=1) <= 1e-9 * np.abs(objective[:, :1])).all()
    assert (objective[:, -1] < objective[:, 0]).all()


def test_ard_is_a_stationary_point_of_the_evidence():
    X, y = uniform_design(5, 8, 60)[:2]
    r = baselines.ard(X, y)
    assert r.converged
    residual = y - X @ np.linalg.lstsq(X, y)[0]
    precision = (len(y) - 8) / (residual @ residual)
    assert r.noise_precision == pytest.approx(precision)
    # The posterior mean is gamma x'C^-1 y, and at the optimum gamma = mean^2 / (1 - gamma z).
    coef = np.asarray(r.coef)
    variances = coef**2
    for _ in range(60):
        covariance = np.eye(len(y)) / precision + (X * variances) @ X.T
        z = np.sum(X * np.linalg.solve(covariance, X), axis=0)
        variances = np.abs(coef) / np.sqrt(z)
    covariance = np.eye(len(y)) / precision + (X * variances) @ X.T
    np.testing.assert_allclose(
        coef, variances * (X.T @ np.linalg.solve(covariance, y)), rtol=0, atol=1e-6
    )
    best = minus_evidence(X, y, precision, variances)
    assert r.objective == pytest.approx(best, rel=1e-9)
    for j in range(8):
        for factor in (0.99, 1.01):
            moved = variances.copy()
            moved[j] = moved[j] * factor if moved[j] > 0 else 1e-4
            assert minus_evidence(X, y, precision, moved) > best


def test_ard_is_equivariant_to_column_scales():
    X, y = uniform_design(6, 10)[:2]
    scale = np.logspace(-4, 4, 10)
    a, b = baselines.ard(X, y), baselines.ard(X * scale, y)
    np.testing.assert_array_equal(a.support, b.support)
    assert not a.support.all()
    np.testing.assert_allclose(a.coef, b.coef * scale, rtol=1e-6, atol=1e-9)


def test_ard_with_more_features_than_samples():
    X, y = normal_design(7, 30, np.r_[3, -3, np.zeros(48)], noise=0.5)
    r = baselines.ard(X, y, 4.0)
    assert r.converged
    assert r.support[:2].all()
    assert r.support.sum() < 15
    with pytest.raises(ValueError, match=r"30 rows and 50 columns.*Give noise_precision"):
        baselines.ard(X, y)


# Best subset


def enumerated(X, y, precision=None, most=None):
    """The lowest BIC of all subsets, literally."""
    n, k = X.shape
    best = np.inf, ()
    for size in range(k + 1 if most is None else most + 1):
        for chosen in itertools.combinations(range(k), size):
            coef = np.linalg.lstsq(X[:, list(chosen)], y)[0]
            square = np.sum((y - X[:, list(chosen)] @ coef) ** 2)
            loss = n * np.log(square / n) if precision is None else precision * square
            best = min(best, (loss + size * np.log(n), chosen))
    return best


@pytest.mark.parametrize(("precision", "most"), [(None, None), (3.0, 2)])
def test_exhaustive_search_is_exact(precision, most):
    for seed in range(2):
        X, y = uniform_design(seed, 5, 40)[:2]
        r = baselines.best_subset_bic(X, y, precision, max_features=most, exhaustive=True)
        objective, chosen = enumerated(X, y, precision, most)
        assert r.objective == pytest.approx(objective)
        np.testing.assert_array_equal(np.flatnonzero(r.support), chosen)
        coef = np.linalg.lstsq(X[:, list(chosen)], y)[0]
        np.testing.assert_allclose(r.coef[np.asarray(r.support)], coef, rtol=1e-9)
        square = np.sum((y - X[:, list(chosen)] @ coef) ** 2)
        expected = precision or (40 - len(chosen)) / square
        assert r.noise_precision == pytest.approx(expected)


@pytest.mark.parametrize(("k", "n", "reaches"), [(8, 20, 0.95), (11, 220, 1)])
def test_the_search_reaches_the_best_subset(k, n, reaches):
    X, y = batch_of(40 if k < 10 else 10, k, n)
    found = jax.jit(jax.vmap(baselines.best_subset_bic))(X, y)

    def exhaustive(data):
        return baselines.best_subset_bic(*data, exhaustive=True)

    oracle = jax.jit(lambda X, y: jax.lax.map(exhaustive, (X, y)))(X, y)
    assert found.converged.all()
    gap = np.asarray(found.objective - oracle.objective)
    assert gap.min() > -1e-9
    assert (gap < 1e-9).mean() >= reaches
    assert (oracle.num_steps == 2**k).all()
    assert found.num_steps.max() < 2 * k


def test_best_subset_of_awkward_data():
    X, y = normal_design(8, 30, np.r_[3, -3, np.zeros(38)], noise=0.3)
    wide = baselines.best_subset_bic(X, y, 1 / 0.09)
    assert wide.converged
    assert wide.support[:2].all()
    assert wide.support.sum() <= 15
    # The copy of a column and an empty column cost a feature and bring nothing.
    X = np.column_stack([X[:, :2], X[:, 0], np.zeros(30)])
    r = baselines.best_subset_bic(X, y)
    np.testing.assert_array_equal([r.support[1], r.support[3]], [True, False])
    assert r.support[0] != r.support[2]
    noiseless = baselines.best_subset_bic(X, X[:, 1])
    assert noiseless.status == Status.EXACT_FIT
    np.testing.assert_array_equal(noiseless.support, [False, True, False, False])
    assert not baselines.best_subset_bic(X, 0 * y).support.any()
    assert baselines.best_subset_bic(X, y, max_steps=0).status == Status.MAX_STEPS


def test_best_subset_is_equivariant_to_column_scales():
    X, y = uniform_design(6, 10)[:2]
    scale = np.logspace(-4, 4, 10)
    a, b = baselines.best_subset_bic(X, y), baselines.best_subset_bic(X * scale, y)
    np.testing.assert_array_equal(a.support, b.support)
    np.testing.assert_allclose(a.coef, b.coef * scale, rtol=1e-8)


# What all have in common

ESTIMATORS = {
    "least_squares": baselines.least_squares,
    "lasso": partial(baselines.lasso, alpha=2.0),
    "lasso_cv": partial(baselines.lasso_cv, folds=3, num_alphas=30),
    "ard": baselines.ard,
    "best_subset_bic": baselines.best_subset_bic,
}


RUN = {name: jax.jit(jax.vmap(estimator)) for name, estimator in ESTIMATORS.items()}


@pytest.fixture(scope="module")
def batch():
    """Five hundred datasets."""
    return batch_of(500, 4)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_five_hundred_datasets_in_one_call(name, batch):
    X, y = batch
    fits = RUN[name](X, y)
    assert fits.converged.all()
    for i in range(0, 500, 25):
        alone, one = ESTIMATORS[name](X[i], y[i]), lane(fits, i)
        np.testing.assert_array_equal(one.support, alone.support)
        np.testing.assert_allclose(one.coef, alone.coef, rtol=0, atol=1e-8)
        np.testing.assert_allclose(one.objective, alone.objective, rtol=1e-8)
        np.testing.assert_allclose(one.noise_precision, alone.noise_precision, rtol=1e-8)
        assert one.status == alone.status


@pytest.mark.parametrize("name", ESTIMATORS)
def test_single_precision_agrees(name, batch):
    X, y = batch
    double, single = RUN[name](X, y), RUN[name](X.astype(np.float32), y.astype(np.float32))
    floats = [x for x in jax.tree.leaves(single) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert {x.dtype for x in floats} == {np.dtype(np.float32)}
    assert single.converged.all()
    same = (np.asarray(single.support) == np.asarray(double.support)).all(axis=1)
    assert same.mean() >= 0.99
    close = np.abs(np.asarray(single.coef - double.coef.astype(np.float32))).max(axis=1) < 1e-3
    assert close.mean() >= 0.99


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_bad_lane_is_marked_and_leaves_the_others_alone(name, batch):
    X, y = batch
    clean = RUN[name](X, y)
    bad = RUN[name](X.at[1, 3, 2].set(jnp.nan), y.at[3, 7].set(jnp.inf))
    marked = np.asarray(bad.status) == Status.NON_FINITE
    np.testing.assert_array_equal(np.flatnonzero(marked), [1, 3])
    np.testing.assert_array_equal(bad.coef[~marked], clean.coef[~marked])


X, Y = normal_design(0, 20, [1.0, 0.0, 0.0])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_bad_data_are_refused(name):
    with pytest.raises(ValueError, match="X holds NaN"):
        ESTIMATORS[name](X * np.nan, Y)
    with pytest.raises(ValueError, match="y has 19 entries"):
        ESTIMATORS[name](X, Y[:-1])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: baselines.lasso(X, Y, -1), ValueError, "alpha is -1; it must be at least 0"),
        (lambda: baselines.lasso(X, Y, 1, 0), ValueError, "noise_precision is 0"),
        (lambda: baselines.lasso(X, Y, 1, tolerance=-1), ValueError, "tolerance is -1"),
        (lambda: baselines.lasso(X, Y, 1, max_steps=1.5), TypeError, "max_steps is 1.5"),
        (lambda: baselines.lasso_cv(X, Y, 1), ValueError, "folds is 1; it must be at least 2"),
        (lambda: baselines.lasso_cv(X, Y, 21), ValueError, "only 20 samples"),
        (lambda: baselines.lasso_cv(X, Y, num_alphas=0), ValueError, "num_alphas is 0"),
        (lambda: baselines.ard(X, Y, -1), ValueError, "noise_precision is -1"),
        (lambda: baselines.best_subset_bic(X, Y, 0), ValueError, "noise_precision is 0"),
        (
            lambda: baselines.best_subset_bic(X, Y, max_features=20),
            ValueError,
            "below the 20 samples",
        ),
        (
            lambda: baselines.best_subset_bic(np.ones((20, 16)), Y, exhaustive=True),
            ValueError,
            "takes 15 at most",
        ),
        (lambda: baselines.least_squares(X, Y).predict(X[:, :2]), ValueError, "3 features"),
    ],
)
def test_bad_options_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
