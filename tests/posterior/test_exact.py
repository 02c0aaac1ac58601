"""Every support enumerated, beside a literal loop over least squares."""

import jax
import numpy as np
import pytest

import bmjax
from tests.posterior.designs import ar1, literal


def agree(found, wanted, rtol=1e-8):
    free = wanted["free"]
    np.testing.assert_allclose(found.probability[..., free], wanted["probability"], rtol)
    np.testing.assert_allclose(found.coef[..., free], wanted["coef"], rtol, 1e-12)
    errors = np.sqrt(np.diagonal(wanted["covariance"]))
    np.testing.assert_allclose(found.standard_errors[..., free], errors, rtol)
    np.testing.assert_allclose(found.noise_variance, wanted["noise"], rtol)
    np.testing.assert_allclose(found.size, wanted["size"], rtol, 1e-12)
    np.testing.assert_allclose(found.mixture.probability[0], wanted["support"], rtol)


CASES = {
    "plain": {"intercept": False},
    "intercept": {"intercept": True},
    "weights": {"intercept": True, "weights": True},
    "unmasked": {"intercept": True, "always": (1, 4), "k": 8},
    "known noise": {"intercept": True, "precision": 0.8},
}


@pytest.mark.parametrize("case", CASES)
def test_all_supports_as_by_a_loop_over_least_squares(case):
    asked = dict(CASES[case])
    X, y, _ = ar1(1, 40, asked.pop("k", 6), [1, -1, 0.4], correlation=0.8)
    X, y = X + 3.0, y + 10.0
    weights = None
    if asked.pop("weights", False):
        weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    found = bmjax.posterior(
        X,
        y,
        intercept=asked["intercept"],
        sample_weights=weights,
        unmasked=list(asked.get("always", ())) or None,
        noise_precision=asked.get("precision"),
    )
    agree(found, literal(X, y, weights=weights, **asked))
    assert found.converged
    assert np.all(found.probability_error == 0)


def test_unmasked_features_and_the_level_have_the_covariance_of_the_whole_posterior():
    X, y, _ = ar1(2, 50, 8, [1, -1], correlation=0.6)
    X += 2
    found = bmjax.posterior(X, y, intercept=True, unmasked=[0, 3])
    wanted = literal(X, y, intercept=True, always=(0, 3))
    # By the law of total variance, from the effects of the others.
    base = np.column_stack([np.ones(50), X[:, [0, 3]]])
    way = np.linalg.lstsq(base, X[:, wanted["free"]], rcond=None)[0]
    start = np.linalg.lstsq(base, y, rcond=None)[0]
    mean = start - way @ wanted["coef"]
    covariance = wanted["noise"] * np.linalg.inv(base.T @ base)
    covariance += way @ wanted["covariance"] @ way.T
    np.testing.assert_allclose(found.intercept, mean[0], 1e-8)
    np.testing.assert_allclose(found.coef[np.array([0, 3])], mean[1:], 1e-8)
    errors = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose(found.standard_errors[np.array([0, 3])], errors[1:], 1e-8)
    # And predictions at new samples, where all of them move together.
    new = np.random.default_rng(0).normal(size=(7, 8))
    at = np.column_stack([np.ones(7), new[:, [0, 3]]])
    rest = new[:, wanted["free"]] - at @ way
    variance = wanted["noise"] * (1 + np.sum(at @ np.linalg.inv(base.T @ base) * at, axis=1))
    variance += np.sum(rest @ wanted["covariance"] * rest, axis=1)
    means, deviations = found.predict(new, return_std=True)
    np.testing.assert_allclose(means, at @ start + rest @ wanted["coef"], 1e-8)
    np.testing.assert_allclose(deviations, np.sqrt(variance), 1e-8)


def test_fewer_rows_than_features():
    X, y, _ = ar1(3, 7, 6, [3.0], correlation=0.2)
    found = bmjax.posterior(X, y, intercept=True)
    agree(found, literal(X, y, intercept=True, most=3))
    assert np.all(found.size[4:] == 0)


def test_units_zeros_and_order_do_not_matter():
    X, y, _ = ar1(4, 40, 6, [1, 0, -0.5])
    plain = bmjax.posterior(X, y, intercept=True)
    scale = np.array([1e-6, 1e6, 1, 3, 1e3, 1e-3])
    order = np.array([3, 0, 5, 1, 2, 4])
    moved = bmjax.posterior((X * scale + 1e3 * scale)[:, order], 1e4 * y - 7, intercept=True)
    np.testing.assert_allclose(moved.probability, plain.probability[order], 1e-6)
    np.testing.assert_allclose(moved.coef, 1e4 * (plain.coef / scale)[order], 1e-6)
    np.testing.assert_allclose(moved.noise_variance, 1e8 * plain.noise_variance, 1e-6)
    lower, upper = moved.interval()
    np.testing.assert_allclose(lower, 1e4 * (plain.interval()[0] / scale)[order], 1e-4, 1e-6)
    assert np.all(lower <= upper)


def test_weights_are_repeated_rows():
    X, y, _ = ar1(5, 30, 6, [1, -1])
    times = np.random.default_rng(1).integers(0, 3, 30)
    a = bmjax.posterior(X, y, intercept=True, sample_weights=times)
    b = bmjax.posterior(np.repeat(X, times, 0), np.repeat(y, times), intercept=True)
    for field in ("probability", "coef", "standard_errors", "intercept", "noise_variance"):
        np.testing.assert_allclose(getattr(a, field), getattr(b, field), 1e-8)


