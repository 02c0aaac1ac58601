"""Intercept, unmasked features, sample weights, units and standard errors, around every solver."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from tests.helpers import lane, normal_design, plain_fit, plain_fit_batch, same_bits

SOLVERS = [
    bmjax.Accelerated(),
    bmjax.EM(),
    bmjax.EG(),
    bmjax.Hybrid(switch=20),
]
# Few steps will do where two runs are compared step by step.
SHORT = dict(initial_inclusion=0.5, max_steps=60)


def design(seed=0, n=60, level=4.0):
    X, y = normal_design(seed, n, [1.5, -1.0, 0.0, 0.0, 0.4])
    return X, y + level


def assert_close(a, b, **tolerance):
    for name in ("coef", "weights", "inclusion", "intercept", "noise_precision", "bound"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), err_msg=name, **tolerance)
    np.testing.assert_array_equal(a.support, b.support)


@pytest.mark.parametrize(
    ("solver", "intercept"), list(zip(SOLVERS, [False, True, False, True], strict=True))
)
def test_an_integer_weight_is_the_row_repeated(solver, intercept):
    X, y = design()
    weights = np.random.default_rng(1).integers(0, 4, len(y))
    options = dict(SHORT, solver=solver, intercept=intercept, unmasked=[3])
    weighted = bmjax.fit(X, y, sample_weights=weights, **options)
    repeated = bmjax.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights), **options)
    # Sums in another order, and what sixty steps make of that.
    assert_close(weighted, repeated, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(weighted.standard_errors, repeated.standard_errors, rtol=1e-7)
    assert weighted.num_steps == repeated.num_steps
    assert not np.allclose(weighted.coef, bmjax.fit(X, y, **options).coef)


def test_weights_in_the_search_moves_and_score():
    X, y = design(3, 80)
    weights = np.random.default_rng(4).integers(0, 3, len(y))
    options = dict(intercept=True, starts=4)
    weighted = bmjax.fit(X, y, sample_weights=weights, **options)
    repeated = bmjax.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights), **options)
    assert_close(weighted, repeated, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(weighted.starts.score, repeated.starts.score, rtol=1e-9)


def test_weights_below_one_count_as_parts_of_an_observation():
    """Half the weight everywhere: same least squares, half the information."""
    X, y = normal_design(0, 40, [3.0, -2.0])
    options = dict(initial_inclusion=1.0, noise_precision=1.0)
    whole = bmjax.fit(X, y, **options)
    half = bmjax.fit(X, y, sample_weights=np.full(40, 0.5), **options)
    np.testing.assert_allclose(half.coef, whole.coef, rtol=1e-10)
    ratio = half.standard_errors / whole.standard_errors
    np.testing.assert_allclose(ratio, np.sqrt(2), rtol=1e-10)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_row_of_weight_zero_may_hold_anything(intercept):
    X, y = design()
    weights = np.ones(60)
    weights[[5, 41]] = 0
    dirty_X, dirty_y = X.copy(), y.copy()
    dirty_X[5, 2], dirty_y[41] = np.nan, np.inf
    options = dict(SHORT, intercept=intercept)
    want = bmjax.fit(X, y, sample_weights=weights, **options)
    assert same_bits(bmjax.fit(dirty_X, dirty_y, sample_weights=weights, **options), want)
    traced = jax.jit(lambda X, y, w: bmjax.fit(X, y, sample_weights=w, **options))
    got = traced(dirty_X, dirty_y, weights)
    assert_close(got, want, rtol=1e-9, atol=1e-12)


def test_fewer_rows_that_count_than_features():
    """As good as the fit of those rows alone, which are fewer than the features."""
    X, y = normal_design(2, 60, [5.0, *np.zeros(19)], noise=0.3)
    weights = np.zeros(60)
    weights[:15] = 1
    weighted = bmjax.fit(X, y, sample_weights=weights, initial_inclusion=0.5)
    alone = bmjax.fit(X[:15], y[:15], initial_inclusion=0.5)
    np.testing.assert_allclose(weighted.coef, alone.coef, rtol=1e-5, atol=1e-7)
    assert weighted.noise_precision < 1e3


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_a_batch_is_its_datasets_one_by_one(width, shared):
    X, y = design()
    rng = np.random.default_rng(0)
    Xs = X if shared else np.stack([X + 0.1 * i * rng.normal(size=X.shape) for i in range(5)])
    ys = np.stack([y + i for i in range(5)])
    weights = rng.integers(0, 3, ys.shape)
    options = dict(initial_inclusion=0.5, intercept=True, standardize=True, noise_precision=0.9)
    got = bmjax.fit_batch(Xs, ys, sample_weights=weights, uncertainty=True, width=width, **options)
    for i in range(5):
        own = X if shared else Xs[i]
        want = bmjax.fit(own, ys[i], sample_weights=weights[i], **options)
        # A batched product sums in another order.
        assert_close(lane(got._replace(lane_steps=None), i), want, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(got.standard_errors[i], want.standard_errors, rtol=1e-7)


def test_one_y_under_many_weights():
    X, y = design()
    weights = np.random.default_rng(0).integers(0, 3, (3, 60))
    got = plain_fit_batch(X, y, sample_weights=weights)
    want = plain_fit_batch(X, np.stack([y] * 3), sample_weights=weights)
    assert same_bits(got.coef, want.coef)


def test_two_threads_never_wait_for_each_other():
    """More than a few features, fewer samples, several lanes: XLA's batched products deadlock."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 60, 80))
    assert plain_fit_batch(X, X[:, :, 0], width=3, max_steps=30).coef.shape == (5, 80)


