"""Inputs that nobody thought of: whatever the values, a fit ends and says how.

A new shape or static option costs a compilation of seconds, so there are few of these, and the
variety is in the values: kinds of columns and of targets, sizes, weights. `HYPOTHESIS_PROFILE=long`
tries twenty times as many, other ones each time.
"""

import os
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import bmjax
from tests.helpers import lane, same_bits

_TIMES = {"default": 1, "long": 20}
_PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
for _name in _TIMES:
    settings.register_profile(
        _name,
        deadline=None,  # the first example of a case compiles
        derandomize=_name == "default",  # so that a run can be repeated
        database=None,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )


def examples(count):
    profile = settings.get_profile(_PROFILE)
    return settings(profile, max_examples=count * _TIMES[_PROFILE])


# Numbers that vary by their rounding alone are taken as constant, and a fit says so.
pytestmark = pytest.mark.filterwarnings("ignore:.*varies by no more than the rounding")


@dataclass(frozen=True)
class Case:
    """What is compiled: one shape, type and set of options.

    Attributes:
        n: Samples.
        k: Features.
        dtype: Type of the data.
        weighted: Whether samples have weights.
        unmasked: Whether some features may be always in.
        options: Static options, and numbers that are the same for all examples.
    """

    n: int
    k: int
    dtype: str
    weighted: bool = False
    unmasked: bool = False
    options: dict[str, Any] = field(default_factory=dict, hash=False)


SHORT = dict(max_steps=300)
DEFAULT_CASE = Case(20, 5, "float64", options=SHORT)
EM_CASE = Case(20, 5, "float32", options=dict(solver=bmjax.EM(), initial_inclusion=0.5, **SHORT))
HYBRID_CASE = Case(
    20,
    5,
    "float64",
    unmasked=True,
    options=dict(
        solver=bmjax.Hybrid(switch=20),
        intercept=True,
        standardize=True,
        initial_inclusion=0.9,
        **SHORT,
    ),
)
INTERCEPT_CASE = Case(20, 5, "float32", True, True, dict(intercept=True, criterion="held", **SHORT))
CASES = [
    DEFAULT_CASE,
    EM_CASE,
    HYBRID_CASE,
    INTERCEPT_CASE,
    Case(6, 9, "float32", options=dict(criterion="paper", **SHORT)),
    Case(6, 9, "float64", True, True, dict(intercept=True, **SHORT)),
    Case(2, 3, "float64", True, False, dict(solver=bmjax.EM(), standardize=True, **SHORT)),
]

COLUMNS = {
    "normal": lambda rng, X, j: X[:, j],
    "zero": lambda rng, X, j: 0 * X[:, j],
    "constant": lambda rng, X, j: np.full(len(X), rng.normal()),
    "duplicate": lambda rng, X, j: X[:, rng.integers(len(X[0]))],
    "opposite": lambda rng, X, j: -2 * X[:, rng.integers(len(X[0]))],
    "near duplicate": lambda rng, X, j: (
        X[:, rng.integers(len(X[0]))] + 10 ** rng.uniform(-14, -1) * X[:, j]
    ),
    "sum": lambda rng, X, j: X @ rng.integers(-1, 2, len(X[0])),
    "level": lambda rng, X, j: 10 ** rng.uniform(0, 9) + X[:, j],
    "integers": lambda rng, X, j: rng.integers(-3, 4, len(X)),
    "one row": lambda rng, X, j: np.eye(len(X))[rng.integers(len(X))],
    "heavy tails": lambda rng, X, j: rng.standard_t(1, len(X)),
}
TARGETS = {
    "signal": lambda rng, X: X @ rng.normal(size=len(X[0])) + rng.normal(size=len(X)),
    "sparse signal": lambda rng, X: (
        X @ (rng.normal(size=len(X[0])) * rng.integers(0, 2, len(X[0])))
        + 10 ** rng.uniform(-9, 1) * rng.normal(size=len(X))
    ),
    "no noise": lambda rng, X: X @ rng.normal(size=len(X[0])),
    "noise": lambda rng, X: rng.normal(size=len(X)),
    "zero": lambda rng, X: np.zeros(len(X)),
    "constant": lambda rng, X: np.full(len(X), rng.normal()),
    "a column": lambda rng, X: X[:, rng.integers(len(X[0]))],
    "one row": lambda rng, X: np.eye(len(X))[rng.integers(len(X))],
    "integers": lambda rng, X: rng.integers(-2, 3, len(X)),
    "heavy tails": lambda rng, X: X[:, 0] + rng.standard_t(1, len(X)),
}
WEIGHTS = {
    "ones": lambda rng, n: np.ones(n),
    "integers": lambda rng, n: rng.integers(0, 4, n),
    "fractions": lambda rng, n: rng.uniform(0, 2, n) * (rng.uniform(size=n) > 0.2),
    "far apart": lambda rng, n: 10 ** rng.uniform(-6, 3, n),
}


