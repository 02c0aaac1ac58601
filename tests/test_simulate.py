"""The designs: what the paper says of them, and the moments they promise."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bmjax import simulate
from tests.helpers import lane, same_bits

KEY = jax.random.key(0)
DESIGNS = {
    "two": lambda key, dtype=None: simulate.two_features(key, 20, dtype=dtype),
    "uniform": lambda key, dtype=None: simulate.uniform_design(key, 7, dtype=dtype),
    "sparse": lambda key, dtype=None: simulate.sparse_design(key, 30, 40, dtype=dtype),
    "ar1": lambda key, dtype=None: simulate.ar1_design(key, 6, dtype=dtype),
    "block": lambda key, dtype=None: simulate.block_design(key, 7, 50, dtype=dtype),
    "heavy": lambda key, dtype=None: simulate.heavy_tailed_design(key, 6, dtype=dtype),
    "wide": lambda key, dtype=None: simulate.wide_design(key, 30, dtype=dtype),
}
SHAPES = dict(two=(40, 2), uniform=(140, 7), sparse=(40, 30), ar1=(120, 6), block=(50, 7))
SHAPES |= dict(heavy=(120, 6), wide=(15, 30))
RELEVANT = dict(two=1, uniform=4, sparse=3, ar1=3, block=3, heavy=3, wide=1)


@pytest.mark.parametrize("name", DESIGNS)
def test_shapes_and_types(name, dtype):
    data = jax.eval_shape(lambda key: DESIGNS[name](key, dtype), KEY)
    n, k = SHAPES[name]
    assert (data.X.shape, data.y.shape, data.coef.shape) == ((n, k), (n,), (k,))
    assert data.noise_precision.shape == ()
    assert {leaf.dtype for leaf in data} == {dtype}


# Sparse and AR(1) designs run the same code as the wide one.
@pytest.mark.parametrize("name", ["two", "uniform", "block", "heavy", "wide"])
def test_a_batch_of_keys(name):
    """The same key gives the same numbers alone and in a batch."""
    keys = jax.random.split(KEY, 3)
    batch = jax.jit(jax.vmap(DESIGNS[name]))(keys)
    assert all(jnp.isfinite(leaf).all() for leaf in batch)
    assert (jnp.count_nonzero(batch.coef, axis=1) == RELEVANT[name]).all()
    assert not np.array_equal(batch.y[0], batch.y[1])
    draw_one = jax.jit(DESIGNS[name])
    alone = draw_one(keys[2])
    assert same_bits(alone, draw_one(keys[2]))
    for a, b in zip(alone, lane(batch, 2), strict=True):
        # A batched product may add in another order.
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


def test_default_type_is_that_of_jax():
    def of(design):
        return jax.eval_shape(design, KEY).X.dtype

    assert of(simulate.two_features) == jnp.float64
    with jax.enable_x64(False):
        assert of(simulate.two_features) == jnp.float32


def test_two_features_is_section_5_2():
    data = simulate.two_features(KEY)
    np.testing.assert_array_equal(data.X[:4], [[1, 0], [0.5, 1], [1, 0], [0.5, 1]])
    np.testing.assert_array_equal(data.coef, [0, 1])
    assert data.noise_precision == 200
    y = jax.vmap(simulate.two_features)(jax.random.split(KEY, 500)).y
    noise = y - (data.X @ data.coef)[None]
    assert abs(jnp.var(noise) / 0.005 - 1) < 4 * np.sqrt(2 / noise.size)


def test_uniform_design_is_section_5_3():
    keys = jax.random.split(KEY, 200)
    data = jax.jit(jax.vmap(lambda key: simulate.uniform_design(key, 9)))(keys)
    data = type(data)(*map(np.asarray, data))
    assert data.X.shape == (200, 180, 9)
    assert ((data.X >= 0) & (data.X < 1)).all()
    relevant = data.coef != 0
    assert (relevant.sum(axis=1) == 5).all()  # half of nine set to zero: four
    # Every place is as likely as every other, and the effects are U[0, 1].
    rate = 5 / 9
    assert np.abs(relevant.mean(axis=0) - rate).max() < 4 * np.sqrt(rate * (1 - rate) / 200)
    effects = data.coef[relevant]
    assert ((effects > 0) & (effects <= 1)).all()
    assert abs(effects.mean() - 0.5) < 4 * np.sqrt(1 / 12 / effects.size)
    noise = data.y - np.einsum("bnk,bk->bn", data.X, data.coef)
    assert abs(np.var(noise) / 0.2 - 1) < 4 * np.sqrt(2 / noise.size)


@partial(jax.jit, static_argnames=("design", "num_relevant", "block_size"))
def draw(design, **options):
    return design(KEY, 6, 40_000, **options)


def moments(design, **options):
    data = draw(design, **options)
    data = type(data)(*map(np.asarray, data))
    signal = data.X @ data.coef
    return data, np.corrcoef(data.X.T), signal, data.y - signal


@pytest.mark.parametrize("rho", [0.0, 0.8, -0.5])
def test_ar1_correlations(rho):
    data, correlation, *_ = moments(simulate.ar1_design, correlation=rho)
    lag = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(correlation, float(rho) ** lag, atol=0.02)
    np.testing.assert_allclose(np.var(data.X, axis=0), 1, atol=0.04)


def test_block_correlations():
    data, correlation, *_ = moments(simulate.block_design, block_size=4, correlation=0.6)
    block = np.arange(6) // 4
    expected = np.where(np.equal.outer(block, block), 0.6, 0) + 0.4 * np.eye(6)
    np.testing.assert_allclose(correlation, expected, atol=0.02)
    np.testing.assert_allclose(np.var(data.X, axis=0), 1, atol=0.04)


@pytest.mark.parametrize(
    ("design", "options"),
    [
        (simulate.sparse_design, {}),
        (simulate.ar1_design, {"correlation": 0.9}),
        (simulate.ar1_design, {"correlation": -0.9}),
        (simulate.block_design, {"correlation": 0.9, "block_size": 3}),
        (simulate.heavy_tailed_design, {"degrees_of_freedom": 8.0}),
    ],
)
@pytest.mark.parametrize("ratio", [0.5, 10.0])
def test_signal_to_noise_is_as_set(design, options, ratio):
    data, _, signal, noise = moments(design, num_relevant=4, signal_to_noise=ratio, **options)
    assert abs(np.var(signal) / np.var(noise) / ratio - 1) < 0.06
    assert abs(np.var(noise) * data.noise_precision - 1) < 0.06
    assert np.count_nonzero(data.coef) == 4
    effects = data.coef[data.coef != 0]
    assert (np.abs(np.abs(effects) - 1) <= 0.5).all()


def test_heavy_tails_are_heavy():
    def kurtosis(z):
        return np.mean((z - z.mean()) ** 4) / np.var(z) ** 2

    *_, normal = moments(simulate.sparse_design)
    *_, heavy = moments(simulate.heavy_tailed_design, degrees_of_freedom=4.5)
    assert abs(kurtosis(normal) - 3) < 0.2
    assert kurtosis(heavy) > 6


def test_signal_to_noise_may_be_traced():
    @jax.jit
    @jax.vmap
    def precision(ratio):
        return simulate.ar1_design(KEY, 4, 2, signal_to_noise=ratio).noise_precision

    one, two = precision(jnp.asarray([1.0, 2.0]))
    np.testing.assert_allclose(two, 2 * one)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: simulate.two_features(KEY, 0), ValueError, "pairs is 0"),
        (lambda: simulate.uniform_design(KEY, 2.5), TypeError, "k is 2.5"),
        (lambda: simulate.uniform_design(KEY, 3, 1), ValueError, "n is 1"),
        (lambda: simulate.uniform_design(KEY, 3, noise_precision=0), ValueError, "above 0"),
        (lambda: simulate.uniform_design(KEY, 3, dtype=int), TypeError, "floating-point type"),
        (lambda: simulate.sparse_design(KEY, 3, signal_to_noise=0), ValueError, "signal_to_noise"),
        (lambda: simulate.sparse_design(KEY, 3, num_relevant=4), ValueError, "only 3 features"),
        (lambda: simulate.ar1_design(KEY, 3, correlation=1), ValueError, "at most 0.999"),
        (lambda: simulate.block_design(KEY, 3, correlation=-0.1), ValueError, "at least 0"),
        (lambda: simulate.block_design(KEY, 3, block_size=0), ValueError, "block_size is 0"),
        (lambda: simulate.heavy_tailed_design(KEY, 3, degrees_of_freedom=2), ValueError, "above 2"),
        (lambda: simulate.wide_design(KEY, 9, 9), ValueError, "n below k"),
    ],
)
def test_bad_options_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