def test_a_batch_heeds_what_its_caller_has_set_for_its_thread():
    """The fits run in threads of their own."""
    X, y = design()
    with jax.enable_x64(False):
        got = plain_fit_batch(X, np.stack([y] * 4), max_steps=9)
        assert got.coef.dtype == jnp.float32
    assert plain_fit_batch(X, np.stack([y] * 4), max_steps=9).coef.dtype == jnp.float64


def test_an_intercept_is_an_unmasked_feature_of_ones():
    X, y = design()
    X = X - X.mean(axis=0)  # where the column means are zero, the two are the same model
    ones = np.column_stack([X, np.ones(60)])
    options = dict(initial_inclusion=0.5)
    a = bmjax.fit(X, y, intercept=True, **options)
    b = bmjax.fit(ones, y, unmasked=[5], **options)
    np.testing.assert_allclose(a.coef, b.coef[:5], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(a.intercept, b.coef[5], rtol=1e-8)
    np.testing.assert_allclose(a.bound, b.bound, rtol=1e-8)
    np.testing.assert_allclose(a.predict(X), b.predict(ones), rtol=1e-7)
    assert a.coef.shape == a.starts.coef.shape[-1:] == (5,)
    assert int(a.starts.size[0]) == int(a.support.sum())


def test_the_zero_of_a_column_does_not_matter():
    X, y = design()
    moved = X + np.array([0, 1e3, -40, 2e5, 7])
    a, b = bmjax.fit(X, y, intercept=True), bmjax.fit(moved, y, intercept=True)
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(a.predict(X), b.predict(moved), rtol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_units_do_not_matter(solver):
    """Columns and y in other units; EG's rate is absolute, so it needs `standardize`."""
    X, y = design()
    rescaled = isinstance(solver, bmjax.EG)
    options = dict(
        SHORT, solver=solver, intercept=True, standardize=rescaled, initial_weights=np.ones(5)
    )
    plain = bmjax.fit(X, y, **options)
    columns = np.array([1e6, 1e-6, 1e-3, 1e3, 10.0])
    for scale in (1e-6, 1e6):
        options["initial_weights"] = scale / columns
        other = bmjax.fit(X * columns, y * scale, **options)
        np.testing.assert_array_equal(other.support, plain.support)
        back = columns / scale
        np.testing.assert_allclose(other.coef * back, plain.coef, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(
            other.standard_errors * back, plain.standard_errors, rtol=1e-5, atol=1e-9
        )
        np.testing.assert_allclose(other.noise_precision * scale**2, plain.noise_precision)
        np.testing.assert_allclose(other.bound + 60 * np.log(scale), plain.bound, rtol=1e-7)
        np.testing.assert_allclose(other.intercept / scale, plain.intercept, rtol=1e-6)


def test_an_intercept_of_zero_is_one():
    """Of whole numbers that are their own mirror image, all means and the intercept are zero."""
    half, level = (np.round(8 * part) for part in design(n=30))
    X, y = np.concatenate([half, -half]), np.concatenate([level, -level])
    options = dict(SHORT, uncertainty=False, unmasked=range(5))
    fits = {
        intercept: [
            bmjax.fit(X, y, intercept=intercept, **options),
            jax.jit(lambda X, y, on=intercept: bmjax.fit(X, y, intercept=on, **options))(X, y),
            lane(
                bmjax.fit_batch(X[None], y[None], intercept=intercept, **options)._replace(
                    lane_steps=None
                ),
                0,
            ),
        ]
        for intercept in (True, False)
    }
    for intercept, ways in fits.items():
        for r in ways:
            assert float(r.intercept) == 0
            assert bool(r.with_intercept) == intercept
            refit = r.refit(X, y + 3)
            assert refit.degrees_of_freedom == 55 - intercept
            assert refit.intercept == pytest.approx(3 if intercept else 0)
            assert ("intercept" in r.summary().facts) == intercept


def test_standardizing_changes_units_alone():
    X, y = design()
    options = dict(intercept=True, history=True, max_steps=3000, noise_precision=1.2)
    a = bmjax.fit(X, y, **options)
    b = bmjax.fit(X, y, standardize=True, **options)
    assert_close(a, b, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(a.starts.score, b.starts.score, rtol=1e-8)
    np.testing.assert_allclose(a.history.bound[3], b.history.bound[3], rtol=1e-8)
    np.testing.assert_allclose(a.history.weights[3], b.history.weights[3], rtol=1e-6)
    np.testing.assert_array_equal(a.history.active_count, b.history.active_count)
    assert a.history.active_count[-1] == -1


def test_an_unmasked_feature_is_always_in():
    X, y = design()
    X[:, 3] = 0  # not even a column that says nothing leaves
    for options in ({}, dict(initial_inclusion=0.5), dict(solver=bmjax.EG(), max_steps=50)):
        r = bmjax.fit(X, y, intercept=True, unmasked=[2, 3], prune_threshold=1.0, **options)
        assert r.support[2]
        assert r.support[3]
        assert r.inclusion[2] == 1
        assert r.coef[3] == 0
    mask = np.array([False, False, True, True, False])
    assert same_bits(bmjax.fit(X, y, unmasked=mask), bmjax.fit(X, y, unmasked=[-3, 3]))


def test_unmasked_features_alone_are_least_squares():
    X, y = design()
    r = bmjax.fit(X, y, intercept=True, unmasked=range(5))
    A = np.column_stack([X, np.ones(60)])
    want, square = np.linalg.lstsq(A, y)[:2]
    np.testing.assert_allclose(r.coef, want[:5], rtol=1e-8)
    np.testing.assert_allclose(r.intercept, want[5], rtol=1e-8)
    variance = square[0] / 60
    bound = -30 * (np.log(2 * np.pi * variance) + 1) - 0.5 * 7 * np.log(60)
    np.testing.assert_allclose(r.bound, bound, rtol=1e-8)
    # Standard errors of the textbook.
    errors = np.sqrt(square[0] / 54 * np.diag(np.linalg.inv(A.T @ A)))
    np.testing.assert_allclose(r.standard_errors, errors[:5], rtol=1e-7)
    mean, std = r.predict(X[:4], return_std=True)
    rows = A[:4]
    spread = np.einsum("ni,ij,nj->n", rows, np.linalg.inv(A.T @ A), rows) * square[0] / 54
    np.testing.assert_allclose(mean, rows @ want, rtol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(spread + variance), rtol=1e-7)


def test_the_covariance_given_the_masks_is_the_curvature_of_the_bound():
    """By autodiff of the bound in the weights, at the masks that the fit ended with."""
    X, y = normal_design(1, 80, [1.0, -0.4, 0.25])
    r = bmjax.fit(X, y, initial_inclusion=0.3, solver=bmjax.EM(), tolerance=1e-6)
    assert ((r.inclusion > 0) & (r.inclusion < 1)).any()
    problem = bmjax.Problem(jnp.asarray(X.T), jnp.asarray(y), None, jnp.asarray(1e-12))
    start = bmjax.initialise(problem, r.inclusion, r.weights)
    state = start._replace(noise_precision=r.noise_precision)
    for _ in range(200):  # the masks of these parameters
        state = bmjax.e_step(problem, state)
    kept = np.flatnonzero(r.support)

    def bound(weights):
        return bmjax.lower_bound(problem, state._replace(weights=weights))

    information = -np.asarray(jax.hessian(bound)(state.weights))[np.ix_(kept, kept)]
    rates = np.asarray(r.inclusion)[kept]
    want = np.linalg.inv(information) * np.outer(rates, rates)
    got = np.asarray(r.uncertainty.covariance_given_masks)[np.ix_(kept, kept)]
    np.testing.assert_allclose(got, want, rtol=1e-3)


def test_the_spread_of_predictions_holds_what_masks_explain():
    X, y = normal_design(1, 80, [1.0, -0.4, 0.25])
    r = bmjax.fit(X, y, initial_inclusion=0.3, noise_precision=2.0)
    mean, std = r.predict(X, return_std=True)
    coef, weights = np.asarray(r.coef), np.asarray(r.weights)
    masks = X**2 @ (coef * (weights - coef))
    effects = np.einsum("ni,ij,nj->n", X, np.asarray(r.uncertainty.covariance), X)
    np.testing.assert_allclose(mean, X @ coef, rtol=1e-10)
    np.testing.assert_allclose(std**2, 0.5 + masks + effects, rtol=1e-10)
    assert masks.max() > 0


def test_float32_keeps_columns_far_from_zero():
    """Years and prices: a slope of a feature that varies by a thousandth of its size."""
    rng = np.random.default_rng(0)
    year = 2000 + rng.uniform(0, 20, 300)
    price = 1e5 + rng.uniform(0, 50, 300)
    X = np.column_stack([year, price, rng.normal(size=300)])
    y = 0.5 * (year - 2010) - 0.1 * (price - 1e5) + 0.5 * rng.normal(size=300) + 800
    X, y = X.astype(np.float32), y.astype(np.float32)
    r = bmjax.fit(X, y, intercept=True)
    wide = np.column_stack([X, np.ones(300)]).astype(float)
    want = np.linalg.lstsq(wide[:, [0, 1, 3]], y.astype(float))[0]
    assert r.coef.dtype == jnp.float32
    # The spacing of float32 at 1e5 is 0.008 of a spread of 15.
    np.testing.assert_allclose(r.coef[:2], want[:2], rtol=2e-3)
    left = y.astype(float) - np.asarray(r.predict(X), float)
    assert np.sqrt(np.mean(left**2)) < 0.52


@pytest.mark.parametrize("level", [1e6, -0.1, 0.0])
def test_a_column_that_varies_by_rounding_is_constant(level, dtype):
    X, y = design()
    X[:, 2] = level * (1 + float(jnp.finfo(dtype).eps) * np.sign(X[:, 2]))
    said = pytest.warns(UserWarning, match=r"X\[:, \[2\]\] varies by no more than the rounding")
    with said if dtype == np.float32 and level else contextlib.nullcontext():
        r = bmjax.fit(jnp.asarray(X, dtype), jnp.asarray(y, dtype), intercept=True)
    assert not r.support[2]
    assert r.support[0]
    assert r.support[1]
    assert np.isfinite(r.predict(X)).all()
    np.testing.assert_array_equal(r.uncertainty.correlation[2], 0)


@pytest.mark.parametrize("level", [3.75, 1e7, 0.0])
def test_a_target_without_variation(level, dtype):
    X, _ = design()
    y = jnp.full(60, level, dtype)
    r = bmjax.fit(jnp.asarray(X, dtype), y, intercept=True)
    np.testing.assert_allclose(r.intercept, level, rtol=1e-6)
    np.testing.assert_array_equal(r.coef, 0)
    assert 0 < r.noise_precision < np.inf
    assert np.isfinite(r.bound)


def test_lists_integers_and_awkward_memory():
    rng = np.random.default_rng(0)
    X = rng.integers(-60_000, 60_000, (80, 3))
    y = 3 * X[:, 0] - 2 * X[:, 2] + rng.integers(-4000, 4000, 80)
    want = plain_fit(X.astype(float), y.astype(float), intercept=True)
    wide = np.zeros((80, 6))
    wide[:, ::2] = X
    view = np.asfortranarray(wide[:, ::2])
    view.setflags(write=False)
    for other in (X, X.tolist(), view, wide[:, ::2]):
        assert same_bits(plain_fit(other, y[:, None].tolist(), intercept=True).coef, want.coef)


def test_arrays_known_while_something_else_is_traced():
    X, y = design()
    X, y, weights = jnp.asarray(X), jnp.asarray(y), jnp.ones(60)

    @jax.jit
    def effects(rate):
        return bmjax.fit(X, y, initial_inclusion=rate, sample_weights=weights, tolerance=1e-3).coef

    want = bmjax.fit(X, y, initial_inclusion=0.4, sample_weights=weights).coef
    np.testing.assert_allclose(effects(0.4), want, rtol=1e-8, atol=1e-12)


X, Y = design()
BAD = [
    ({"sample_weights": np.ones(59)}, ValueError, r"sample_weights has shape \(59,\), wanted \(60"),
    ({"sample_weights": -np.ones(60)}, ValueError, r"sample_weights holds negative numbers"),
    ({"sample_weights": np.full(60, np.nan)}, ValueError, r"sample_weights holds NaN"),
    ({"sample_weights": np.eye(60)[0]}, ValueError, r"sample_weights has 1 entries above zero"),
    ({"unmasked": [5]}, ValueError, r"unmasked is \[5\]; wanted numbers of features, 0 to 4"),
    ({"unmasked": [True]}, ValueError, r"unmasked has shape \(1,\), wanted \(5,\)"),
    ({"unmasked": ["a"]}, ValueError, "X has no column names"),
    ({"unmasked": [0.5]}, TypeError, r"unmasked has dtype float64"),
    ({"intercept": 1}, TypeError, r"intercept is 1; it must be True or False"),
    ({"standardize": "yes"}, TypeError, r"standardize is 'yes'"),
    ({"uncertainty": None}, TypeError, r"uncertainty is None"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_refused_with_a_message(options, error, message):
    with pytest.raises(error, match=message):
        bmjax.fit(X, Y, **options)


def test_a_batch_refuses_weights_that_do_not_fit():
    with pytest.raises(ValueError, match=r"sample_weights has shape \(2, 60\) but y has shape"):
        bmjax.fit_batch(X, np.stack([Y] * 3), sample_weights=np.ones((2, 60)))
    with pytest.raises(ValueError, match="negative or not finite"):
        bmjax.fit_batch(X, np.stack([Y] * 3), sample_weights=-np.ones((3, 60)))
    with pytest.raises(ValueError, match=r"wanted \(b datasets, n samples\)"):
        bmjax.fit_batch(X, np.stack([Y] * 3), sample_weights=np.ones((1, 3, 60)))


def test_uncertainty_that_was_not_asked_for():
    r = bmjax.fit(X, Y, uncertainty=False, **SHORT)
    assert r.uncertainty is None
    for ask in (lambda: r.standard_errors, lambda: r.predict(X, return_std=True)):
        with pytest.raises(ValueError, match="give uncertainty=True"):
            ask()