@st.composite
def datasets(draw, case, columns=tuple(COLUMNS), targets=tuple(TARGETS)):
    """X, y and the options that are arrays. What is drawn decides what it is, a seed the values."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(case.n, case.k))
    for j in range(case.k):
        X[:, j] = COLUMNS[draw(st.sampled_from(columns))](rng, X, j)
    y = np.asarray(TARGETS[draw(st.sampled_from(targets))](rng, X), float)
    if draw(st.booleans()):
        X = X * 10 ** rng.uniform(-6, 6, case.k)
    if draw(st.booleans()):
        y = y * 10 ** rng.uniform(-6, 6)
    options = {}
    if case.weighted:
        weights = WEIGHTS[draw(st.sampled_from(list(WEIGHTS)))](rng, case.n)
        weights[: 2 if np.sum(weights > 0) < 2 else 0] = 1  # fewer are refused
        options["sample_weights"] = weights.astype(case.dtype)
    if case.unmasked:
        options["unmasked"] = rng.uniform(size=case.k) < rng.choice([0, 0.3, 1])
    return X.astype(case.dtype), y.astype(case.dtype), options


def fitted(case, X, y, options):
    """A fit with its history, on the host; all tests of single fits share what this compiles."""
    return jax.device_get(bmjax.fit(X, y, history=True, **case.options, **options))


@cache
def _program(number):
    return jax.jit(partial(bmjax.fit, **(INTERCEPT_CASE, EM_CASE)[number].options))


def fitted_in_a_program(case, X, y, options):
    """The same inside a compiled function: in float32 another order of sums may end elsewhere."""
    return jax.device_get(_program(0 if case is INTERCEPT_CASE else 1)(X, y, **options))


def fitted_together(case, X, y, options):
    """The same for a batch, without the history."""
    if "unmasked" in options:
        options = options | {"unmasked": options["unmasked"][0]}  # one for all datasets
    width = 1 if case is INTERCEPT_CASE else 3
    result = bmjax.fit_batch(X, y, uncertainty=True, width=width, **case.options, **options)
    return jax.device_get(result._replace(lane_steps=None))


def on_any(*cases, columns=tuple(COLUMNS), targets=tuple(TARGETS)):
    """A case and a dataset for it."""
    return st.sampled_from(cases).flatmap(
        lambda case: st.tuples(st.just(case), datasets(case, columns, targets))
    )


@pytest.mark.slow
@examples(1500)
@given(on_any(*CASES))
def test_a_fit_ends_and_says_how(drawn):
    case, (X, y, options) = drawn
    r = fitted(case, X, y, options)
    assert r.coef.dtype == case.dtype
    assert 0 <= r.num_steps <= case.options["max_steps"]
    assert bmjax.Status(int(r.status)) != bmjax.Status.RUNNING
    numbers = (r.coef, r.weights, r.inclusion, r.intercept, r.noise_precision, r.bound)
    finite = all(np.isfinite(values).all() for values in numbers)
    assert finite or r.status == bmjax.Status.NON_FINITE
    # Nothing here is beyond the range of the type, so nothing here is to end like that.
    assert r.status != bmjax.Status.NON_FINITE
    assert r.noise_precision > 0
    assert ((r.inclusion >= 0) & (r.inclusion <= 1)).all()
    for values in (r.coef, r.weights, r.inclusion):
        np.testing.assert_array_equal(values[~r.support], 0)
    if "unmasked" in options:
        assert r.support[options["unmasked"]].all()
        np.testing.assert_array_equal(r.inclusion[options["unmasked"]], 1)
    variances = r.uncertainty.covariance.diagonal()
    assert np.isfinite(r.uncertainty.covariance).all()
    assert (variances >= 0).all()


@pytest.mark.parametrize(("X_size", "y_size"), [(1e160, 1), (1e-160, 1), (1, 1e-160)])
def test_units_whose_squares_are_out_of_range_are_fitted_or_refused(X_size, y_size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(DEFAULT_CASE.n, DEFAULT_CASE.k))
    y = X[:, 0] - 2 * X[:, 1] + 0.1 * rng.normal(size=DEFAULT_CASE.n)
    r = fitted(DEFAULT_CASE, X * X_size, y * y_size, {})
    assert r.status == bmjax.Status.NON_FINITE or r.support[:2].all()


# Columns that are collinear to rounding are left out: the M step solves with a small ridge there,
# and is not the very maximum. So are targets that can be fitted exactly: the noise is at its floor.
REGULAR = ("normal", "zero", "constant", "integers", "one row", "heavy tails")
NOISY = ("signal", "noise", "integers", "heavy tails")


def course(X, y, r):
    """The bounds of a history, how far each may fall by rounding, and whether it is to be compared.

    Rounding is that of `bound_slack` times the largest term of a residual over the noise: that is
    what a small residual keeps of the rounding of large terms. A row counts if the same features
    are active as in the one before.
    """
    h = r.history
    rows = h.active_count >= 0
    bound, count = h.bound[rows].astype(float), h.active_count[rows]
    terms = np.abs(h.weights[rows]) @ np.abs(X - r.center).T.astype(float)
    size = 1 + np.sqrt(h.noise_precision[rows]) * (terms.max(axis=1) + np.abs(y).max())
    unit = 4 * np.finfo(X.dtype).eps * (len(y) + np.abs(bound)) * size
    return bound, np.maximum(unit[1:], unit[:-1]), count[1:] == count[:-1]


@examples(500)
@given(on_any(DEFAULT_CASE, EM_CASE, HYBRID_CASE, columns=REGULAR, targets=NOISY))
def test_the_bound_never_falls(drawn):
    case, (X, y, options) = drawn
    bound, unit, same = course(X, y, fitted(case, X, y, options))
    assert (np.diff(bound)[same] >= -unit[same]).all()


# The signs and units of columns leave every step what it is, but for rounding. Their order does
# not, and is left alone here: masks are updated one feature after another, and with few samples
# that decides between optima, since masks can explain the noise of a few rows. Columns act strongly
# or are zero, and the noise is orthogonal to them, so that rounding decides nothing.
CLEAR_CASES = {DEFAULT_CASE: 1e-5, INTERCEPT_CASE: 1e-3}
"""The tolerance of each."""


@st.composite
def clear_datasets(draw):
    case = draw(st.sampled_from(list(CLEAR_CASES)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    acts = np.asarray(draw(st.lists(st.booleans(), min_size=case.k, max_size=case.k)))
    X = rng.normal(size=(case.n, case.k)) * acts
    noise = rng.normal(size=case.n)
    all_columns = np.column_stack([X, np.ones(case.n)])
    noise -= all_columns @ np.linalg.lstsq(all_columns, noise)[0]
    effects = rng.choice([-1, 1], case.k) * rng.uniform(1, 3, case.k)
    y = X @ effects + rng.uniform(0.05, 0.3) * noise
    return case, X, y, acts, rng


@examples(400)
@given(clear_datasets())
def test_signs_and_units_do_not_matter(drawn):
    case, X, y, acts, rng = drawn
    options = {"tolerance": CLEAR_CASES[case]}
    if case.weighted:
        options["sample_weights"] = np.ones(case.n, case.dtype)
    if case.unmasked:
        options["unmasked"] = np.zeros(case.k, bool)
    columns = rng.choice([-1, 1], case.k) * 10 ** rng.uniform(-6, 6, case.k)
    size = rng.choice([-1, 1]) * 10 ** rng.uniform(-6, 6)

    def fit(X, y):
        return fitted(case, X.astype(case.dtype), y.astype(case.dtype), options)

    plain = fit(X, y)
    other = fit(X * columns, y * size)
    np.testing.assert_array_equal(other.support, plain.support)
    assert not plain.support[~acts].any()
    close = 3 * options["tolerance"]
    back = columns / size
    np.testing.assert_allclose(other.coef * back, plain.coef, rtol=close, atol=close)
    np.testing.assert_allclose(other.inclusion, plain.inclusion, rtol=close, atol=close)
    np.testing.assert_allclose(other.noise_precision * size**2, plain.noise_precision, rtol=close)
    np.testing.assert_allclose(other.bound + case.n * np.log(abs(size)), plain.bound, atol=0.1)


LANES = 6


@st.composite
def batches(draw, **kinds):
    case = draw(st.sampled_from([INTERCEPT_CASE, EM_CASE]))
    lanes = [draw(datasets(case, **kinds)) for _ in range(LANES)]
    return case, jax.tree.map(lambda *leaves: np.stack(leaves), *lanes)


@pytest.mark.slow
@examples(120)
@given(batches(columns=REGULAR, targets=NOISY))
def test_a_batch_is_its_datasets_one_by_one(drawn):
    """Not where columns are collinear: there rounding decides which of them is kept."""
    case, (X, y, options) = drawn
    batch = fitted_together(case, X, y, options)
    for i in range(LANES):
        own = {name: rows[i if name == "sample_weights" else 0] for name, rows in options.items()}
        one = fitted_in_a_program(case, X[i], y[i], own)
        np.testing.assert_array_equal(batch.support[i], one.support)
        size = np.abs(y[i]).max()
        np.testing.assert_allclose(
            X[i] @ batch.coef[i] / size, X[i] @ one.coef / size, rtol=1e-3, atol=1e-3
        )
        np.testing.assert_allclose(batch.noise_precision[i], one.noise_precision, rtol=1e-2)


@examples(120)
@given(batches(), st.integers(0, LANES - 1), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_a_bad_dataset_leaves_its_neighbours_as_they_are(drawn, bad, value):
    case, (X, y, options) = drawn
    before = fitted_together(case, X, y, options)
    X, y = X.copy(), y.copy()
    X[bad, 3, 1] = y[bad, 7] = value
    if case.weighted:  # a row that counts for nothing may hold anything
        weights = options["sample_weights"].copy()
        weights[bad] = 1
        options = options | {"sample_weights": weights}
    after = fitted_together(case, X, y, options)
    assert after.status[bad] == bmjax.Status.NON_FINITE
    for i in set(range(LANES)) - {bad}:
        assert same_bits(lane(after, i), lane(before, i))
