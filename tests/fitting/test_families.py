"""Fits of other families from the outside: rivals, brute force, batches, ends, and refusals."""

import itertools
import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from sklearn.linear_model import LogisticRegression

import bmjax
from tests.helpers import learned_charge, same_bits


def outcomes(seed, n=300, k=6, effects=(1.5, 0, -1, 0, 0, 0.8), level=-0.5, dtype=np.float64):
    """Two outcomes whose log-odds some columns, off zero and of unlike units, decide."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, k))
    y = rng.random(n) < scipy.special.expit(X @ np.resize(effects, k) + level)
    return (X * 3 + 10).astype(dtype), y.astype(dtype)


@pytest.fixture(scope="module")
def data():
    return outcomes(0)


@pytest.fixture(scope="module")
def logistic(data):
    return bmjax.fit(*data, family="logistic", intercept=True, tolerance=1e-6)


def test_kept_features_have_the_effects_of_highest_likelihood(data, logistic):
    X, y = data
    kept = np.asarray(logistic.support)
    assert kept.tolist() == [True, False, True, False, False, True]
    rival = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(X[:, kept], y)
    np.testing.assert_allclose(logistic.coef[kept], rival.coef_[0], rtol=1e-4)
    assert float(logistic.intercept) == pytest.approx(rival.intercept_[0], rel=1e-4)
    # Fisher's information at these effects, the intercept with them.
    design = np.column_stack([X[:, kept], np.ones(len(y))])
    p = np.asarray(logistic.predict(X))
    covariance = np.linalg.inv(design.T * (p * (1 - p)) @ design)
    errors = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(logistic.standard_errors[kept], errors[:-1], rtol=1e-3)
    assert float(logistic.intercept_standard_error) == pytest.approx(errors[-1], rel=1e-3)
    np.testing.assert_allclose(p, rival.predict_proba(X[:, kept])[:, 1], atol=1e-4)
    null = np.mean(y) * np.log(np.mean(y)) + np.mean(1 - y) * np.log(np.mean(1 - y))
    explained = 1 - np.mean(np.where(y == 1, np.log(p), np.log1p(-p))) / null
    assert float(logistic.r_squared) == pytest.approx(explained, rel=1e-4)


@pytest.mark.parametrize("rule", ["held", "learned"])
@pytest.mark.parametrize(("seed", "level"), [(0, 0), (1, 0), (4, 0), (7, -2), (15, -2)])
def test_the_subset_is_the_best_of_all(seed, level, rule):
    """Every subset fitted by scikit-learn: the choice is the best by the rule, written out."""
    X, y = outcomes(seed, n=120, effects=(0.7, 0, -0.5, 0, 0, 0.4), level=level)
    X, n, k, share = X - X.mean(axis=0), 120, 6, y.mean()
    assert (share < 0.2) == (level < 0)
    # Of samples as many as tell of an effect what n of equal shares would.
    least = 4 * share * (1 - share) if rule == "learned" else 1
    gamma = max(1 - np.log(n * least) / (8 * np.log(k)), 0) if rule == "learned" else 0
    scores = {}
    for subset in itertools.product((False, True), repeat=k):
        kept = np.asarray(subset)
        spent = 0.5 * kept.sum() * np.log(n)
        p = np.full(n, share)
        if kept.any():
            rival = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(X[:, kept], y)
            p = rival.predict_proba(X[:, kept])[:, 1]
            if rule == "learned":
                squares = rival.coef_[0] ** 2 * ((p * (1 - p)) @ X[:, kept] ** 2) / n
                spent = learned_charge(n, squares, least=least)
        likelihood = np.sum(np.where(y == 1, np.log(p), np.log1p(-p)))
        choices = gamma * np.log(math.comb(k, min(kept.sum(), k // 2)))
        scores[subset] = likelihood - spent - choices
    fit = bmjax.fit(X, y, family="logistic", intercept=True, criterion=rule)
    assert tuple(np.asarray(fit.support).tolist()) == max(scores, key=scores.__getitem__)


def test_batches_lanes_and_traced_calls_are_the_fits_one_by_one():
    X, y = (np.stack(parts) for parts in zip(*map(outcomes, range(3)), strict=True))
    options = {"family": "logistic", "intercept": True, "uncertainty": False}
    alone = [bmjax.fit(a, b, **options) for a, b in zip(X, y, strict=True)]
    batch = bmjax.fit_batch(X, y, **options)
    lanes = jax.vmap(lambda a, b: bmjax.fit(a, b, **options))(X, y)
    for together in (batch, lanes):
        for i, fit in enumerate(alone):
            np.testing.assert_array_equal(together.support[i], fit.support)
            np.testing.assert_allclose(together.coef[i], fit.coef, atol=1e-10)
            np.testing.assert_allclose(together.bound[i], fit.bound, rtol=1e-12)


@pytest.mark.parametrize("family", ["logistic", "student"])
def test_weights_are_repeated_rows(family):
    X, y = outcomes(4)
    counts = np.random.default_rng(0).integers(0, 3, len(y))
    options = {"family": family, "intercept": True}
    weighted = bmjax.fit(X, y, sample_weights=counts, **options)
    repeated = bmjax.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts), **options)
    np.testing.assert_array_equal(weighted.support, repeated.support)
    np.testing.assert_allclose(weighted.coef, repeated.coef, atol=1e-9)
    assert float(weighted.bound) == pytest.approx(float(repeated.bound), rel=1e-10)


def test_float32_finds_the_same(logistic):
    X, y = outcomes(0, dtype=np.float32)
    fit = bmjax.fit(X, y, family="logistic", intercept=True, tolerance=1e-6)
    assert fit.coef.dtype == np.float32
    np.testing.assert_array_equal(fit.support, logistic.support)
    np.testing.assert_allclose(fit.coef, logistic.coef, atol=1e-3)


def test_outliers_choose_no_features():
    """One row in ten is off by ten deviations: the t keeps what is there, and near the truth."""
    rng = np.random.default_rng(2)
    X, effects = rng.normal(size=(300, 8)), np.array([1.0, -0.6, 0, 0, 0, 0, 0, 0.4])
    clean = X @ effects + rng.normal(size=300)
    off = rng.random(300) < 0.1
    y = clean + np.where(off, 10 * rng.choice([-1, 1], 300), 0)
    fit = bmjax.fit(X, y, family="student", intercept=True)
    np.testing.assert_array_equal(fit.support, effects != 0)
    np.testing.assert_allclose(fit.coef, effects, atol=0.25)
    weights = np.asarray(fit.row_weights(X, y))
    assert weights[off].max() < 0.5 < np.median(weights[~off])
    learned = bmjax.fit(X, clean, family=bmjax.Student(None), intercept=True)
    assert float(learned.family.degrees) > 10  # noise that is normal
    heavy = bmjax.fit(X, X @ effects + rng.standard_t(2, 300), family=bmjax.Student(None))
    assert float(heavy.family.degrees) < 4


def test_outcomes_that_are_told_apart_end_with_a_status():
    X, y = outcomes(1)
    X[:, 3] += 50 * y  # the outcome in disguise
    fit = bmjax.fit(X, y, family="logistic", intercept=True)
    assert int(fit.status) == bmjax.Status.SEPARATED
    assert all(np.isfinite(leaf).all() for leaf in (fit.coef, fit.intercept, fit.bound))
    with pytest.raises(RuntimeError, match="SEPARATED"):
        fit.raise_for_status()
    batch = bmjax.fit_batch(X[None], np.zeros((1, len(y))), family="logistic", intercept=True)
    assert int(batch.status[0]) == bmjax.Status.SEPARATED


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"y": 2.0}, ValueError, "outcomes 0 and 1"),
        ({"constant": True}, ValueError, "needs both outcomes"),
        ({"noise_precision": 1.0}, ValueError, "has no noise"),
        ({"family": "probit"}, ValueError, "gaussian, logistic, student"),
        ({"family": 3}, TypeError, "family is 3"),
        ({"family": bmjax.Student(-1.0)}, ValueError, "degrees"),
    ],
)
def test_refusals(data, changes, error, match):
    X, y = data
    options = {"family": "logistic", **changes}
    y = y * options.pop("y", 1.0)
    if options.pop("constant", False):
        y = np.ones_like(y)
    with pytest.raises(error, match=match):
        bmjax.fit(X, y, **options)


def test_what_is_not_there_is_refused_in_words(data, logistic):
    X, y = data
    with pytest.raises(NotImplementedError, match="derivatives for family='gaussian' only"):
        jax.grad(lambda X: bmjax.fit(X, y, family="logistic").coef.sum())(jnp.asarray(X))
    with pytest.raises(ValueError, match="least squares"):
        logistic.refit(X, y)


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_files_keep_the_family(data, logistic, tmp_path, ending):
    logistic.save(tmp_path / f"fit{ending}")
    again = bmjax.load(tmp_path / f"fit{ending}")
    assert same_bits(again._replace(lane_steps=None), logistic._replace(lane_steps=None))
    assert again.family == bmjax.Logistic()
    np.testing.assert_array_equal(again.predict(data[0]), logistic.predict(data[0]))


def test_a_summary_speaks_of_odds(logistic):
    text = str(logistic.summary())
    for word in ("odds ratio", "logistic", "deviance explained"):
        assert word in text
    assert "noise" not in text
    table = logistic.to_pandas()
    np.testing.assert_allclose(table["odds_ratio"], np.exp(table["coef"]))


def test_resampling_takes_a_family(data):
    chosen = bmjax.stability_selection(
        *data, jax.random.key(0), 10, family="logistic", intercept=True
    )
    assert np.asarray(chosen.frequencies)[[0, 2, 5]].min() > 0.5


def test_the_classifier_knows_any_two_labels(data, logistic):
    from bmjax.sklearn import BayesianMaskingClassifier

    X, y = data
    labels = np.where(y == 1, "yes", "no")
    model = BayesianMaskingClassifier(tolerance=1e-6).fit(X, labels)
    assert model.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(model.coef_, logistic.coef, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], logistic.predict(X), atol=1e-6)
    assert (model.predict(X) == labels).mean() == model.score(X, labels) > 0.7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="two apart"):
            model.fit(X, np.arange(len(y)) % 3)
