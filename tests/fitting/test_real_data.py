"""The diabetes data of Efron et al. (2004), beside all 1024 models."""

import itertools

import numpy as np
import pytest

import bmjax
from benchmarks.practice.enumeration import enumerate_models
from bmjax.datasets import load_diabetes


@pytest.fixture(scope="module")
def data():
    return load_diabetes()


def test_every_model_is_that_of_least_squares(data):
    """Some of the models, each by lstsq, against the recursion that makes all of them."""
    X, y, _ = data
    exact = enumerate_models(X, y)
    n, k = X.shape
    centred, target = X - X.mean(axis=0), y - y.mean()
    bic = {}
    for size in (0, 1, 2, 9, 10):
        for columns in itertools.combinations(range(k), size):
            left = target - centred[:, columns] @ np.linalg.lstsq(centred[:, columns], target)[0]
            bic[columns] = n * np.log(left @ left / n) + size * np.log(n)
    for columns, value in bic.items():
        support = np.isin(np.arange(k), columns)
        best = bic[()] + 0.0
        np.testing.assert_allclose(
            exact.above(support) - exact.above(np.zeros(k, bool)), value - best, atol=1e-8
        )


def test_the_features_that_are_surely_in_are_kept(data):
    """The others are a toss-up: s3, s1 and s2, or s1 and s4, each within two of the best BIC."""
    X, y, names = data
    exact = enumerate_models(X, y)
    best = [name for name, chosen in zip(names, exact.best, strict=True) if chosen]
    assert best == ["sex", "bmi", "bp", "s3", "s5"]  # as published
    r = bmjax.fit(X, y, intercept=True)
    kept = np.asarray(r.support)
    assert kept[exact.inclusion > 0.95].all()
    assert exact.above(kept) < 2
    bic = bmjax.fit(X, y, intercept=True, criterion="held")
    np.testing.assert_array_equal(bic.support, exact.best)
    refit = r.refit(X, y)
    wide = np.column_stack([X[:, kept], np.ones(len(y))])
    np.testing.assert_allclose(refit.coef[kept], np.linalg.lstsq(wide, y)[0][:-1], rtol=1e-8)
    # Masks take little here: effects within half a standard error of least squares.
    gap = np.abs(np.asarray(r.coef) - refit.coef)[kept] / refit.standard_errors[kept]
    assert gap.max() < 0.5
