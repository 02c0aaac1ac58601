"""Streams whose y is not Gaussian, against `fit`, which has all rows in memory."""

import numpy as np
import pytest

import bmjax

N, K = 900, 6


def rows(family, seed=0):
    """Two features of six that act, and a level; a third of the rows count not at all or twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, K)) + 2
    X[:, 1] += X[:, 0]
    eta = X[:, 0] - 0.8 * X[:, 3] - 0.5
    if family == "logistic":
        y = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float)
    else:
        y = eta + rng.standard_t(3, N)
    return X, y, rng.choice([0.0, 1, 1, 1, 2], N)


@pytest.mark.parametrize(
    "options",
    [
        {"intercept": True},
        {"intercept": True, "unmasked": [2], "sample_weights": True},
        {"starts": 3},
    ],
    ids=["plain", "weights", "starts"],
)
@pytest.mark.parametrize("family", ["logistic", "student"])
def test_a_stream_is_a_fit(family, options):
    """The same optimum: touching and sweeping go in another order, so not to the last digit."""
    X, y, counts = rows(family)
    options = {"tolerance": 1e-9, "family": family, **options}
    weighted = options.pop("sample_weights", False)
    blocks = (X, y, counts) if weighted else (X, y)
    streamed = bmjax.fit_stream(blocks, block_rows=250, **options)
    fit = bmjax.fit(X, y, sample_weights=counts if weighted else None, **options)
    assert fit.converged
    assert streamed.converged
    assert streamed.family == fit.family
    np.testing.assert_array_equal(streamed.support, fit.support)
    near = {"rtol": 2e-4, "atol": 2e-4}  # the bound is flat along weight x rate
    np.testing.assert_allclose(streamed.bound, fit.bound, atol=1e-3, rtol=0)
    for name in ("coef", "intercept", "noise_precision", "standard_errors", "r_squared"):
        np.testing.assert_allclose(getattr(streamed, name), getattr(fit, name), **near)
    for name in ("by_slot_given_masks", "least_squares_by_slot", "relative_size", "correlation"):
        got, want = getattr(streamed.uncertainty, name), getattr(fit.uncertainty, name)
        np.testing.assert_allclose(got, want, **near, err_msg=name)


def test_outcomes_told_apart_are_said_to_be():
    X, _, _ = rows("logistic")
    y = (X[:, 0] > X[:, 3]).astype(float)
    fit = bmjax.fit_stream([(X[:300], y[:300]), (X[300:], y[300:])], family="logistic")
    assert fit.status == bmjax.Status.SEPARATED
    assert np.isfinite(fit.coef).all()


@pytest.mark.parametrize(
    ("family", "change", "words"),
    [
        (bmjax.Student(None), None, "learns its degrees"),
        ("logistic", lambda y: y + 1, "outcomes 0 and 1"),
        ("logistic", lambda y: np.ones_like(y), "needs both outcomes"),
        ("poisson", None, "family is 'poisson'"),
    ],
)
def test_refused_with_a_message(family, change, words):
    X, y, _ = rows("logistic")
    with pytest.raises(ValueError, match=words):
        bmjax.fit_stream([(X, y if change is None else change(y))], family=family)
