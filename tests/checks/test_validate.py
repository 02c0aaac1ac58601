"""Bad input is refused in Python, before tracing, with a message that names it and the remedy."""

import sys
from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jax.experimental import sparse as jsparse
from scipy import sparse

import bmjax
from bmjax._checks import arrays, inputs, validate
from bmjax._fitting import ragged
from bmjax._results import names, refit
from bmjax.sklearn import BayesianMaskingRegressor

X = np.random.default_rng(0).normal(size=(20, 3))
Y = X[:, 0] + 0.1


def changed(array, place, value):
    array = array.copy()
    array[place] = value
    return array


BAD = [
    (X[:, 0], Y, {}, ValueError, r"X has shape \(20,\), wanted \(n samples, k features\).*X\[:, N"),
    (X[None], Y, {}, ValueError, r"X has shape \(1, 20, 3\).*jax\.vmap"),
    (X, Y[:-1], {}, ValueError, r"y has 19 entries but X has 20 rows"),
    (X, np.stack([Y, Y], 1), {}, ValueError, r"y has shape \(20, 2\), wanted \(20,\)"),
    (X, 1.0, {}, ValueError, r"y has shape \(\), wanted \(20,\)"),
    (X[:1], Y[:1], {}, ValueError, r"X has 1 row.*at least 2 samples"),
    (X[:, :0], Y, {}, ValueError, r"X has shape \(20, 0\): no column"),
    (
        changed(X, (4, 1), np.nan),
        Y,
        {},
        ValueError,
        r"X holds NaN.*1 of them \(first at \(4, 1\)\)",
    ),
    (changed(X, (4, 1), np.inf), Y, {}, ValueError, r"X holds NaN or infinite.*Drop or impute"),
    (X, changed(Y, 3, np.nan), {}, ValueError, r"y holds NaN.*first at \(3,\)"),
    (jnp.asarray(X).at[0, 0].set(jnp.nan), Y, {}, ValueError, r"X holds NaN"),
    (X.astype(complex), Y, {}, TypeError, r"X has dtype complex128; only real"),
    (X, Y.astype(str), {}, TypeError, r"y has dtype <U.*give numbers"),
    (X.astype(str).astype(object), Y, {}, TypeError, r"X has dtype object and holds '"),
    ([[1.0, 2.0], [3.0]], [1.0, 2.0], {}, ValueError, r"X is not a rectangular array"),
    (X, Y, {"noise_precision": 0}, ValueError, r"noise_precision is 0; it must be above 0"),
    (X, Y, {"noise_precision": -1.0}, ValueError, r"noise_precision is -1.0; it must be above"),
    (X, Y, {"noise_precision": np.inf}, ValueError, r"noise_precision holds NaN or infinite"),
    (X, Y, {"noise_precision": [1.0]}, ValueError, r"noise_precision has shape \(1,\), wanted one"),
    (X, Y, {"noise_precision": "1"}, TypeError, r"noise_precision has dtype"),
    (
        X,
        Y,
        {"initial_weights": [1.0, 2.0]},
        ValueError,
        r"initial_weights has shape \(2,\).*\(3,\)",
    ),
    (X, Y, {"initial_weights": np.nan}, ValueError, r"initial_weights holds NaN"),
    (X, Y, {"initial_inclusion": 0}, ValueError, r"initial_inclusion is 0; an inclusion rate lies"),
    (X, Y, {"initial_inclusion": 1.5}, ValueError, r"initial_inclusion is 1.5"),
    (X, Y, {"initial_inclusion": [0.5, 0.5]}, ValueError, r"initial_inclusion has shape \(2,\)"),
    (X, Y, {"prune_threshold": -1e-9}, ValueError, r"prune_threshold is -1e-09.*at least 0"),
    (X, Y, {"prune_threshold": 2}, ValueError, r"prune_threshold is 2.*at most 1"),
    (X, Y, {"tolerance": -1}, ValueError, r"tolerance is -1; it must be at least 0"),
    (X, Y, {"max_steps": -1}, ValueError, r"max_steps is -1; it must be at least 0"),
    (X, Y, {"max_steps": 10.0}, TypeError, r"max_steps is 10.0; it must be a whole number"),
    (X, Y, {"max_steps": True}, TypeError, r"max_steps is True"),
    (X, Y, {"solver": "em"}, TypeError, r"solver is 'em'; give bmjax.Accelerated\(\)"),
    (X, Y, {"solver": bmjax.EM}, TypeError, r"solver is <class"),
]


