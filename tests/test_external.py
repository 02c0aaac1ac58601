"""The yardstick and the designs of the benchmark on published tables."""

import numpy as np
import pytest

from benchmarks.external import boss, hastie_designs, published, tian
from benchmarks.external.rstream import RStream


def literal_path(X, y):
    """Forward selection by least squares, then QR, then the largest coefficients first."""
    n, p = X.shape
    order = []
    for _ in range(min(n - 1, p)):
        rss = {}
        for j in set(range(p)) - set(order):
            columns = X[:, [*order, j]]
            rss[j] = np.sum((y - columns @ np.linalg.lstsq(columns, y, rcond=None)[0]) ** 2)
        order.append(min(rss, key=rss.__getitem__))
    basis, triangle = np.linalg.qr(X[:, order])
    scores = basis.T @ y
    fits = [np.zeros(n)]
    for size in range(1, len(order) + 1):
        kept = np.zeros(len(order))
        largest = np.argsort(-np.abs(scores))[:size]
        kept[largest] = scores[largest]
        coef = np.zeros(p)
        coef[order] = np.linalg.solve(triangle, kept)
        fits.append(X @ coef)
    return order, np.stack(fits, axis=1)


@pytest.mark.parametrize(("n", "p"), [(40, 7), (9, 14)])
def test_the_path_is_forward_selection_and_qr(n, p):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.4)
    mean = X[:, :3] @ [1.0, -1.0, 0.5]
    X, mean = X - X.mean(axis=0), mean - mean.mean()
    y = mean + rng.normal(size=n)
    y = y - y.mean()
    order, fits = literal_path(X, y)
    path = boss.path(X, y)
    # The last step of wide data completes the space, whichever feature it takes.
    assert list(path.order)[:-1] == order[:-1]
    np.testing.assert_allclose(path.fits(), fits, atol=1e-8)
    errors = boss.errors(path, mean)
    np.testing.assert_allclose(
        errors, np.sqrt(np.mean((fits - mean[:, None]) ** 2, axis=0)), atol=1e-8
    )
    if p < n:
        assert errors.min() <= errors[boss.by_aicc(path, y)]


def test_normal_numbers_are_those_of_r():
    # set.seed(42); rnorm(4)
    np.testing.assert_allclose(
        RStream(42).normal(4), [1.37095845, -0.56469817, 0.36312841, 0.63286260], atol=1e-8
    )


@pytest.mark.parametrize(
    "cell",
    [
        tian.Cell("Sparse-Ex3", 200, 30, 0.5, 7.0),
        tian.Cell("Dense", 200, 14, 0.0, 0.2),
        tian.Cell("Sparse-Ex1", 200, 250, 0.9, 1.5),
    ],
)
def test_the_published_datasets_are_drawn_again(cell):
    data = tian.draw(cell, 2)
    best = [boss.errors(boss.path(data.X, y), data.mean).min() for y in data.y]
    np.testing.assert_allclose(best, published.first_draws(cell)[:2], rtol=1e-5)


@pytest.mark.parametrize("beta", hastie_designs.TYPES)
def test_the_grid_has_the_signal_it_says(beta):
    cell = hastie_designs.Cell(500, 12, 5, beta, 0.7, 2.0707)
    data = hastie_designs.draw(cell, 20)
    covariance = np.cov(data.X.reshape(-1, 12), rowvar=False)
    np.testing.assert_allclose(covariance, data.covariance, atol=0.05)
    signal = (data.X @ data.coef).var()
    np.testing.assert_allclose(signal / (data.y.var() - signal), cell.snr, rtol=0.1)
