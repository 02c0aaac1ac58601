"""Whole fits: against the reference's runs, and one case for each known trap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from benchmarks import reference
from bmjax import Status
from tests.helpers import normal_design, plain_fit, uniform_design

SOLVERS = [bmjax.Accelerated(), bmjax.EM(), bmjax.EG(), bmjax.Hybrid(switch=50)]


def fit64(X, y, **options):
    return plain_fit(np.asarray(X, np.float64), np.asarray(y, np.float64), **options)


def assert_sane(result, k):
    """Finite, in range, and zero where pruned."""
    for name in ("coef", "weights", "inclusion"):
        values = np.asarray(getattr(result, name))
        assert values.shape == (k,)
        assert np.isfinite(values).all(), name
        assert (values[~np.asarray(result.support)] == 0).all(), name
    assert ((result.inclusion >= 0) & (result.inclusion <= 1)).all()
    assert np.isfinite(result.bound)
    assert np.isfinite(result.noise_precision)
    assert result.noise_precision > 0
    np.testing.assert_array_equal(result.coef, result.weights * result.inclusion)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("steps", [1, 7, 150])
def test_em_follows_the_reference(seed, steps):
    X, y, _ = uniform_design(seed, 10)
    want = reference.fab_em(X, y, max_steps=steps, tolerance=0)
    got = fit64(X, y, solver=bmjax.EM(), max_steps=steps, tolerance=0)
    assert got.num_steps == steps
    assert got.status == Status.MAX_STEPS
    np.testing.assert_array_equal(got.support, want.support)
    np.testing.assert_allclose(got.coef, want.coef, atol=1e-8)
    np.testing.assert_allclose(got.inclusion, want.inclusion, atol=1e-8)
    assert got.noise_precision == pytest.approx(want.noise_precision, rel=1e-8)
    assert got.bound == pytest.approx(want.bound, rel=1e-8)


@pytest.mark.parametrize("sweeps", [1, 2])
@pytest.mark.parametrize("reparametrize", [True, False])
@pytest.mark.parametrize("switch", [0, 20])
def test_hybrid_follows_the_reference(switch, reparametrize, sweeps):
    """Without the safeguard it is Algorithm 2 as printed: the same parameters step by step."""
    X, y, _ = uniform_design(1, 10)
    solver = bmjax.Hybrid(
        switch=switch, reparametrize=reparametrize, sweeps=sweeps, safeguard=False
    )
    path = []
    reference.fab_hybrid(
        X,
        y,
        switch=switch,
        reparametrize=reparametrize,
        sweeps=sweeps,
        max_steps=60,
        tolerance=0,
        callback=lambda step, fit: path.append(fit),
    )
    got = fit64(X, y, solver=solver, max_steps=60, tolerance=0, history=True).history
    # Our masks are one E step ahead, so a pruning shows one step earlier than in the reference.
    kept = np.asarray(got.inclusion) > 0
    np.testing.assert_array_equal(kept[:-1], [p.support for p in path[1:]])
    for name in ("weights", "inclusion"):
        want = np.where(kept, [getattr(p, name) for p in path], 0)
        np.testing.assert_allclose(getattr(got, name), want, atol=1e-8)
    np.testing.assert_allclose(got.noise_precision, [p.noise_precision for p in path], rtol=1e-8)


def test_eg_is_hybrid_without_m_steps():
    X, y, _ = uniform_design(2, 6)
    a = fit64(X, y, solver=bmjax.EG(learning_rate=1e-4), max_steps=40)
    b = fit64(X, y, solver=bmjax.Hybrid(switch=0, learning_rate=1e-4), max_steps=40)
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-12)
    all_m = fit64(X, y, solver=bmjax.Hybrid(switch=100), max_steps=40, history=True)
    em = fit64(X, y, solver=bmjax.EM(), max_steps=40, history=True)
    np.testing.assert_allclose(all_m.history.weights, em.history.weights, rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("seed", range(4))
def test_bound_never_falls_while_the_active_set_stands(solver, seed, dtype):
    """EM by construction; the gradient solvers by their safeguard. Rounding of a sum of n k."""
    X, y, _ = uniform_design(seed, 10)
    course = plain_fit(
        X.astype(dtype), y.astype(dtype), solver=solver, max_steps=400, history=True
    ).history
    bound = np.asarray(course.bound, float)
    run = np.isfinite(bound)
    same = np.diff(np.asarray(course.active_count)) == 0
    slack = 20 * float(jnp.finfo(dtype).eps) * (len(y) + np.abs(bound[run]).max())
    falls = np.diff(bound)[same & run[1:]]
    assert len(falls) >= 3
    assert falls.min() > -slack
    assert bound[run][-1] > bound[run][0] + 1  # it went somewhere


def test_history_ends_at_the_result_and_pads_with_nan():
    X, y = normal_design(0, 60, [2.0, -1.0])
    r = fit64(X, y, solver=bmjax.EM(), history=True, max_steps=5000)
    steps = int(r.num_steps)
    assert r.status == Status.CONVERGED
    h = r.history
    assert h.weights.shape == (5000, 2)
    np.testing.assert_array_equal(h.weights[steps - 1], r.weights)
    np.testing.assert_array_equal(h.inclusion[steps - 1], r.inclusion)
    assert h.bound[steps - 1] == r.bound
    assert np.isnan(h.bound[steps:]).all()
    assert (h.active_count[steps:] == -1).all()
    assert int(h.active_count[steps - 1]) == np.sum(r.support)
    plain = fit64(X, y, solver=bmjax.EM(), max_steps=5000)
    assert plain.history is None
    np.testing.assert_array_equal(plain.coef, r.coef)


# ---- traps -------------------------------------------------------------------------------


def test_inclusion_of_one_is_least_squares(dtype):
    """pi = 1 is absorbing: the masks stay one and the weights are least squares at once."""
    X, y = normal_design(1, 50, [1.0, 0.0, -1.0])
    r = plain_fit(X.astype(dtype), y.astype(dtype), initial_inclusion=1)
    assert r.status == Status.CONVERGED
    assert (r.inclusion == 1).all()
    np.testing.assert_allclose(r.coef, np.linalg.lstsq(X, y)[0], rtol=2e-5)
    assert np.isfinite(r.bound)


def test_strong_feature_reaches_one_and_stays(dtype):
    X, y = normal_design(2, 200, [5.0, 0.0], noise=1)
    r = plain_fit(X.astype(dtype), y.astype(dtype), initial_inclusion=0.99)
    assert r.inclusion[0] == 1
    assert r.weights[0] == pytest.approx(X[:, 0] @ y / (X[:, 0] @ X[:, 0]), rel=1e-4)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_tiny_and_zero_weights(solver, dtype):
    """1 / weight^2 in the preconditioner: no NaN at weights of 0, 1e-30 and 1e-20."""
    X, y = normal_design(3, 80, [1.0, 0.0, 0.0, 0.0])
    start = np.array([1.0, 0.0, 1e-30, -1e-20])
    r = plain_fit(
        X.astype(dtype), y.astype(dtype), solver=solver, initial_weights=start, max_steps=300
    )
    assert_sane(r, 4)
    assert r.support[0]


def test_sign_change_of_a_weight():
    """A start on the wrong side of zero: crossed, or for the paper's metric a pole, and said so."""
    X, y = normal_design(4, 100, [2.0, -1.5], noise=0.5)
    want = np.linalg.lstsq(X, y)[0]
    options = {"initial_weights": [-0.05, 0.05], "initial_inclusion": 0.9, "max_steps": 2000}
    for solver in (bmjax.EM(), bmjax.EG(learning_rate=1e-3, reparametrize=False)):
        r = fit64(X, y, solver=solver, history=True, **options)
        np.testing.assert_allclose(r.coef, want, atol=0.1)
    path = np.asarray(r.history.weights)[: int(r.num_steps), 0]
    assert path[0] < 0 < path[-1]
    # In (weight, coef) the coef cannot change sign while the weight does not: it goes to zero.
    assert_sane(fit64(X, y, solver=bmjax.EG(), **options), 2)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_all_features_pruned(solver, dtype):
    X, y = normal_design(5, 40, [0.0, 0.0])
    r = plain_fit(
        X.astype(dtype), y.astype(dtype), solver=solver, prune_threshold=0.9, max_steps=2000
    )
    assert r.status == Status.CONVERGED
    assert not r.support.any()
    assert_sane(r, 2)
    assert r.noise_precision == pytest.approx(40 / (y @ y), rel=1e-5)
    n = 40
    null = 0.5 * n * np.log(n / (y @ y) / (2 * np.pi)) - n / 2 - 0.5 * np.log(n)
    assert r.bound == pytest.approx(null, rel=1e-5)