@pytest.mark.parametrize(("X", "y", "options", "error", "message"), BAD)
def test_refused_with_a_message(X, y, options, error, message, monkeypatch):
    def traced(*args, **kwargs):
        raise AssertionError("the solver was reached")

    monkeypatch.setattr("bmjax._fitting.fit.compiled", traced)
    with pytest.raises(error, match=message):
        bmjax.fit(X, y, **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: bmjax.EM(sweeps=0), ValueError, "sweeps is 0; it must be at least 1"),
        (lambda: bmjax.EM(sweeps=1.5), TypeError, "sweeps is 1.5; it must be a whole number"),
        (lambda: bmjax.EG(learning_rate=0), ValueError, "learning_rate is 0; it must be above 0"),
        (lambda: bmjax.EG(learning_rate="x"), TypeError, "learning_rate is 'x'"),
        (lambda: bmjax.EG(cap=0), ValueError, "cap is 0; it must be above 0"),
        (lambda: bmjax.EG(optimizer=3), TypeError, "optimizer is 3; give an optax"),
        (
            lambda: bmjax.EG(learning_rate=0.1, optimizer=__import__("optax").sgd(0.1)),
            ValueError,
            "both learning_rate and optimizer",
        ),
        (lambda: bmjax.Hybrid(switch=-1), ValueError, "switch is -1; it must be at least 0"),
    ],
)
def test_solver_options_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_values_too_large_for_float32_are_named():
    with jax.enable_x64(False), pytest.raises(ValueError, match="too large for float32; rescale"):
        bmjax.fit(X * 1e200, Y)


# ---- the one door for arrays

# Whole numbers of both signs, some of one bit: each form below holds the same table.
TABLE = np.column_stack([np.arange(-8.0, 8.0), np.arange(16) % 3 == 0, np.arange(16) ** 2 - 70])
LEVELS = TABLE @ [1.0, 2.0, 0.0] + np.cos(np.arange(16))


def frame(**dtypes):
    columns = pd.DataFrame(TABLE, columns=["a", "b", "c"])
    return columns.astype({"a": "float64", "b": "bool", "c": "int64"} | dtypes)


def in_polars():
    polars = pytest.importorskip("polars")
    a, b, c = TABLE.T
    return polars.DataFrame({"a": a, "b": b.astype(bool), "c": c.astype(np.int64)})


TAKEN = {
    "bool, int and float columns": frame,
    "nullable columns": lambda: frame(a="Float64", b="boolean", c="Int64"),
    "columns of Python objects": lambda: frame(a=object, b=object, c=object),
    "sparse columns": lambda: frame(a=pd.SparseDtype(float, 0.0)),
    "two columns of one name": lambda: frame().set_axis(["a", "a", "c"], axis=1),
    "polars": in_polars,
    "a frame's values": lambda: frame().to_numpy(),
    "big-endian floats": lambda: TABLE.astype(">f8"),
    "big-endian integers": lambda: TABLE.astype(">i4"),
    "small integers": lambda: TABLE.astype(np.int16),
    "half precision": lambda: TABLE.astype(np.float16),
    "long doubles": lambda: TABLE.astype(np.longdouble),
    "fractions": lambda: [[Fraction(int(v)) for v in row] for row in TABLE],
    "decimals": lambda: np.vectorize(lambda v: Decimal(int(v)), otypes=[object])(TABLE),
    "nothing masked": lambda: np.ma.array(TABLE, mask=False),
    "a list of columns' rows": lambda: [pd.Series(row) for row in TABLE],
    "a list of JAX arrays": lambda: [jnp.asarray(row, jnp.int32) for row in TABLE],
    "JAX integers": lambda: jnp.asarray(TABLE, jnp.int32),
}