def test_a_batch_is_a_loop_and_one_bad_dataset_harms_none():
    data = [ar1(seed, 40, 6, [1, -1]) for seed in range(5)]
    X, y = np.stack([d[0] for d in data]), np.stack([d[1] for d in data])
    bad = y.copy()
    bad[2, 7] = np.nan
    whole = bmjax.posterior(X, bad, intercept=True)
    assert whole.coef.shape == (5, 6)
    assert repr(whole) == "Posterior(5 datasets, 6 features)"
    lower, upper = whole.interval()
    for i in (0, 1, 3, 4):
        one = bmjax.posterior(X[i], y[i], intercept=True)
        np.testing.assert_allclose(whole.probability[i], one.probability, 1e-10)
        np.testing.assert_allclose(whole.coef[i], one.coef, 1e-10, 1e-13)
        np.testing.assert_allclose(np.stack([lower[i], upper[i]]), one.interval(), 1e-8, 1e-10)
        np.testing.assert_array_equal(whole.supports[i], one.supports)
    assert whole.status[2] == bmjax.Status.NON_FINITE
    assert np.isnan(whole.probability[2]).all()
    assert np.isnan(whole.coef[2]).all()
    with pytest.raises(RuntimeError, match="NON_FINITE"):
        whole.raise_for_status()
    shared = bmjax.posterior(X[0], y, intercept=True)
    np.testing.assert_allclose(shared.coef[0], whole.coef[0], 1e-10, 1e-13)


def test_float32_is_close_to_float64_and_settings_stay():
    X, y, _ = ar1(6, 60, 6, [1, -0.5])
    X += 1000
    double = bmjax.posterior(X, y, intercept=True)
    assert double.coef.dtype == np.float64
    single = bmjax.posterior(X.astype(np.float32), y.astype(np.float32), intercept=True)
    assert single.coef.dtype == np.float32
    np.testing.assert_allclose(single.probability, double.probability, 0, 1e-3)
    with jax.enable_x64(False):
        narrow = bmjax.posterior(X, y, intercept=True)
    assert narrow.coef.dtype == np.float32
    np.testing.assert_allclose(narrow.coef, double.coef, 1e-5, 1e-6)
    assert jax.config.jax_enable_x64


def test_columns_that_are_equal_constant_or_explained():
    X, y, _ = ar1(7, 60, 6, [2, 0, 0.3])
    X[:, 3] = -2 * X[:, 0]  # says the same as the first
    X[:, 4] = 5.0
    found = bmjax.posterior(X, y, intercept=True)
    np.testing.assert_allclose(found.probability[0], found.probability[3], 1e-8)
    np.testing.assert_allclose(found.probability[0] + found.probability[3], 1, 1e-8)
    assert found.probability[4] == 0
    assert found.coef[4] == 0
    sets = found.credible_sets(0.9)
    assert set(sets[0][0]) == {0, 3}
    assert sets[0][1] > 0.99
    assert not found.supports[:, 0][found.supports[:, 3]].any()
    explained = bmjax.posterior(X, y, intercept=True, unmasked=[0])
    assert explained.probability[3] == 0
    assert np.isfinite(explained.coef).all()


def test_data_that_are_fitted_exactly_or_not_at_all():
    X, y, _ = ar1(8, 30, 6, [1, -2], noise=0)
    found = bmjax.posterior(X, y)
    assert found.status == bmjax.Status.EXACT_FIT
    np.testing.assert_allclose(found.coef, [1, -2, 0, 0, 0, 0], 1e-4, 1e-6)
    assert np.isfinite(found.standard_errors).all()
    np.testing.assert_array_equal(found.probability[:2] > 0.999, True)
    constant = bmjax.posterior(X, np.full(30, 3.0), intercept=True)
    np.testing.assert_allclose(constant.intercept, 3)
    np.testing.assert_array_equal(constant.coef, 0)
    assert np.isfinite(constant.probability).all()
    assert constant.status == bmjax.Status.EXACT_FIT
    explained = bmjax.posterior(X, X[:, 0] * 0.1 + 2, intercept=True, unmasked=[0])
    np.testing.assert_allclose(explained.coef, [0.1, 0, 0, 0, 0, 0], 1e-8, 1e-12)
    assert explained.noise_variance == 0


@pytest.mark.parametrize("limit", [15, 0])
def test_too_few_rows_for_any_feature(limit):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2, 6)), rng.normal(size=2)
    found = bmjax.posterior(X, y, intercept=True, enumerate_up_to=limit)
    np.testing.assert_array_equal(found.probability, 0)
    np.testing.assert_allclose(found.intercept, y.mean())


def test_supports_kept_are_the_most_probable():
    X, y, _ = ar1(9, 40, 6, [1, -1, 0.4])
    whole = bmjax.posterior(X, y, intercept=True)
    few = bmjax.posterior(X, y, intercept=True, supports=3)
    assert few.supports.shape == (3, 6)
    np.testing.assert_array_equal(few.supports, whole.supports[:3])
    assert whole.supports.shape == (64, 6)
    by_feature = np.asarray(whole.support_probability) @ whole.supports
    np.testing.assert_allclose(by_feature, whole.probability, 1e-8)
    np.testing.assert_allclose(few.coef, whole.coef)