def test_zero_column(dtype):
    X, y = normal_design(6, 60, [1.5, 0.0, -2.0], noise=0.3)
    with_zero = np.insert(X, 1, 0.0, axis=1).astype(dtype)
    r = plain_fit(with_zero, y.astype(dtype))
    alone = plain_fit(X.astype(dtype), y.astype(dtype))
    assert not r.support[1]
    assert_sane(r, 4)
    np.testing.assert_allclose(np.delete(r.coef, 1), alone.coef, atol=2e-4)


def test_duplicate_column(dtype):
    """Singular Omega: finite, and the twins together carry the effect without cancelling."""
    X, y = normal_design(7, 200, [2.0, -1.0], noise=0.4)
    twins = np.column_stack([X[:, 0], X])
    r = plain_fit(twins.astype(dtype), y.astype(dtype))
    assert_sane(r, 3)
    assert r.coef[0] + r.coef[1] == pytest.approx(2, abs=0.12)
    assert np.abs(r.coef).max() < 3
    # With every mask one Omega is X'X, exactly singular.
    r = plain_fit(twins.astype(dtype), y.astype(dtype), initial_inclusion=1, max_steps=50)
    assert_sane(r, 3)
    assert r.coef[0] + r.coef[1] == pytest.approx(2, abs=0.12)
    assert np.abs(r.coef).max() < 3


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_zero_target(solver, dtype):
    X, _ = normal_design(8, 30, [0.0, 0.0])
    r = plain_fit(X.astype(dtype), np.zeros(30, dtype), solver=solver)
    assert r.status == Status.CONVERGED
    assert r.num_steps == 0
    assert not r.support.any()
    assert_sane(r, 2)


