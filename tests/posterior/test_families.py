"""The posterior over supports where y is not Gaussian."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax._model.distributions import Logistic, Student
from bmjax._posterior import reweighted
from tests.posterior.quadrature import by_quadrature, log_logistic, log_student


def design(family, seed, n, weights, spread=1.0):
    """Correlated columns, and a y of a family."""
    rng = np.random.default_rng(seed)
    k = len(weights)
    X = rng.normal(size=(n, k)) + 0.7 * rng.normal(size=(n, 1)) + 1
    eta = X @ np.asarray(weights, float) - 0.3
    if family == "logistic":
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    else:
        y = 3 + eta + spread * rng.standard_t(4, size=n)
    return X, y


@pytest.mark.parametrize(
    ("seed", "n", "tolerance"), [(0, 40, 0.015), (1, 40, 0.015), (2, 100, 0.012), (3, 400, 0.003)]
)
def test_logistic_as_by_quadrature(seed, n, tolerance):
    # Laplace's approximation is off by the order of one over the number of samples.
    X, y = design("logistic", seed, n, [0.9, 0, -0.6])
    found = bmjax.posterior(X, y, intercept=True, family="logistic")
    share = y.mean()
    wanted = by_quadrature(X, y, log_logistic, share * (1 - share), has_scale=False)
    probability, mean, deviation = wanted
    np.testing.assert_allclose(found.probability, probability, 0, tolerance)
    np.testing.assert_allclose(found.coef, mean, 0, 0.15 * np.max(deviation))
    np.testing.assert_allclose(found.standard_errors, deviation, 0.12)
    assert found.converged
    assert np.all(found.probability_error == 0)


@pytest.mark.parametrize(("seed", "n", "tolerance"), [(0, 40, 0.02), (1, 150, 0.006)])
def test_student_as_by_quadrature(seed, n, tolerance):
    X, y = design("student", seed, n, [0.6, -0.25])
    found = bmjax.posterior(X, y, intercept=True, family=bmjax.Student(4))
    wanted = by_quadrature(X, y, log_student(4), 5 / 7, has_scale=True, nodes=7)
    probability, mean, deviation = wanted
    np.testing.assert_allclose(found.probability, probability, 0, tolerance)
    np.testing.assert_allclose(found.coef, mean, 0, 0.05 * np.max(deviation))
    np.testing.assert_allclose(found.standard_errors, deviation, 0.08)


@pytest.mark.parametrize("options", [{}, {"unmasked": [2]}, {"noise_precision": 0.8}])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("chains", [False, True])
def test_student_of_many_degrees_as_a_gaussian_y(options, intercept, chains):
    X, y = design("student", 5, 60, [0.8, 0, 0.4, 0, -0.3, 0])
    options = {**options, "intercept": intercept, "enumerate_up_to": 0 if chains else 15}
    found = bmjax.posterior(X, y, family=bmjax.Student(1e7), **options)
    wanted = bmjax.posterior(X, y, **options)
    # The scale is integrated by Laplace here, there exactly: some .003 at 60 samples. Chains draw
    # others.
    near = 0.03 if chains else 0.004
    np.testing.assert_allclose(found.probability, wanted.probability, 0, near)
    spread = np.max(np.asarray(wanted.standard_errors))
    np.testing.assert_allclose(found.coef, wanted.coef, 0, (0.1 if chains else 0.02) * spread)
    np.testing.assert_allclose(
        found.standard_errors, wanted.standard_errors, 0, (0.06 if chains else 0.02) * spread
    )
    np.testing.assert_allclose(found.intercept, wanted.intercept, 0.03, 0.02)
    np.testing.assert_allclose(found.noise_variance, wanted.noise_variance, 0.03)
    np.testing.assert_allclose(found.level_variance, wanted.level_variance, 0.08)
    new = X[:5] + 0.3
    for a, b in zip(found.predict(new, True), wanted.predict(new, True), strict=True):
        np.testing.assert_allclose(a, b, 0.02, 0.03)


@pytest.mark.parametrize("family", [Logistic(), Student(np.float64(3.5))])
def test_derivatives_are_those_of_the_log_density(family):
    with jax.enable_x64(True):
        y = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
        eta = np.array([-4.0, -0.3, 0.0, 0.7, 9.0])

        def log(eta, y):
            return family.log_density(y, eta, jnp.ones(()))

        found = family.derivatives(y, eta)
        for order in range(3):
            log = jax.grad(log)
            wanted = jax.vmap(log)(jnp.asarray(eta), jnp.asarray(y))
            np.testing.assert_allclose(found[order], wanted, 1e-9, 1e-12)


@pytest.mark.parametrize("family", ["logistic", "student", bmjax.Student(None)])
@pytest.mark.parametrize("seed", [0, 1])
def test_chains_find_the_probabilities_of_all_supports(family, seed):
    kind = "logistic" if family == "logistic" else "student"
    X, y = design(kind, seed, 120, [1, 0, 0, -0.7, 0, 0.4, 0, 0, 0, 0])
    exact = bmjax.posterior(X, y, intercept=True, family=family)
    key = jax.random.key(seed)
    found = bmjax.posterior(X, y, key, intercept=True, family=family, enumerate_up_to=0)
    assert found.converged
    away = np.abs(found.probability - exact.probability)
    assert np.max(away) < 0.03
    assert np.all(away < 4 * found.probability_error + 2e-3)
    spread = np.max(np.asarray(exact.standard_errors))
    np.testing.assert_allclose(found.coef, exact.coef, 0, 0.06 * spread)
    np.testing.assert_allclose(found.standard_errors, exact.standard_errors, 0.1, 0.03 * spread)
    np.testing.assert_allclose(found.size[:10], exact.size[:10], 0, 0.05)
    np.testing.assert_allclose(found.size.sum(), 1, 1e-5)
    assert found.predict(X[:4]).shape == (4,)


def test_fewer_supports_judged_than_there_are(monkeypatch):
    # Supports that are not judged by the likelihood count as those that are do on average.
    X, y = design("logistic", 3, 120, [1, 0, 0, -0.7, 0, 0.4, 0, 0])
    options = {"intercept": True, "family": "logistic"}
    exact = bmjax.posterior(X, y, **options)
    monkeypatch.setattr(reweighted, "_MOST", 60)
    monkeypatch.setattr(reweighted, "_FEWEST", 60)
    found = bmjax.posterior(X, y, supports=20, **options)
    assert float(found.support_probability.sum()) < 0.99
    np.testing.assert_allclose(found.probability, exact.probability, 0, 0.01)


@pytest.mark.parametrize("family", ["logistic", "student"])
def test_weights_are_repeated_rows_and_units_do_not_matter(family):
    X, y = design(family, 4, 80, [0.9, 0, -0.6, 0])
    counts = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    X[counts == 0] = 1e6
    options = {"intercept": True, "family": family, "unmasked": [1]}
    found = bmjax.posterior(X, y, sample_weights=counts, **options)
    times = counts.astype(int)
    repeated = bmjax.posterior(np.repeat(X, times, 0), np.repeat(y, times), **options)
    scale = np.array([1e3, 1e-4, 7.0, 1.0])
    moved = bmjax.posterior(
        (X[counts > 0] + 5) * scale, y[counts > 0], sample_weights=counts[counts > 0], **options
    )
    for other, unit in ((repeated, 1.0), (moved, scale)):
        np.testing.assert_allclose(other.probability, found.probability, 2e-4)
        np.testing.assert_allclose(other.coef * unit, found.coef, 2e-4, 1e-5)
        np.testing.assert_allclose(other.standard_errors * unit, found.standard_errors, 2e-4)
    if family == "student":
        other = bmjax.posterior(X, 100 * y + 1e4, sample_weights=counts, **options)
        np.testing.assert_allclose(other.probability, found.probability, 2e-4)
        np.testing.assert_allclose(other.coef / 100, found.coef, 2e-3, 1e-4)


def test_unmasked_features_of_a_logistic_posterior():
    # Where the feature that may be left out says nothing, the others are those of a logistic fit.
    X, y = design("logistic", 6, 500, [0.8, -0.5, 0])
    found = bmjax.posterior(X, y, intercept=True, family="logistic", unmasked=[0, 1])
    assert found.probability[2] < 0.3
    fit = bmjax.fit(X[:, :2], y, intercept=True, family="logistic", unmasked=[0, 1])
    np.testing.assert_allclose(found.coef[:2], fit.coef, 0.05)
    errors = np.asarray(fit.standard_errors)
    np.testing.assert_allclose(found.standard_errors[:2], errors, 0.1)
    np.testing.assert_allclose(found.predict(X), fit.predict(X[:, :2]), 0, 0.01)


def test_several_datasets_are_each_alone():
    X, y = design("logistic", 7, 60, [1.0, 0, -0.6])
    other = 1 - y
    bad = np.where(np.arange(60) == 3, np.nan, y)
    one_class = np.ones(60)
    found = bmjax.posterior(
        X, np.stack([y, other, bad, one_class]), intercept=True, family="logistic"
    )
    for i, target in enumerate((y, other)):
        alone = bmjax.posterior(X, target, intercept=True, family="logistic")
        np.testing.assert_allclose(found.probability[i], alone.probability, 1e-6)
        np.testing.assert_allclose(found.coef[i], alone.coef, 1e-6)
    np.testing.assert_allclose(found.coef[0], -found.coef[1], 1e-4, 1e-6)
    assert found.status.tolist()[:3] == [1, 1, int(bmjax.Status.NON_FINITE)]
    assert np.isnan(found.probability[2]).all()
    assert found.status[3] == bmjax.Status.SEPARATED
    learned = bmjax.posterior(
        X, np.stack([X[:, 0] + bad, X[:, 0] + 0.3 * y]), intercept=True, family=bmjax.Student(None)
    )
    assert np.isnan(learned.family.degrees[0])
    assert learned.family.degrees[1] >= 1


def test_separated_outcomes_say_so_and_all_is_finite():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 5))
    y = (X[:, 1] > 0).astype(float)
    found = bmjax.posterior(X, y, intercept=True, family="logistic")
    assert found.status == bmjax.Status.SEPARATED
    found = found._replace(mixture=found.mixture._replace(freedom=jnp.ones(())))  # it is infinite
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))
    assert found.probability[1] > 0.99
    assert "SEPARATED" in str(found.summary())


@pytest.mark.parametrize("level", [0.0, 3.0])
def test_a_constant_y_is_explained_already(level):
    X, _ = design("student", 0, 30, [1.0, 0])
    found = bmjax.posterior(X, np.full(30, level), intercept=True, family="student")
    assert found.status == bmjax.Status.EXACT_FIT
    np.testing.assert_array_equal(found.coef, 0)
    np.testing.assert_allclose(found.intercept, level)
    assert found.family.degrees == 4


def test_outliers_do_not_choose_features():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(150, 12))
    y = X[:, 0] - 0.8 * X[:, 4] + rng.normal(size=150)
    y[::12] += 25 * rng.choice([-1, 1], size=13)
    found = bmjax.posterior(X, y, intercept=True, family="student")
    assert found.select(fdr=0.1).tolist() == [j in (0, 4) for j in range(12)]
    np.testing.assert_allclose(found.coef[jnp.array([0, 4])], [1, -0.8], 0.25)
    plain = bmjax.posterior(X, y, intercept=True)
    assert found.standard_errors[0] < 0.5 * plain.standard_errors[0]


def test_predictions_are_probabilities():
    X, y = design("logistic", 10, 200, [1.0, 0, -0.6])
    found = bmjax.posterior(X, y, intercept=True, family="logistic")
    chance, deviation = found.predict(X, return_std=True)
    np.testing.assert_allclose(deviation, np.sqrt(chance * (1 - chance)), 1e-5)
    np.testing.assert_array_equal(found.predict(X), chance)
    assert np.all((chance > 0) & (chance < 1))
    # The mean over draws of effects from the mixture.
    rng = np.random.default_rng(0)
    mixture = found.mixture
    cov = np.asarray(mixture.covariance, float)
    features = np.asarray(mixture.features)
    effects = rng.multivariate_normal(np.asarray(found.coef)[features], cov, 20_000)
    level = rng.normal(size=20_000) * np.sqrt(float(found.level_variance))
    away = (X - np.asarray(found.center))[:, features]
    base = float(found.intercept + found.center @ found.coef)
    drawn = 1 / (1 + np.exp(-(base + away @ effects.T + level)))
    np.testing.assert_allclose(chance, drawn.mean(axis=1), 0, 0.01)


@pytest.mark.parametrize(
    ("y", "options", "words"),
    [
        (lambda y: y + 1, {"family": "logistic"}, "outcomes 0 and 1"),
        (lambda y: 0 * y, {"family": "logistic"}, "both outcomes"),
        (lambda y: y, {"family": "logistic", "noise_precision": 1.0}, "no noise"),
        (lambda y: y, {"family": "poisson"}, "family"),
        (lambda y: y, {"family": bmjax.Student(-1)}, "degrees"),
    ],
)
def test_wrong_inputs(y, options, words):
    X, target = design("logistic", 0, 30, [1.0, 0])
    with pytest.raises(ValueError, match=words):
        bmjax.posterior(X, y(target), **options)


def test_errors_of_supports_that_differ_by_chain():
    # Two chains: one always at the first support, one always at the second.
    found = SimpleNamespace(
        inside=np.array([[True], [False]]),
        by_chain=np.eye(2),
        error=np.array([0.01]),
        features=np.array([0]),
    )
    error = reweighted._error(found, np.array([1.5, 0.5]), np.array([0.6]))
    changes = np.array([0.5 * 0.4, -0.5 * -0.6])
    np.testing.assert_allclose(error, np.sqrt(0.01**2 + np.var(changes, ddof=1) / 2))
