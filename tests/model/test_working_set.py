"""Few slots, rungs of the ladder, NumPy or a program: the same fit, but for what it costs."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import threadpoolctl

import bmjax
from bmjax import Status
from bmjax._fitting import fit
from bmjax._runtime import ladder
from bmjax._runtime.programs import Programs
from bmjax._runtime.threads import one_blas_thread
from tests.helpers import normal_design, plain_fit, uniform_design

OPTIONS = [
    {},
    {"intercept": True, "unmasked": [5]},
    {"noise_precision": 2.0, "standardize": True},
    {"sample_weights": True, "criterion": "held"},
]


def sparse_data(n, k, dtype=np.float64):
    X, y = normal_design(7, n, np.r_[2.0, -1.5, 1, np.zeros(k - 3)], noise=0.7)
    return (X + 1).astype(dtype), y.astype(dtype)


def with_weights(options, n, dtype):
    if "sample_weights" not in options:
        return options
    counts = np.random.default_rng(1).integers(0, 3, size=n).astype(dtype)
    return options | {"sample_weights": counts}


def assert_same(one, other, tolerance):
    np.testing.assert_array_equal(one.support, other.support)
    np.testing.assert_allclose(one.coef, other.coef, atol=tolerance)
    np.testing.assert_allclose(one.inclusion, other.inclusion, atol=tolerance)
    np.testing.assert_allclose(one.bound, other.bound, rtol=tolerance)
    np.testing.assert_allclose(one.intercept, other.intercept, atol=tolerance)
    np.testing.assert_allclose(one.standard_errors, other.standard_errors, rtol=10 * tolerance)
    np.testing.assert_allclose(one.starts.score, other.starts.score, rtol=tolerance)
    np.testing.assert_array_equal(one.starts.size, other.starts.size)
    assert one.status == other.status


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)], ids=["tall", "wide"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "default")
def test_a_few_slots_are_as_good_as_all(options, shape, dtype, monkeypatch):
    """The fits in as many slots as features and in few: nothing but the cost may differ."""
    X, y = sparse_data(*shape, dtype)
    options = with_weights(options, len(y), dtype)
    few = bmjax.fit(X, y, **options)
    monkeypatch.setattr(ladder, "slots", lambda size, most: most)
    monkeypatch.setattr(fit, "always_in", lambda given, k: k)  # room for all in the search
    whole = bmjax.fit(X, y, **options)
    # In float32 sums in another order may move the weights by their rounding.
    assert_same(few, whole, 1e-8 if dtype == jnp.float64 else 2e-3)


@pytest.mark.parametrize("options", OPTIONS[1:3], ids=lambda o: "-".join(o))
def test_filled_up_or_not_is_the_same(options):
    """At hand a dataset is filled up to a rung, in the caller's program it is as it came."""
    X, y, _ = uniform_design(4, 6, n=45)
    assert ladder.filled_shape(45, 6) != (45, 6)
    here = bmjax.fit(X, y, **options)
    there = jax.jit(lambda X, y: bmjax.fit(X, y, **options))(X, y)
    assert_same(here, there, 1e-9)
    np.testing.assert_array_equal(here.starts.num_steps, there.starts.num_steps)
    np.testing.assert_allclose(here.starts.next_rise, there.starts.next_rise, atol=1e-7)


def test_dense_starts_are_filled_up_too():
    X, y, _ = uniform_design(4, 6, n=45)
    for rate in (0.1, 0.9):
        here = plain_fit(X, y, initial_inclusion=rate)
        there = bmjax.fit_batch(X[None], y[None], initial_inclusion=rate, width=1)
        np.testing.assert_array_equal(here.support, there.support[0])
        np.testing.assert_allclose(here.coef, there.coef[0], atol=1e-9)
        assert here.num_steps == there.num_steps[0]


