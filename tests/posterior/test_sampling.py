"""Chains over supports, beside all supports enumerated."""

import jax
import numpy as np
import pytest

import bmjax
from bmjax._posterior import sampling
from bmjax._posterior.agreement import few_of, without_drift
from tests.posterior.designs import ar1

K = 12


def cancelling(seed):
    """Pairs of neighbours correlated by .95 whose effects cancel, and a column that is there twice.

    Neither of a pair helps without the other.
    """
    rng = np.random.default_rng(seed)
    one = rng.normal(size=(70, K // 2))
    two = 0.95 * one + np.sqrt(1 - 0.95**2) * rng.normal(size=one.shape)
    X = np.stack([one, two], axis=2).reshape(70, K)
    X[:, 11] = -X[:, 7]
    y = X[:, :4] @ [1.0, -1.0, 1.5, -1.5] + 0.5 * X[:, 7] + rng.normal(size=70)
    return X, y


DESIGNS = {
    "independent": lambda seed: ar1(seed, 80, K, [1, -0.5, 0.3, 0.3], 0.0)[:2],
    "neighbours": lambda seed: ar1(seed, 60, K, [0.6, 0, 0, -0.5, 0.4], 0.8)[:2],
    "cancelling": cancelling,
    "few rows": lambda seed: ar1(seed, 20, K, [1, 0, 0, 1], 0.3)[:2],
}


HARD = ["neighbours", "cancelling"]
CASES = [(d, s) for d in DESIGNS for s in range(5 if d in HARD else 2)]


@pytest.mark.parametrize(("design", "seed"), CASES)
def test_chains_find_the_probabilities_of_all_supports(design, seed):
    X, y = DESIGNS[design](seed)
    exact = bmjax.posterior(X, y, intercept=True)
    key = jax.random.key(seed)
    found = bmjax.posterior(X, y, key, intercept=True, enumerate_up_to=0, tolerance=0.006)
    assert found.converged
    assert found.num_steps > 0
    assert np.max(np.abs(found.probability - exact.probability)) < 0.02
    # Errors are what they say.
    away = np.abs(found.probability - exact.probability)
    assert np.all(away < 5 * found.probability_error + 1e-3)
    spread = np.max(exact.standard_errors)
    np.testing.assert_allclose(found.coef, exact.coef, 0, 0.06 * spread)
    np.testing.assert_allclose(found.standard_errors, exact.standard_errors, 0.1, 0.03 * spread)
    np.testing.assert_allclose(found.size[:K], exact.size[:K], 0, 0.05)
    np.testing.assert_allclose(found.noise_variance, exact.noise_variance, 0.02)
    new = X[:5] + 0.3
    for a, b in zip(found.predict(new, True), exact.predict(new, True), strict=True):
        np.testing.assert_allclose(a, b, 0.02, 0.02 * np.std(y))
    # Ends jump where they meet the mass at zero, so by the levels that they lie between.
    slack = 0.1 * spread
    for end, wide, narrow in zip(
        found.interval(0.9), exact.interval(0.96), exact.interval(0.82), strict=True
    ):
        assert np.all(np.minimum(wide, narrow) - slack <= end)
        assert np.all(end <= np.maximum(wide, narrow) + slack)
    best = exact.supports[0], float(exact.support_probability[0])
    where = np.flatnonzero((found.supports == best[0]).all(axis=1))
    if best[1] > 0.1:
        assert abs(float(found.support_probability[where[0]]) - best[1]) < 0.02


def test_working_sets_drawn_at_random_lead_to_the_same(monkeypatch):
    X, y = DESIGNS["neighbours"](7)
    exact = bmjax.posterior(X, y, intercept=True)
    # As where there are many features: ten of twelve at a time, of which five by chance.
    monkeypatch.setattr(sampling, "_WIDE", sampling.Width(every=8, core=5, least=10, spare=0))
    found = bmjax.posterior(X, y, intercept=True, enumerate_up_to=0, tolerance=0.004)
    assert np.max(np.abs(found.probability - exact.probability)) < 0.02
    np.testing.assert_allclose(found.coef, exact.coef, 0, 0.06 * np.max(exact.standard_errors))


def test_paces_do_not_change_what_chains_find(monkeypatch):
    X, y = DESIGNS["cancelling"](2)
    exact = bmjax.posterior(X, y, intercept=True)
    paces = np.geomspace(0.05, 1, K)
    for order in (paces, paces[::-1]):
        monkeypatch.setattr(sampling, "_paces", lambda error, order=order: order)
        found = bmjax.posterior(X, y, intercept=True, enumerate_up_to=0, tolerance=0.005)
        away = np.abs(found.probability - exact.probability)
        assert np.all(away < 4.5 * found.probability_error + 1e-3)


def test_the_key_alone_decides():
    X, y = DESIGNS["neighbours"](3)
    options = {"intercept": True, "enumerate_up_to": 0}
    a, b = (bmjax.posterior(X, y, **options) for _ in range(2))
    other = bmjax.posterior(X, y, jax.random.key(1), **options)
    np.testing.assert_array_equal(a.probability, b.probability)
    np.testing.assert_array_equal(a.interval(), b.interval())
    assert np.any(a.probability != other.probability)
    assert np.max(np.abs(a.probability - other.probability)) < 0.06
    # Datasets of a batch draw as each alone with a key folded by its number.
    several = bmjax.posterior(np.stack([X, X + 1]), np.stack([y, -y]), jax.random.key(4), **options)
    alone = bmjax.posterior(X + 1, -y, jax.random.fold_in(jax.random.key(4), 1), **options)
    np.testing.assert_array_equal(several.probability[1], alone.probability)
    np.testing.assert_array_equal(several.interval()[0][1], alone.interval()[0])
    old = jax.random.PRNGKey(1)
    np.testing.assert_array_equal(
        bmjax.posterior(X, y, old, **options).probability, other.probability
    )


def test_many_more_features_than_rows(monkeypatch):
    monkeypatch.setattr(sampling, "_WIDE", sampling.Width(every=24, core=16, least=32, spare=8))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 300))
    y = 2 * X[:, 5] - 2 * X[:, 250] + 1.5 * X[:, 100] + rng.normal(size=60)
    X[:, 6] = X[:, 5] + 0.1 * rng.normal(size=60)
    found = bmjax.posterior(X, y, intercept=True, tolerance=0.02)
    assert found.converged
    np.testing.assert_array_equal(np.flatnonzero(found.probability > 0.9), [100, 250])
    sets = [set(members) for members, _ in found.credible_sets(0.9)]
    assert {5, 6} in sets
    assert float(found.probability[5] + found.probability[6]) > 0.98
    assert (
        abs(
            float(np.sum(found.probability)) - float(found.size @ np.arange(float(len(found.size))))
        )
        < 0.3
    )
    assert np.isfinite(found.interval()[0]).all()