def test_perfect_fit(dtype):
    """No noise at all: the truth, a capped precision, and a status that says so."""
    X, y = normal_design(9, 60, [2.0, 0.0, -1.0], noise=0)
    r = plain_fit(X.astype(dtype), y.astype(dtype), initial_inclusion=0.99)
    assert_sane(r, 3)
    np.testing.assert_allclose(r.coef, [2.0, 0.0, -1.0], atol=1e-5)
    assert r.status == Status.EXACT_FIT
    assert not r.converged


@pytest.mark.parametrize("n", [2, 20, 40])
def test_fewer_samples_than_features(n, dtype):
    """n <= k: no unique least squares; finite, never silent about an interpolation."""
    X, y = normal_design(10, n, np.r_[3.0, -2.0, np.zeros(38)], noise=0.5)
    r = plain_fit(X.astype(dtype), y.astype(dtype), max_steps=500)
    assert_sane(r, 40)
    interpolated = r.noise_precision > 1e4
    assert not (interpolated and r.converged)


def test_one_feature_is_the_closed_form():
    """Section 4.3: for k = 1 the estimator is (x o mu)'y / (x o mu)'x, with no bias."""
    X, y = normal_design(11, 40, [0.7])
    r = fit64(X, y, solver=bmjax.EM(), tolerance=1e-8, max_steps=100_000)
    assert r.status == Status.CONVERGED
    x, n = X[:, 0], 40
    # The masks at the fixed point, from equation (11) alone.
    pi, beta, precision = (float(v) for v in (r.inclusion[0], r.weights[0], r.noise_precision))
    with np.errstate(divide="ignore"):
        odds = np.log(pi) - np.log1p(-pi)
    c = precision * x * beta * (y - 0.5 * x * beta) + odds - 0.5 / (n * pi)
    masked = x / (1 + np.exp(-c))
    assert beta == pytest.approx(masked @ y / (masked @ x), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_em_is_equivariant_to_scale(scale, dtype):
    """Units of a column and of y change the numbers, not the verdict."""
    X, y, _ = uniform_design(3, 8)
    base = plain_fit(X.astype(dtype), y.astype(dtype), solver=bmjax.EM(), max_steps=3000)
    columns = np.where(np.arange(8) % 2, scale, 1 / scale)
    r = plain_fit(
        (X * columns).astype(dtype), (y * scale).astype(dtype), solver=bmjax.EM(), max_steps=3000
    )
    np.testing.assert_array_equal(r.support, base.support)
    tolerance = 1e-6 if dtype == jnp.float64 else 5e-3
    np.testing.assert_allclose(r.inclusion, base.inclusion, atol=tolerance)
    back = np.asarray(r.coef, float) * columns / scale
    np.testing.assert_allclose(back, base.coef, atol=tolerance)
    assert float(r.noise_precision) * scale**2 == pytest.approx(
        float(base.noise_precision), rel=tolerance
    )
    if dtype == jnp.float64:
        assert r.status == base.status
        assert r.num_steps == base.num_steps


def test_permutation_and_sign_flip():
    """A sweep has an order, so a permuted fit takes another path; here to the same optimum."""
    X, y = normal_design(12, 150, [1.5, 0.0, -2.0, 0.0, 1.0])
    base = fit64(X, y, tolerance=1e-6)
    order, sign = np.array([3, 0, 4, 2, 1]), np.array([1, -1, -1, 1, -1])
    r = fit64(X[:, order] * sign, y, tolerance=1e-6)
    np.testing.assert_array_equal(r.support, np.asarray(base.support)[order])
    np.testing.assert_allclose(r.coef, np.asarray(base.coef)[order] * sign, atol=1e-4)


def test_default_solver_and_input_kinds(dtype):
    """Lists, integers, (n, 1) targets, read-only and strided arrays: the same fit."""
    rng = np.random.default_rng(13)
    X = rng.integers(-9, 9, size=(60, 3))
    y = 2 * X[:, 0] + rng.integers(-3, 3, size=60)
    want = plain_fit(X.astype(float), y.astype(float))
    frozen = np.asfortranarray(X.astype(float))
    frozen.setflags(write=False)
    for a, b in [
        (X, y),
        (X.tolist(), y.tolist()),
        (frozen, y[:, None]),
        (np.repeat(X, 2, axis=1)[:, ::2], y),
        (jnp.asarray(X), jnp.asarray(y)),
    ]:
        np.testing.assert_allclose(plain_fit(a, b).coef, want.coef, atol=1e-12)
    assert plain_fit(X.astype(dtype), y.astype(dtype)).coef.dtype == dtype
    half = plain_fit(X.astype(np.float16), y.astype(np.float16))
    assert half.coef.dtype == jnp.float32


def test_float32_mode_of_jax():
    """With float64 disabled, as JAX starts, float64 input is fitted in float32, silently."""
    X, y, _ = uniform_design(4, 6)
    with jax.enable_x64(False):
        r = plain_fit(X, y, solver=bmjax.EM())
        assert r.coef.dtype == jnp.float32
        assert r.status == Status.CONVERGED
    want = fit64(X, y, solver=bmjax.EM())
    np.testing.assert_array_equal(r.support, want.support)
    np.testing.assert_allclose(r.coef, want.coef, atol=5e-3)


def test_predict_uses_coef():
    X, y = normal_design(14, 60, [1.0, 0.1])
    r = fit64(X, y)
    new = np.random.default_rng(0).normal(size=(7, 2))
    np.testing.assert_allclose(r.predict(new), new @ np.asarray(r.coef))
    with pytest.raises(ValueError, match=r"X has shape \(7, 3\).*2 features"):
        r.predict(np.zeros((7, 3)))


def test_diverging_g_step_is_held_by_the_safeguard():
    """Noise precision times mean squared feature far above 100, the paper's constant rate."""
    X, y = normal_design(15, 100, [1.0, -2.0, 0.0], noise=0.01)
    loose = bmjax.EG(learning_rate=10.0, safeguard=False)
    with_guard = fit64(X, y, solver=bmjax.EG(learning_rate=10.0), max_steps=2000)
    without = fit64(X, y, solver=loose, max_steps=2000)
    assert_sane(with_guard, 3)
    assert with_guard.bound > fit64(X, y, solver=bmjax.EG(), max_steps=0).bound
    # As printed it may diverge, but never silently and never into the report of a good state.
    assert without.status in (Status.STALLED, Status.NON_FINITE, Status.MAX_STEPS)
    assert np.isfinite(without.bound)