def test_the_certificate():
    """Where it says that no move helps, none does: each is made in full and fitted."""
    X, y, _ = uniform_design(0, 5)
    r = bmjax.fit(X, y)
    assert r.starts.certified
    assert r.starts.next_rise < 0
    kept = np.asarray(r.support)
    highest = r.starts.score[r.starts.best]
    for i, j in itertools.product(range(5), range(5)):
        after = kept ^ (np.arange(5) == i) ^ ((np.arange(5) == j) & (i != j))
        if not after.any():
            continue
        rates = np.where(after, 0.99, 0)[None]
        other = bmjax.fit(X, y, starts=rates, moves=0)
        assert other.starts.score[0] < highest + 0.02  # scores within 0.01 count as equal
    assert np.isnan(bmjax.fit(X, y, moves=0).starts.next_rise)


def test_many_features_take_little_and_the_real_ones_are_kept():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3000)).astype(np.float32)
    y = X[:, [5, 900, 2999]] @ np.float32([2, -2, 1.5]) + rng.normal(size=80).astype(np.float32)
    r = bmjax.fit(X, y, intercept=True)
    assert set(np.flatnonzero(r.support)) >= {5, 900, 2999}
    assert r.support.sum() <= 5
    assert r.uncertainty.by_slot.shape[-1] < 40
    np.testing.assert_allclose(r.predict(X[:5]), X[:5] @ r.coef + r.intercept, rtol=1e-4, atol=1e-4)
    deviation = r.predict(X[:5], return_std=True)[1]
    assert np.isfinite(deviation).all()
    assert r.standard_errors.shape == (3000,)


@pytest.mark.parametrize("offset", [1e4, 1e7, -1e10])
def test_a_large_offset_is_taken_off_before_float32(offset):
    """Timestamps, populations, prices: float64 input is centred as such."""
    X, y = normal_design(2, 100, [2.0, -1, 0, 0.7], noise=0.3)
    with jax.enable_x64(False):
        plain = bmjax.fit(X, y, intercept=True)
        assert plain.coef.dtype == jnp.float32
        for far in (
            bmjax.fit(X + offset, y, intercept=True),
            bmjax.fit(X, y + offset, intercept=True),
        ):
            assert far.status == Status.CONVERGED
            np.testing.assert_array_equal(far.support, plain.support)
            np.testing.assert_allclose(far.coef, plain.coef, atol=2e-4)


def test_programs_are_let_go():
    """The ones used last are kept; one that was let go is compiled again."""
    traced = []

    def double(x, *, factor):
        traced.append(x.shape)
        return factor * x

    programs = Programs(most=2)
    for size in (1, 2, 3, 1, 1, 3):
        found = programs.call(double, np.ones(size), static={"factor": 2})
        np.testing.assert_array_equal(found, np.full(size, 2.0))
        assert len(programs) <= 2
    assert traced == [(1,), (2,), (3,), (1,)]
    assert programs.call(double, np.ones(1), static={"factor": 3}) == 3


def test_a_release_of_xla_with_other_switches(monkeypatch):
    monkeypatch.setattr("bmjax._runtime.programs._ON_CPU", {"no_such_switch": True})
    found = Programs(most=2).call(jnp.square, np.arange(3.0), static={})
    np.testing.assert_array_equal(found, [0, 1, 4])


def test_rungs():
    for size in range(1, 3000):
        rows, features, slots = (
            ladder.rows(size),
            ladder.features(size),
            ladder.slots(size, 5000),
        )
        assert min(rows, features, slots) >= size
        assert rows <= max(2 * size, 32)
        assert slots <= max(1.5 * size + 1, 16)
        if size > 512:
            assert rows <= 1.25 * size
        if size > 64:
            assert features <= 1.25 * size
    assert len({ladder.rows(size) for size in range(1, 5001)}) < 35


def test_the_threads_of_products_are_given_back():
    """Also where contexts overlap without being nested, as in threads."""

    def threads():
        return [part["num_threads"] for part in threadpoolctl.threadpool_info()]

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        blas = [p for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"]
        assert all(part["num_threads"] == 1 for part in blas)
        first.__exit__(None, None, None)
        assert threads() != before or not blas
        second.__exit__(None, None, None)
        assert threads() == before