def test_chains_that_may_not_go_on_say_so():
    X, y = DESIGNS["neighbours"](3)
    found = bmjax.posterior(X, y, intercept=True, enumerate_up_to=0, tolerance=1e-6, max_steps=1024)
    assert found.status == bmjax.Status.MAX_STEPS
    assert found.num_steps == 1024
    assert not found.converged
    with pytest.raises(RuntimeError, match="max_steps"):
        found.raise_for_status()


def test_few_that_stand_for_many():
    weight = np.sort(np.random.default_rng(0).pareto(1.0, 1000))[::-1]
    weight /= weight.sum()
    chosen, share = few_of(weight, 50)
    assert len(chosen) <= 50
    np.testing.assert_allclose(share.sum(), 1)
    np.testing.assert_allclose(share[:10], weight[:10])
    # A mean over the few is close to one over all.
    values = np.sin(np.arange(1000) / 100)
    assert abs(share @ values[chosen] - weight @ values) < 0.02


def test_effects_of_columns_that_explain_each_other_cancel():
    """Spectra: large effects whose sum is of the size of y, as those of each support are."""
    rng = np.random.default_rng(0)
    waves = np.cos(np.outer(np.arange(1, 7), np.linspace(0, 3, 40)))
    latent = rng.normal(size=(200, 6))
    X = latent @ waves + 1e-5 * rng.normal(size=(200, 40))
    y = latent @ [1.0, -1, 0.5, 0.5, -0.5, 1] + 0.05 * rng.normal(size=200)
    options = {"intercept": True, "max_steps": 2000}
    found = bmjax.posterior(X[:120], y[:120], jax.random.key(0), **options)
    off = np.asarray(found.predict(X[120:])) - y[120:]
    assert np.sqrt(np.mean(off**2)) < 0.06


def test_noise_that_the_drift_explains_is_subtracted():
    rng = np.random.default_rng(0)
    drift, rest = rng.normal(size=(2, 60, 16, 5))
    drift[..., 4] = 0  # a feature that never flips
    away = drift @ rng.normal(size=(5, 5)) + 0.1 * rest
    left = without_drift(away, drift)
    assert np.std(left) < 0.5 * np.std(away)
    # Noise of its own is not taken for drift: means stay as uncertain as they are.
    np.testing.assert_allclose(np.std(without_drift(rest, drift)), np.std(rest), 0.02)
