"""`fit_batch`: the same numbers as `fit`, whatever the lanes and the chunks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax import Status
from bmjax._fitting import batch
from tests.helpers import lane, plain_fit, plain_fit_batch, same_bits, two_features, uniform_design


@pytest.fixture(scope="module")
def designs():
    all_of_them = [uniform_design(seed, 6) for seed in range(11)]
    return tuple(np.stack([d[i] for d in all_of_them]) for i in (0, 1))


@pytest.mark.parametrize("width", [1, 5, 16])
def test_equals_fit_lane_by_lane(designs, width):
    X, y = designs
    batch = plain_fit_batch(X, y, width=width)
    assert batch.coef.shape == (11, 6)
    for i in range(11):
        alone = plain_fit(X[i], y[i])
        one = lane(batch._replace(lane_steps=None), i)
        np.testing.assert_array_equal(one.support, alone.support)
        np.testing.assert_allclose(one.coef, alone.coef, atol=1e-8)
        np.testing.assert_allclose(one.bound, alone.bound, rtol=1e-9)
        assert one.num_steps == alone.num_steps
        assert one.status == alone.status


@pytest.mark.parametrize("solver", [bmjax.EM(), bmjax.Hybrid(switch=20)], ids=["EM", "Hybrid"])
def test_other_solvers_and_options(designs, solver):
    X, y = designs
    options = {
        "solver": solver,
        "noise_precision": 5.0,
        "max_steps": 200,
        "tolerance": 1e-2,
        "initial_inclusion": 0.3,
        "prune_threshold": 1e-4,
    }
    batch = plain_fit_batch(X, y, width=4, **options)
    for i in (0, 6, 10):
        alone = plain_fit(X[i], y[i], **options)
        np.testing.assert_allclose(batch.coef[i], alone.coef, atol=1e-8)
        assert batch.num_steps[i] == alone.num_steps
        assert batch.status[i] == alone.status


def test_shared_features_in_both_precisions(dtype):
    X, y = two_features(1, 40)
    X, y = X.astype(dtype), y.astype(dtype)
    shared = plain_fit_batch(X, y, noise_precision=200.0, width=4)
    assert shared.coef.dtype == dtype
    own = plain_fit_batch(np.broadcast_to(X, (40, *X.shape)), y, noise_precision=200.0, width=4)
    np.testing.assert_array_equal(shared.support, own.support)
    np.testing.assert_allclose(shared.coef, own.coef, atol=1e-4)


@pytest.mark.parametrize("width", [1, 4])
def test_chunks_change_nothing(designs, width, monkeypatch):
    """Many small chunks, the last one padded, and NumPy or JAX input: the same to rounding."""
    X, y = designs
    whole = plain_fit_batch(X, y, width=width)
    monkeypatch.setattr(batch, "_CHUNK", 4 * X[0].nbytes)
    cut = plain_fit_batch(X, y, width=width)
    on_device = plain_fit_batch(jnp.asarray(X), jnp.asarray(y), width=width)
    for other in (cut, on_device):
        np.testing.assert_allclose(other.coef, whole.coef, atol=1e-8)
        np.testing.assert_array_equal(other.num_steps, whole.num_steps)


@pytest.mark.parametrize("width", [1, 3])
def test_bad_datasets_keep_to_themselves(designs, width):
    """NaN, inf and a zero target: each its own status, the neighbours the same to the bit."""
    X, y = designs
    clean = plain_fit_batch(X, y, width=width)
    X, y = X.copy(), y.copy()
    X[1, 3, 2], X[4, 0, 0], y[5, 7], y[8] = np.nan, np.inf, np.nan, 0
    bad = plain_fit_batch(X, y, width=width)
    assert (np.asarray(bad.status)[[1, 4, 5]] == Status.NON_FINITE).all()
    assert bad.status[8] == Status.CONVERGED
    assert bad.num_steps[8] == 0
    for i in (0, 2, 3, 6, 7, 9, 10):
        one, other = (lane(r._replace(lane_steps=None), i) for r in (bad, clean))
        if width == 1:
            assert same_bits(one, other)
        else:  # another lane may hold it, and a batched product may add in another order
            np.testing.assert_allclose(one.coef, other.coef, atol=1e-10)


def test_lane_steps_are_counted():
    """One lane wastes nothing; several waste only where the last datasets run out."""
    X, y = two_features(2, 400)
    one = plain_fit_batch(X, y, noise_precision=200.0, width=1)
    assert one.lane_steps.useful == one.lane_steps.total == int(one.num_steps.sum())
    many = plain_fit_batch(X, y, noise_precision=200.0, width=16)
    assert many.lane_steps.useful == one.lane_steps.useful
    assert 0.8 <= many.lane_steps.useful / many.lane_steps.total < 1


def test_no_steps_allowed(designs):
    X, y = designs
    r = plain_fit_batch(X, y, width=4, max_steps=0)
    assert (r.status == Status.MAX_STEPS).all()
    assert (r.num_steps == 0).all()
    assert r.lane_steps.total == 0


BAD = [
    (np.ones((4, 3)), np.ones(4), {}, r"y has shape \(4,\), wanted \(b datasets, n samples\)"),
    (np.ones(4), np.ones((2, 4)), {}, r"X has shape \(4,\), wanted \(b, n, k\)"),
    (np.ones((3, 4, 2)), np.ones((2, 4)), {}, r"X must be \(2, 4, k\), or \(4, k\)"),
    (np.ones((2, 5, 2)), np.ones((2, 4)), {}, r"X must be \(2, 4, k\)"),
    (np.ones((0, 4, 2)), np.ones((0, 4)), {}, r"at least one dataset"),
    (np.ones((2, 4, 2)), np.ones((2, 4)), {"width": 0}, r"width is 0; it must be at least 1"),
    (np.ones((2, 4, 2)), np.ones((2, 4)), {"tolerance": -1}, r"tolerance is -1"),
]


@pytest.mark.parametrize(("X", "y", "options", "message"), BAD)
def test_refused_with_a_message(X, y, options, message):
    with pytest.raises(ValueError, match=message):
        plain_fit_batch(X, y, **options)
    with pytest.raises(TypeError, match="only real numbers"):
        plain_fit_batch(X.astype(complex), y, **options)


def test_inside_compiled_code_it_says_what_to_use(designs):
    with pytest.raises(TypeError, match=r"jax\.vmap\(bmjax\.fit\)"):
        jax.jit(lambda X, y: bmjax.fit_batch(X, y).coef)(*designs)
