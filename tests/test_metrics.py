"""Scores by hand, by scikit-learn, and at the empty sets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from bmjax import metrics

RNG = np.random.default_rng(0)
# Six features, four irrelevant (m1 = 4); three pruned (m2 = 3), two of them rightly (m3 = 2).
TRUTH = np.array([0, 0, 0, 0, 1.5, -2])
COEF = np.array([0, 0, 0.1, -0.2, 0, -1.5])


def test_pruning_by_hand():
    scores = metrics.pruning(COEF != 0, TRUTH)
    assert scores == pytest.approx((2 / 3, 2 / 4, 4 / 7))
    assert metrics.pruning(COEF, TRUTH != 0) == scores
    assert scores.f1 == pytest.approx(2 / (1 / scores.precision + 1 / scores.recall))


def test_selection_by_hand():
    assert metrics.selection(COEF, TRUTH) == pytest.approx((1 / 3, 1 / 2, 2 / 5))


@pytest.mark.parametrize("score", [metrics.pruning, metrics.selection])
def test_batches_agree_with_scikit_learn(score):
    kept, relevant = RNG.uniform(size=(2, 30, 4)) < 0.5
    ours = score(kept, relevant)
    turn = (lambda z: ~z) if score is metrics.pruning else (lambda z: z)
    for i in range(30):
        expected = precision_recall_fscore_support(
            turn(relevant[i]), turn(kept[i]), average="binary", zero_division=1
        )[:3]
        assert [field[i] for field in ours] == pytest.approx(expected)
    one_truth = score(kept, relevant[0])
    assert one_truth.f1.shape == (30,)
    np.testing.assert_array_equal(one_truth.f1[0], ours.f1[0])
    lanes = jax.vmap(score)(kept, relevant)
    for a, b in zip(ours, lanes, strict=True):
        np.testing.assert_array_equal(a, b)


NONE, ALL = np.zeros(3, bool), np.ones(3, bool)


@pytest.mark.parametrize(
    ("named", "wanted", "expected"),
    [
        (NONE, ALL, (1, 0, 0)),  # nothing named: no name is wrong, all are missed
        (ALL, NONE, (0, 1, 0)),  # nothing to be named: all names are wrong, none is missed
        (NONE, NONE, (1, 1, 1)),
        (ALL, ALL, (1, 1, 1)),
        (ALL[:0], ALL[:0], (1, 1, 1)),  # no features at all
    ],
)
def test_what_an_empty_set_scores(named, wanted, expected):
    assert metrics.selection(named, wanted) == expected
    assert metrics.pruning(~named, ~wanted) == expected


def test_bias_and_squared_error_by_hand():
    # Feature 5 is pruned (-1.5), feature 6 shrunk by 0.5.
    assert metrics.bias(COEF, TRUTH) == pytest.approx((-1.5 - 0.5) / 2)
    assert metrics.bias(-COEF, -TRUTH) == pytest.approx(-1)
    assert metrics.bias(TRUTH, TRUTH) == 0
    assert metrics.bias(COEF, np.zeros(6)) == 0  # nothing relevant
    assert metrics.squared_error(COEF, TRUTH) == pytest.approx(0.01 + 0.04 + 1.5**2 + 0.25)


def test_prediction_error(dtype):
    X = jnp.asarray(RNG.normal(size=(5, 20, 3)), dtype)
    coef = jnp.asarray(RNG.normal(size=(5, 3)), dtype)
    y = jnp.asarray(RNG.normal(size=(5, 20)), dtype)
    error = metrics.prediction_error(coef, X, y)
    assert error.dtype == dtype
    expected = [np.mean((y[i] - X[i] @ coef[i]) ** 2) for i in range(5)]
    np.testing.assert_allclose(error, expected, rtol=1e-5)
    # One dataset for many estimates, many datasets for one estimate.
    np.testing.assert_allclose(metrics.prediction_error(coef, X[0], y[0])[0], error[0], rtol=1e-6)
    np.testing.assert_allclose(metrics.prediction_error(coef[0], X, y)[0], error[0], rtol=1e-6)
    assert metrics.prediction_error(coef[0], X[0], X[0] @ coef[0]) < 1e-12
    assert metrics.prediction_error([1, 2], [[1, 0], [0, 1]], [1, 4]) == pytest.approx(2)


def test_types_are_kept(dtype):
    coef, truth = jnp.asarray(COEF, dtype), jnp.asarray(TRUTH, dtype)
    assert metrics.bias(coef, truth).dtype == dtype
    assert metrics.squared_error(coef, truth).dtype == dtype
    assert metrics.squared_error(coef, TRUTH).dtype == jnp.float64
    assert metrics.pruning(coef, truth).f1.dtype == jnp.float64  # a ratio of counts: JAX's default


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.pruning(NONE, NONE[:2]), r"support has shape \(3,\) and truth \(2,\)"),
        (lambda: metrics.selection(NONE, True), "features last"),
        (lambda: metrics.bias(np.ones((2, 3)), np.ones((4, 3))), "batch axes differ"),
        (lambda: metrics.prediction_error(NONE, np.ones((4, 2)), np.ones(4)), "a column for each"),
        (lambda: metrics.prediction_error(NONE, np.ones((4, 3)), np.ones(3)), "one entry for each"),
        (lambda: metrics.prediction_error(NONE, np.ones((0, 3)), np.ones(0)), "one or more"),
        (
            lambda: metrics.prediction_error(np.ones((2, 3)), np.ones((3, 4, 3)), np.ones(4)),
            "batch axes differ",
        ),
    ],
)
def test_shapes_that_do_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call()
