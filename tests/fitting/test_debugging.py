"""Switches with which users hunt NaN, infinity and leaks: clean data fit under each."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import bmjax
from tests.helpers import normal_design

WATCHES = {
    "nans": lambda: jax.debug_nans(True),
    "infs": lambda: jax.debug_infs(True),
    "numpy": lambda: np.errstate(all="raise"),
}


@pytest.mark.parametrize("watch", WATCHES)
def test_clean_data_fit_under_every_watch(watch):
    X, y = normal_design(0, 40, [2.0, 0.0, 0.0], noise=0.3)
    want = bmjax.fit(X, y, intercept=True)
    with WATCHES[watch]():
        r = bmjax.fit(X, y, intercept=True)
        batch = bmjax.fit_batch(X[None], y[None], intercept=True, uncertainty=True)
        stream = bmjax.fit_stream((X, y), intercept=True)
        assert "CONVERGED" in str(r.summary())
        assert "CONVERGED" in str(batch[0].summary())
        assert np.isnan(np.asarray(batch.standard_errors)[0, 1])
    for one in (r, batch[0], stream):
        np.testing.assert_allclose(one.coef, want.coef, rtol=1e-4)


@pytest.mark.parametrize("watch", ["nans", "infs"])
@pytest.mark.parametrize("options", [{}, {"initial_inclusion": 0.5}], ids=["default", "plain"])
def test_functions_of_ones_own_compile_under_every_watch(watch, options):
    """JAX looks at what leaves the compiled program; two of the three features are pruned."""
    X, y = normal_design(0, 40, [2.0, 0.0, 0.0], noise=0.3)
    want = bmjax.fit(X, y, intercept=True, **options)

    @jax.jit
    def fields(X, y):
        r = bmjax.fit(X, y, intercept=True, **options)
        return r.coef, r.weights, r.inclusion, r.intercept, r.noise_precision, r.bound, r.r_squared

    @jax.jit
    def deviation(X, y):
        return bmjax.fit(X, y, intercept=True, **options).predict(X, return_std=True)[1]

    @jax.jit
    def slope(X, y):
        return jax.grad(lambda y: bmjax.fit(X, y, intercept=True, **options).coef[0])(y)

    with WATCHES[watch]():
        got, spread, pull = fields(X, y), deviation(X, y), slope(X, y)
    np.testing.assert_allclose(got[0], want.coef, atol=1e-4)
    np.testing.assert_allclose(got[3], want.intercept, atol=1e-4)
    np.testing.assert_allclose(spread, want.predict(X, return_std=True)[1], rtol=1e-3)
    np.testing.assert_allclose(pull @ y, want.coef[0], rtol=1e-2)  # effects follow the unit of y


def test_small_data_fit_without_caches():
    X, y = normal_design(0, 40, [2.0, 0.0, 0.0], noise=0.3)
    options = dict(intercept=True, starts=1, moves=0)
    want = bmjax.fit(X, y, **options)
    with jax.check_tracer_leaks(True):
        got = bmjax.fit(X, y, **options)
    np.testing.assert_allclose(got.coef, want.coef, rtol=1e-6)


def test_small_data_fit_without_compiling():
    """In a process of its own, for the suite checks types that hold in compiled code alone."""
    code = """
import jax, numpy as np, bmjax
X = np.random.default_rng(0).normal(size=(40, 3))
y = 2 * X[:, 0] + 0.3 * X[:, 1] * X[:, 2]
options = dict(intercept=True, starts=1, moves=0)
want = bmjax.fit(X, y, **options)
with jax.disable_jit():
    got = bmjax.fit(X, y, **options)
np.testing.assert_allclose(got.coef, want.coef, rtol=1e-3)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_watch_is_on_again_after_a_fit():
    X, y = normal_design(0, 40, [2.0, 0.0, 0.0], noise=0.3)
    with jax.debug_nans(True):
        bmjax.fit(X, y, intercept=True)
        with pytest.raises(FloatingPointError):
            jax.numpy.log(-jax.numpy.ones(()))
