"""Derivatives: of the bound in all it is given, and of fitted effects in y."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from benchmarks import reference
from bmjax._results.implicit import _settler
from tests.helpers import for_reference, normal_design, some_state


def arguments(*, interior):
    """Arguments of the bound by name; inside, or with a feature always on and one pruned."""
    problem, state = some_state(4)
    if interior:
        state = state._replace(
            mask_mean=jnp.clip(state.mask_mean, 0.1, 0.9),
            log_odds=jnp.clip(state.log_odds, -2, 2),
            weights=state.weights + 0.5,
            active=jnp.ones(5, bool),
        )
    return {"X": problem.X.T, "y": problem.y} | state._asdict()


def parts(values):
    fields = {name: values[name] for name in bmjax.State._fields}
    return values["X"], values["y"], bmjax.State(**fields)


@jax.jit
def bound_at(values):
    return bmjax.log_evidence_bound(*parts(values))


@pytest.mark.parametrize("interior", [True, False])
def test_bound_equals_reference_whatever_the_order_of_columns(interior):
    values = arguments(interior=interior)
    X, y, state = parts(values)
    problem = bmjax.Problem(X.T, y, None, jnp.zeros(()))
    X, y, mask, weights, precision, inclusion = for_reference(problem, state)
    want = reference.bound(X, y, mask, weights, precision, inclusion)
    assert bound_at(values) == pytest.approx(want, rel=1e-13)

    order = np.array([3, 1, 0, 4, 2])
    moved = {
        name: value[:, order] if name == "X" else value[order] if len(value) == 5 else value
        for name, value in values.items()
        if jnp.ndim(value)
    }
    assert bound_at(values | moved) == pytest.approx(want, rel=1e-13)


@pytest.mark.parametrize("interior", [True, False])
def test_slopes_of_the_bound_by_finite_differences(interior):
    values = arguments(interior=interior)
    free = {name: value for name, value in values.items() if name != "active"}
    slopes = jax.jit(jax.grad(lambda free: bound_at(free | {"active": values["active"]})))(free)
    rng = np.random.default_rng(0)
    h = 1e-5
    for name, value in free.items():
        assert jnp.isfinite(slopes[name]).all(), name
        direction = rng.normal(size=value.shape)
        if name == "mask_mean" and not interior:
            direction[1] = 0  # a mask of exactly 1 under a rate of 1 has no room to move
        up, down = (bound_at(values | {name: value + s * h * direction}) for s in (1, -1))
        slope = jnp.sum(jnp.where(direction != 0, slopes[name] * direction, 0))
        # Rounding of a bound near 100 over 2 h is 1e-9, what the difference cuts off less.
        assert slope == pytest.approx(float(up - down) / (2 * h), rel=1e-7, abs=1e-7), name
    if not interior:
        for name in ("mask_mean", "weights", "log_odds"):
            assert (slopes[name][2] == 0).all()  # feature 2 is pruned
        assert (slopes["X"][:, 2] == 0).all()
        assert slopes["log_odds"][1] == 0  # feature 1 is always on


def test_slope_of_the_bound_in_the_inclusion():
    values = arguments(interior=True)

    def along(inclusion):
        return bound_at(values | {"log_odds": jax.scipy.special.logit(inclusion)})

    inclusion = jax.nn.sigmoid(values["log_odds"])
    h, direction = 1e-6, jnp.arange(1.0, 6.0)
    numeric = (along(inclusion + h * direction) - along(inclusion - h * direction)) / (2 * h)
    slope = jax.grad(along)(inclusion) @ direction
    assert slope == pytest.approx(float(numeric), rel=1e-6)


def test_bound_under_vmap_with_weights_and_unmasked_features():
    """A sample that counts twice is a row given twice, and lanes are what they are alone."""
    X, y, state = parts(arguments(interior=False))
    counts, one = jnp.asarray(np.arange(30) % 3, float), np.array([1])

    @jax.jit
    @jax.vmap
    def lanes(y):
        return bmjax.log_evidence_bound(X, y, state, sample_weights=counts, unmasked=one)

    @jax.jit
    def alone(y):
        rows = np.repeat(np.arange(30), np.arange(30) % 3)
        repeated = state._replace(mask_mean=state.mask_mean[:, rows])
        return bmjax.log_evidence_bound(X[rows], y[rows], repeated, unmasked=one)

    targets = jnp.stack([y, 2 * y])
    np.testing.assert_allclose(lanes(targets), [alone(y) for y in targets], rtol=1e-13)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": jnp.ones(30)}, r"X has shape \(30,\), wanted \(n samples, k features\)"),
        ({"y": jnp.ones(29)}, "y has 29 entries but X has 30 rows"),
        ({"mask_mean": jnp.ones((30, 5))}, r"state.mask_mean has shape \(30, 5\), wanted \(5, 30"),
        ({"weights": jnp.ones(4)}, r"state.weights has shape \(4,\), wanted \(5,\)"),
        ({"noise_precision": jnp.ones(1)}, r"state.noise_precision has shape \(1,\), wanted \(\)"),
    ],
)
def test_bound_refuses_shapes_that_do_not_fit(change, message):
    with pytest.raises(ValueError, match=message):
        bound_at(arguments(interior=True) | change)


def test_masks_settle_as_a_dense_solve_says():
    """Also where an entry of the diagonal, 1 - lambda mask (1 - mask) a^2, is exactly zero."""
    rng = np.random.default_rng(0)
    spread, effects = rng.uniform(0, 0.25, (4, 6)), rng.normal(size=(4, 6))
    spread[0, 0], effects[0, 0], spread[1, 1] = 0.25, 2.0, 0
    alone = rng.normal(size=(4, 6))
    got = _settler(jnp.asarray(spread), jnp.asarray(effects), jnp.asarray(1.0))(jnp.asarray(alone))
    for D, a, b, move in zip(spread.T, effects.T, alone.T, np.asarray(got).T, strict=True):
        matrix = np.eye(4) + D[:, None] * (np.outer(a, a) - np.diag(a**2))
        np.testing.assert_allclose(move, np.linalg.solve(matrix, b), rtol=1e-12)


# The tests below share one shape and, as far as they can, one compiled program.
TIGHT = {"initial_inclusion": 0.5, "solver": bmjax.EM(), "tolerance": 1e-9, "max_steps": 100_000}
OPTIONS = {
    "plain": {},
    "level": {"intercept": True, "sample_weights": np.arange(80.0) % 3},
    "scaled": {"standardize": True, "unmasked": [1], "noise_precision": 1.3},
}


def some_data(seed=4):
    """Fits of it have a rate of 1, one or two inside, and pruned features."""
    X, y = normal_design(seed, 80, [2.0, 0.4, 0.3, 0.0, 0.0])
    return jnp.asarray(X + 0.3), jnp.asarray(y + 0.3 * 2.7)


def fitted(X, y, **options):
    return bmjax.fit(X, y, uncertainty=False, **(TIGHT | options))


def coef_of(y, **options):
    return fitted(some_data()[0], y, **options).coef


@pytest.fixture(scope="module")
def jacobian():
    return jax.jacobian(coef_of)(some_data()[1])


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_moves_of_a_fit_by_finite_differences(options):
    """Nothing but fits of moved data, each converged to 1e-9, is compared with."""
    X, y = some_data()
    counts = jnp.asarray(options.get("sample_weights", np.ones(80)))
    given = {"X": X, "y": y, "sample_weights": counts}
    if "noise_precision" in options:
        given["noise_precision"] = jnp.asarray(options["noise_precision"])

    @jax.jit
    def moving(given):
        result = fitted(**(options | given))
        level = jnp.stack([result.intercept, result.noise_precision, result.bound])
        return jnp.concatenate([result.coef, result.weights, result.inclusion, level])

    slopes = jax.jacobian(moving)(given)
    here = fitted(X, y, **options)
    inside = (here.inclusion > 0) & (here.inclusion < 0.9)
    assert inside.any()
    assert not here.support.all()

    rng = np.random.default_rng(0)
    moves = [("y", np.eye(80)[40]), ("y", rng.normal(size=80) / 9)]
    moves += [("X", rng.normal(size=(80, 5)) / 20)]
    # A row that is absent may not come in: what it holds is never looked at.
    moves += [("sample_weights", np.where(counts > 0, rng.normal(size=80) / 9, 0))]
    moves += [("noise_precision", np.ones(()))] * ("noise_precision" in given)
    h = 1e-4
    for name, move in moves:
        up, down = (moving(given | {name: given[name] + s * h * move}) for s in (1, -1))
        numeric = (up - down) / (2 * h)
        slope = np.tensordot(slopes[name], move, axes=move.ndim)
        # What is cut off is h^2 of the slope; what is left to go, 1e-9, is nearly the same in both
        # fits, or it would be 1e-5 of this difference.
        np.testing.assert_allclose(slope, numeric, rtol=0, atol=1e-6 * np.abs(numeric).max())

    assert (slopes["y"][:5][~here.support] == 0).all()


def test_forward_reverse_and_batched_modes_agree(jacobian):
    _, y = some_data()
    np.testing.assert_allclose(jax.jacfwd(coef_of)(y), jacobian, rtol=0, atol=1e-12)
    # Twice y is fitted by twice the effects.
    slope = jax.jit(jax.vmap(jax.grad(lambda y: coef_of(y).sum())))(jnp.stack([y, 2 * y]))
    np.testing.assert_allclose(slope, np.tile(jacobian.sum(axis=0), (2, 1)), rtol=0, atol=1e-7)


def test_default_fit_at_its_tolerance():
    """Starts, moves and extrapolated rates: 1e-3 from the optimum as good as much nearer."""
    X, y = some_data()

    def slope(tolerance):
        fit = partial(bmjax.fit, X, tolerance=tolerance)
        return jax.grad(lambda y: fit(y).coef @ jnp.arange(1.0, 6.0))(y)

    want = slope(1e-9)
    np.testing.assert_allclose(slope(1e-3), want, rtol=0, atol=3e-3 * np.abs(want).max())


def test_fit_is_the_same_at_hand_and_traced():
    X, y = some_data()
    traced = jax.jit(lambda X, y: bmjax.fit(X, y, uncertainty=False, **TIGHT))(X, y)
    np.testing.assert_allclose(fitted(X, y).coef, traced.coef, rtol=1e-9)


def test_rate_that_drifts_to_one_disturbs_no_other():
    """Its Newton step is endless where the fit was stopped on the way, and it is held for that."""
    X, y = some_data(3)

    def slope(tolerance):
        return jax.jacobian(lambda y: fitted(X, y, tolerance=tolerance).coef)(y)

    rates = fitted(X, y, tolerance=1e-3).inclusion
    assert ((rates > 1 - 1e-9) & (rates < 1)).any()
    want = slope(1e-9)
    np.testing.assert_allclose(slope(1e-3), want, rtol=0, atol=3e-3 * np.abs(want).max())


def test_exact_fit_moves_as_least_squares():
    """Without noise and masks: the noise precision is at its cap, the effects are linear in y."""
    X, _ = some_data()
    y = X @ jnp.asarray([1.0, 2.0, 0.0, 0.0, 0.0])
    result = fitted(X, y, initial_inclusion=0.99)
    assert result.status == bmjax.Status.EXACT_FIT
    kept = np.asarray(result.support)
    assert (result.inclusion[kept] == 1).all()
    got = jax.jacobian(lambda y: coef_of(y, initial_inclusion=0.99))(y)
    np.testing.assert_allclose(got[kept], np.linalg.pinv(X[:, kept]), rtol=1e-9, atol=1e-12)
    assert (got[~kept] == 0).all()


def test_fit_cut_short_has_a_sober_derivative():
    """Rates still on their way are held; as if they were at rest, up to 10 would come out."""
    X, y = some_data(0)
    for steps, most in ((0, np.inf), (10, 0.2), (20, 0.2), (40, 0.2)):
        got = jax.jacobian(lambda y, steps=steps: fitted(X, y, max_steps=steps).coef)(y)
        assert jnp.isfinite(got).all()
        assert jnp.abs(got).max() <= most


def test_constant_y_has_no_slope():
    """Scaled by its spread, which is zero."""
    _, y = some_data()
    options = {"intercept": True, "standardize": True}
    got = jax.jacobian(lambda y: coef_of(y, **options))(jnp.full_like(y, 3.0))
    assert (got == 0).all()


def test_second_derivatives_are_refused():
    _, y = some_data()
    with pytest.raises(NotImplementedError, match="first derivatives only"):
        jax.hessian(lambda y: coef_of(y).sum())(y)
