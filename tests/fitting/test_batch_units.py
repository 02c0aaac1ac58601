"""Batches far from zero in the default float32: the same features as in float64, or said."""

import jax
import numpy as np
import pytest

import bmjax
from tests.helpers import normal_design

X, Y = normal_design(0, 100, [2.0, -1.0, 0.5, 0.0], noise=0.3)
KEPT = [True, True, True, False]


@pytest.mark.parametrize("far", [(0, 0), (1e7, 0), (1e9, 1e9)])
@pytest.mark.parametrize("x64", [False, True])
def test_timestamps_and_populations_keep_what_varies_of_them(far, x64):
    A, b = X + far[0], Y + far[1]
    counts = np.ones(100)
    counts[:4] = 0
    hidden = np.where(counts[:, None] == 0, np.nan, A)  # absent rows may hold anything
    with jax.enable_x64(x64):
        near = bmjax.fit_batch(X[None], Y[None], intercept=True)
        for batch in (
            bmjax.fit_batch(A[None], b[None], intercept=True),
            bmjax.fit_batch(A, b[None], intercept=True),
            bmjax.fit_batch(hidden[None], b[None], intercept=True, sample_weights=counts[None]),
        ):
            assert batch.status[0] == bmjax.Status.CONVERGED
            assert batch.support[0].tolist() == KEPT
            np.testing.assert_allclose(batch.coef[0], near.coef[0], atol=0.03)
            # What float32 can say of a level of this size, and no more.
            rounding = 8 * np.finfo(batch.coef.dtype).eps * max(*far, 1)
            left = np.asarray(batch.predict(A)[0], float) - b
            assert np.sqrt(np.mean(left**2)) < 0.35 + rounding
            assert batch.center[0] == pytest.approx(A.mean(axis=0), rel=1e-5, abs=0.1)


def test_resamples_far_from_zero_are_those_near():
    with jax.enable_x64(False):
        options = dict(intercept=True, initial_inclusion=0.5)
        near = bmjax.stability_selection(X, Y, jax.random.key(0), 4, **options)
        far = bmjax.stability_selection(X + 1e7, Y + 1e7, jax.random.key(0), 4, **options)
        np.testing.assert_array_equal(far.supports, near.supports)
        assert far.frequencies.dtype == np.float32


def test_a_dataset_with_holes_leaves_the_others_alone():
    Xs, ys = np.stack([X + 1e7] * 2), np.stack([Y, Y])
    Xs[0, 3, 1] = np.nan
    with jax.enable_x64(False):
        batch = bmjax.fit_batch(Xs, ys, intercept=True)
    assert batch.status.tolist() == [bmjax.Status.NON_FINITE, bmjax.Status.CONVERGED]
    assert batch.support[1].tolist() == KEPT
