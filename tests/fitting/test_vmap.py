"""`jax.vmap(fit)` and `jax.jit(fit)`: lane by lane the same fit, bad lanes kept to themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax import Status
from tests.helpers import lane, plain_fit, same_bits, uniform_design

SOLVERS = [bmjax.Accelerated(), bmjax.EM(), bmjax.EG(), bmjax.Hybrid(switch=50)]


def batch_of(b, k, dtype=np.float64):
    # Without seed 0, where (k = 8) the rounding of X to float32 decides whether a feature stays.
    designs = [uniform_design(seed, k) for seed in range(1, b + 1)]
    return (jnp.asarray(np.stack([d[i] for d in designs]), dtype) for i in (0, 1))


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_vmap_equals_a_loop(solver, dtype):
    X, y = batch_of(6, 8, dtype)
    batch = jax.jit(jax.vmap(lambda a, b: plain_fit(a, b, solver=solver, max_steps=300)))(X, y)
    for i in range(6):
        alone = plain_fit(X[i], y[i], solver=solver, max_steps=300)
        one = lane(batch, i)
        np.testing.assert_array_equal(one.support, alone.support)
        if dtype == jnp.float64:  # in float32 a rounding can turn a step's acceptance
            assert one.num_steps == alone.num_steps
            assert one.status == alone.status
        # A batched product may add in another order; 300 steps amplify its rounding.
        tolerance = 1e-8 if dtype == jnp.float64 else 5e-3
        np.testing.assert_allclose(one.coef, alone.coef, atol=tolerance)
        np.testing.assert_allclose(one.bound, alone.bound, rtol=tolerance)


def test_finished_lanes_keep_their_step_count():
    X, y = batch_of(5, 6)
    batch = jax.vmap(plain_fit)(X, y)
    counts = np.asarray(batch.num_steps)
    assert counts.min() < counts.max()
    np.testing.assert_array_equal(
        counts, [plain_fit(a, b).num_steps for a, b in zip(X, y, strict=True)]
    )


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_bad_lane_has_its_own_status(solver, dtype):
    """NaN in X, inf in X, NaN in y: marked, and the neighbours are the same to the bit."""
    X, y = batch_of(6, 5, dtype)
    run = jax.jit(jax.vmap(lambda a, b: plain_fit(a, b, solver=solver, max_steps=100)))
    clean = run(X, y)
    bad = run(X.at[1, 3, 2].set(jnp.nan).at[2, 0, 0].set(jnp.inf), y.at[4, 7].set(jnp.nan))
    for i in (1, 2, 4):
        assert bad.status[i] == Status.NON_FINITE
        assert not bad.converged[i]
    for i in (0, 3, 5):
        assert same_bits(lane(bad, i), lane(clean, i))


def test_inside_the_callers_jit(dtype):
    X, y, _ = uniform_design(1, 6)
    X, y = X.astype(dtype), y.astype(dtype)
    direct = plain_fit(X, y)
    traced = jax.jit(lambda a, b: plain_fit(a, b))(X, y)
    # In NumPy and filled up, or in the program as it is: the same but for rounding.
    np.testing.assert_array_equal(direct.support, traced.support)
    tolerance = 1e-9 if dtype == jnp.float64 else 5e-3
    np.testing.assert_allclose(direct.coef, traced.coef, atol=tolerance)
    np.testing.assert_allclose(direct.bound, traced.bound, rtol=tolerance)
    assert jax.tree.structure(direct) == jax.tree.structure(traced)
    shapes = [jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), r) for r in (direct, traced)]
    assert jax.tree.leaves(shapes[0]) == jax.tree.leaves(shapes[1])


def test_batched_predict():
    X, y = batch_of(3, 5)
    r = jax.vmap(lambda a, b: plain_fit(a, b, max_steps=20))(X, y)
    own = r.predict(X)
    assert own.shape == (3, 100)
    np.testing.assert_allclose(own[1], X[1] @ r.coef[1], rtol=1e-9)
    np.testing.assert_allclose(r.predict(X[0])[2], X[0] @ r.coef[2], rtol=1e-9)


def test_one_trace_for_each_shape_and_option(monkeypatch):
    """Numbers are arguments, not constants: another tolerance or rate compiles nothing."""
    traces = []
    original = bmjax.EM.step

    def counted(self, problem, carry):
        traces.append(problem.X.shape)
        return original(self, problem, carry)

    monkeypatch.setattr(bmjax.EM, "step", counted)
    solver = bmjax.EM(sweeps=7)  # used nowhere else, so nothing is in the cache
    X, y, _ = uniform_design(1, 4)
    plain_fit(X, y, solver=solver, max_steps=5)
    first = len(traces)
    assert first > 0
    plain_fit(2 * X, y + 1, solver=bmjax.EM(sweeps=7), max_steps=9, tolerance=1e-2)
    plain_fit(X, y, solver=solver, max_steps=5, initial_inclusion=0.2, prune_threshold=1e-3)
    assert len(traces) == first
    plain_fit(X[:-9, :-1], y[:-9], solver=solver, max_steps=5)  # filled up to the same shape
    assert len(traces) == first
    plain_fit(np.tile(X, (3, 1)), np.tile(y, 3), solver=solver, max_steps=5)
    assert len(traces) == 2 * first


def test_solvers_are_hashable_values():
    assert bmjax.EM() == bmjax.EM()
    assert hash(bmjax.Hybrid(switch=3)) == hash(bmjax.Hybrid(switch=3))
    assert bmjax.Hybrid(switch=3) != bmjax.Hybrid(switch=4)
    assert bmjax.EG() != bmjax.Hybrid()
    with pytest.raises(AttributeError):
        bmjax.EM().sweeps = 2  # pyright: ignore[reportAttributeAccessIssue]
