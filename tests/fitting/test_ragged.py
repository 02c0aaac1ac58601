"""Datasets of different length in one call: each as if alone, few shapes for all."""

from itertools import pairwise

import numpy as np
import pytest

import bmjax
from bmjax._fitting import batch, ragged
from tests.helpers import lane, plain_fit, plain_fit_batch, uniform_design

LENGTHS = (40, 33, 70, 48, 41)


@pytest.fixture(scope="module")
def designs():
    all_of_them = [uniform_design(seed, 4, n=n) for seed, n in enumerate(LENGTHS)]
    return [d[0] for d in all_of_them], [d[1] for d in all_of_them]


def test_each_dataset_as_if_alone(designs):
    X, y = designs
    counts = [np.random.default_rng(n).integers(0, 3, size=n) for n in LENGTHS]
    for options in ({}, {"sample_weights": counts}):
        batch = plain_fit_batch(X, y, uncertainty=True, **options)
        assert batch.coef.shape == (5, 4)
        for i in (0, 2, 4):
            own = {name: values[i] for name, values in options.items()}
            alone = plain_fit(X[i], y[i], **own)
            np.testing.assert_array_equal(batch.support[i], alone.support)
            np.testing.assert_allclose(batch.coef[i], alone.coef, atol=1e-10)
            np.testing.assert_allclose(batch.bound[i], alone.bound, atol=1e-9)
            np.testing.assert_allclose(
                lane(batch.uncertainty, i).standard_errors, alone.standard_errors, rtol=1e-9
            )
            assert batch.num_steps[i] == alone.num_steps
        assert batch.lane_steps.useful == np.sum(batch.num_steps)


def test_few_shapes(designs, monkeypatch):
    shapes = set()
    one_length = batch._of_one_length

    def seen(data, **options):
        shapes.add(data[0].shape[1:])
        return one_length(data, **options)

    monkeypatch.setattr(batch, "_of_one_length", seen)
    plain_fit_batch(*designs, max_steps=0)
    assert shapes == {(48, 4), (80, 4)}


def test_ladder():
    rungs = [ragged.rung(rows) for rows in range(1, 5000)]
    assert all(rung >= rows for rows, rung in enumerate(rungs, 1))
    assert all(ragged.rung(rung) == rung for rung in set(rungs))
    steps = sorted(set(rungs))
    assert all(high <= 1.25 * low for low, high in pairwise(steps) if low >= 64)
    assert len(steps) < 40


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda X, y: (X, np.concatenate(y)), TypeError, "y is ndarray; with a list of datasets"),
        (lambda X, y: (X, y[:-1]), ValueError, "y holds 4 arrays, X holds 5"),
        (
            lambda X, y: (X, [*y[:-1], y[0]]),
            ValueError,
            r"y\[4\] has shape \(40,\), wanted \(41,\)",
        ),
        (lambda X, y: ([X[0][:, :3], *X[1:]], y), ValueError, r"datasets of \[3, 4\] features"),
    ],
)
def test_wrong_lists(designs, change, error, message):
    with pytest.raises(error, match=message):
        bmjax.fit_batch(*change(*designs))


@pytest.mark.parametrize("call", [bmjax.fit_batch, bmjax.posterior])
def test_one_length_and_different_numbers_of_features(call):
    X = [np.eye(30)[:, :4], np.eye(30)[:, :3]]
    with pytest.raises(ValueError, match=r"datasets of \[3, 4\] features"):
        call(X, [np.ones(30), np.ones(30)])