@pytest.fixture(scope="module")
def estimate():
    return bmjax.baselines.least_squares(TABLE, LEVELS)


@pytest.mark.parametrize("form", TAKEN.values(), ids=TAKEN)
@pytest.mark.parametrize("x64", [False, True])
def test_numbers_are_taken_whatever_they_come_in(form, x64, estimate):
    form = form()
    assert np.dtype(arrays.real_array("X", form).dtype).isnative  # all that JAX takes
    with jax.enable_x64(x64):
        X, y = inputs.data(form, pd.Series(LEVELS))
        new = inputs.samples(form, 3, "float32")
    assert X.dtype == (np.float64 if x64 else np.float32)
    np.testing.assert_array_equal(X, TABLE)
    np.testing.assert_allclose(y, LEVELS, rtol=1e-6)
    np.testing.assert_array_equal(new, TABLE)
    np.testing.assert_allclose(
        estimate.predict(form), TABLE @ np.asarray(estimate.coef), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_array_equal(inputs.host_data(form, LEVELS, None)[0], TABLE)


@pytest.mark.parametrize("values", [2**53, -(2**40), 3_000_000_000])
@pytest.mark.parametrize("x64", [False, True])
def test_large_integers_do_not_wrap(values, x64):
    for dtype in (np.int64, ">i8", object):
        column = np.full((2, 1), values, dtype)
        with jax.enable_x64(x64):
            got = bmjax._results.prediction.linear_predictor(column, jnp.ones(1))
            score = bmjax.metrics.squared_error(column[0], np.zeros(1))
        np.testing.assert_allclose(np.asarray(got, float), float(values), rtol=1e-7)
        np.testing.assert_allclose(float(score), float(values) ** 2, rtol=1e-6)
    assert bmjax.metrics.selection([2**32, 0], [1, 0]).f1 == 1


def times(unit):
    return (np.arange(48).reshape(16, 3)).astype(unit)


REFUSED = {
    "masked values": (
        lambda: np.ma.masked_greater(TABLE, 100),
        ValueError,
        r"X is a masked array with \d+ values masked; drop those rows, or give X\.filled",
    ),
    "a masked row in a list": (
        lambda: [np.ma.array(row, mask=row > 100) for row in TABLE],
        ValueError,
        r"X\[14\] is a masked array with 1 values masked",
    ),
    "time differences": (lambda: times("m8[s]"), TypeError, r"X has dtype timedelta64\[s\], times"),
    "dates": (lambda: times("M8[D]"), TypeError, r"X has dtype datetime64\[D\], times.*timedelta"),
    "sparse": (
        lambda: sparse.csr_array(TABLE),
        TypeError,
        r"X is a sparse csr_array; give it dense, as X\.toarray\(\)",
    ),
    "JAX sparse": (
        lambda: jsparse.BCOO.fromdense(jnp.asarray(TABLE)),
        TypeError,
        r"X is a sparse BCOO; give it dense, as X\.todense\(\)",
    ),
    "a column of times": (
        lambda: frame().assign(b=pd.Timestamp("2020-01-01")),
        TypeError,
        r"column 'b' of X has dtype datetime64.*times",
    ),
    "a column of times with a zone": (
        lambda: frame().assign(b=pd.Timestamp("2020-01-01", tz="UTC")),
        TypeError,
        r"column 'b' of X has dtype datetime64.*times",
    ),
    "a column of categories that are numbers": (
        lambda: frame(c="category"),
        TypeError,
        r"column 'c' of X has dtype category; give numbers \(encode categories as 0/1",
    ),
    "a column of words": (
        lambda: frame().assign(b="north"),
        TypeError,
        r"column 'b' of X has dtype object and holds 'north', of type str, at \(0,\)",
    ),
    "numbers in words": (
        lambda: TABLE.astype(str).astype(object),
        TypeError,
        r"X has dtype object and holds '-8\.0'",
    ),
    "a missing value in a nullable column": (
        lambda: frame(c="Int64").mask(frame() == -69),
        ValueError,
        r"X holds NaN or infinite values: 1 of them \(first at \(1, 2\), column 'c'\)",
    ),
    "a missing object": (
        lambda: np.where(TABLE == -69, None, TABLE),
        ValueError,
        r"X holds NaN or infinite values: 1 of them \(first at \(1, 2\)\)",
    ),
    "an object beyond float64": (
        lambda: np.full((16, 3), 10**400, object),
        ValueError,
        r"X holds 1000.* at \(0, 0\), beyond float64",
    ),
    "complex objects": (lambda: np.full((16, 3), 1j, object), TypeError, r"holds 1j, of type comp"),
    "a dict": (lambda: {"a": [1, 2]}, TypeError, r"X is dict, not an array of numbers"),
    "keys": (lambda: jax.random.split(jax.random.key(0), (16, 3)), TypeError, r"X has dtype key<"),
}


@pytest.mark.parametrize(("form", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_number_is_refused_by_name(form, error, message, estimate):
    form = form()
    for door in (
        lambda: bmjax.fit(form, LEVELS),
        lambda: estimate.predict(form),
        lambda: bmjax.fit_stream([(form, LEVELS)]),
    ):
        with pytest.raises(error, match=message):
            door()


HIDDEN = np.ma.masked_greater(LEVELS, 5)
DOORS = {
    "fit": lambda: bmjax.fit(TABLE, HIDDEN),
    "fit's weights": lambda: bmjax.fit(TABLE, LEVELS, sample_weights=HIDDEN),
    "fit's rates": lambda: bmjax.fit(TABLE, LEVELS, initial_inclusion=HIDDEN[-3:]),
    "fit_batch": lambda: bmjax.fit_batch(TABLE, HIDDEN[None]),
    "fit_batch, ragged": lambda: bmjax.fit_batch([TABLE, TABLE[:9]], [HIDDEN, LEVELS[:9]]),
    "posterior, ragged": lambda: bmjax.posterior([TABLE, TABLE[:9]], [HIDDEN, LEVELS[:9]]),
    "fit_stream": lambda: bmjax.fit_stream([(TABLE, HIDDEN)]),
    "stability": lambda: bmjax.stability_selection(TABLE, HIDDEN, jax.random.key(0)),
    "bootstrap": lambda: bmjax.bootstrap(TABLE, HIDDEN, jax.random.key(0)),
    "refit": lambda: refit.refit(TABLE, HIDDEN, np.ones(3, bool), intercept=True),
    "least squares": lambda: bmjax.baselines.least_squares(TABLE, HIDDEN),
    "Lasso": lambda: bmjax.baselines.lasso(TABLE, HIDDEN, 1.0),
    "cross-validated Lasso": lambda: bmjax.baselines.lasso_cv(TABLE, HIDDEN),
    "ARD": lambda: bmjax.baselines.ard(TABLE, HIDDEN),
    "best subset": lambda: bmjax.baselines.best_subset_bic(TABLE, HIDDEN),
    "scores of a selection": lambda: bmjax.metrics.pruning(HIDDEN, LEVELS),
    "error of prediction": lambda: bmjax.metrics.prediction_error(np.ones(3), TABLE, HIDDEN),
    "one feature": lambda: bmjax.shrinkage.least_squares(LEVELS, HIDDEN),
    "the estimator": lambda: BayesianMaskingRegressor().fit(TABLE, HIDDEN),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_every_door_refuses_values_behind_a_mask(door):
    with pytest.raises(ValueError, match=r"is a masked array with \d+ values masked"):
        door()


def test_a_frame_is_one_of_several_datasets():
    X, _, _, _ = inputs.batch([frame(), frame() * 2], [LEVELS, LEVELS])
    np.testing.assert_array_equal(X, np.stack([TABLE, 2 * TABLE]))
    parts = ragged.groups([frame(), frame()[:9]], [LEVELS, LEVELS[:9]], None)
    assert {part.X.dtype for part in parts} == {np.dtype(float)}


def test_a_cast_below_the_normal_numbers_is_no_error():
    tiny = np.where(TABLE == 0, 1e-42, TABLE)
    with jax.enable_x64(False), np.errstate(all="raise"):
        X, _ = inputs.data(tiny, LEVELS)
        assert np.isfinite(bmjax._results.prediction.linear_predictor(tiny, jnp.ones(3))).all()
    np.testing.assert_allclose(X, TABLE, atol=1e-41)


# ---- arguments


def test_no_limit_of_steps_is_too_high():
    for limit in (2**31, 10**10, sys.maxsize, np.uint64(2**63)):
        assert validate.steps("max_steps", limit) == 2**31 - 1
    want = bmjax.baselines.lasso(TABLE, LEVELS, 1.0)
    got = bmjax.baselines.lasso(TABLE, LEVELS, 1.0, max_steps=sys.maxsize)
    np.testing.assert_array_equal(got.coef, want.coef)


KEY = jax.random.key(0)
ARGUMENTS = [
    (lambda: bmjax.fit(X, Y, criterion=["held"]), TypeError, r"criterion is \['held'\]"),
    (lambda: bmjax.fit(X, Y, criterion="bic"), ValueError, r"criterion is 'bic'; it must be one"),
    (lambda: bmjax.fit(X, Y, moves=10**9), ValueError, r"moves is 1000000000; it must be at most"),
    (lambda: bmjax.fit(X, Y, starts=[[0.1], [0.2, 0.3]]), ValueError, r"starts is not a rectang"),
    (lambda: bmjax.fit(X, Y, starts="two"), TypeError, r"starts is 'two'; it must be a whole"),
    (lambda: bmjax.fit(X, Y, max_steps=None), TypeError, r"max_steps is None; it must be a whole"),
    (lambda: bmjax.EM(sweeps=2**31), ValueError, r"sweeps is 2147483648; it must be at most"),
    (lambda: bmjax.fit_batch(X, Y[None], width=2**40), ValueError, r"width is .* at most"),
    (lambda: bmjax.stability_selection(X, Y, 0), TypeError, r"key is 0; give one JAX random key"),
    (lambda: bmjax.bootstrap(X, Y, None, 2), TypeError, r"key is None; give one JAX random key"),
    (lambda: bmjax.bootstrap(X, Y, KEY, 2**40), ValueError, r"resamples is .* at most"),
    (lambda: bmjax.baselines.lasso_cv(X, Y, num_alphas=2**31), ValueError, r"num_alphas is .* at"),
    (lambda: bmjax.baselines.best_subset_bic(X, Y, exhaustive=1), TypeError, r"exhaustive is 1;"),
    (lambda: bmjax.bootstrap(X, Y, np.ones(2), 2), TypeError, r"key is array.*give one JAX random"),
    (lambda: bmjax.bootstrap(X, Y, KEY, 2, progress=1), TypeError, r"progress is 1; it must be Tr"),
    (lambda: bmjax.EG(cap=10**400), ValueError, r"cap is 10*; it must be above 0 and finite"),
    (lambda: bmjax.EG(safeguard="no"), TypeError, r"safeguard is 'no'; it must be True or False"),
    (lambda: bmjax.EG(reparametrize=0), TypeError, r"reparametrize is 0; it must be True or Fal"),
    (lambda: bmjax.simulate.two_features(KEY, dtype="x"), TypeError, r"dtype is 'x'; give a float"),
    (lambda: bmjax.simulate.two_features(KEY, 2**31), ValueError, r"pairs is .* at most"),
    (lambda: names.feature_names(3, 3), TypeError, r"names is 3; give a list of 3 names"),
]


@pytest.mark.parametrize(("call", "error", "message"), ARGUMENTS)
def test_arguments_are_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()
