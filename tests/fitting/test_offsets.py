"""Columns and targets far from zero: right to the digits that their type has, or refused in words.

The oracles are the fit near zero, and least squares on the kept columns, centred in long double, of
the numbers as given.
"""

import warnings

import jax
import numpy as np
import pytest

import bmjax

EPS = np.finfo(np.float32).eps
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 5))
Y = 2 * X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=60)


@pytest.fixture(scope="module")
def near():
    fit = bmjax.fit(X, Y, intercept=True)
    np.testing.assert_allclose(fit.coef[:2], least_squares(X, Y)[0], atol=0.03)  # two errors
    return np.asarray(fit.coef)


def least_squares(A, b):
    """Effects of the first two columns, and fitted values, without their level, and that level."""
    A, b = np.asarray(A, np.longdouble), np.asarray(b, np.longdouble)
    A, level = A[:, :2] - A[:, :2].mean(axis=0), b.mean()
    A = A.astype(float)
    coef = np.linalg.lstsq(A, (b - level).astype(float), rcond=None)[0]
    return coef, A @ coef, level


def given(place, exponent, kind):
    """The data with an offset in one place or in both, in the type that they are given in."""
    far = 10.0**exponent
    return (X + far * ("X" in place)).astype(kind), (Y + far * ("y" in place)).astype(kind)


def varies(values):
    """How many roundings a column or target in float32 varies by."""
    return np.ptp(np.asarray(values, float), axis=0).max() / (EPS * np.abs(values).max())


def unless_refused(call):
    """A result in float64, or None where it is refused with the remedy."""
    try:
        return np.asarray(call(), np.longdouble)
    except ValueError as error:
        said = str(error)
    assert "too far from zero for float32" in said
    assert "jax_enable_x64" in said
    return None


@pytest.mark.parametrize("exponent", range(13))
@pytest.mark.parametrize("place", ["X", "y", "X and y"])
@pytest.mark.parametrize("x64", [False, True], ids=["32 bits", "64 bits"])
def test_numbers_that_come_in_float64(near, place, exponent, x64):
    A, b = given(place, exponent, np.float64)
    with jax.enable_x64(x64):
        r = bmjax.fit(A, b, intercept=True)
        predicted = unless_refused(lambda: r.predict(A))
        left = unless_refused(lambda: r.residuals(A, b))
    _, fitted, level = least_squares(A, b)
    assert r.support.tolist() == [True, True, False, False, False]
    np.testing.assert_allclose(r.coef, near, atol=2e-3)  # numbers of 1e12 are rounded by 1e-4
    noise, size = np.std(b - level - fitted), np.abs(b).max()
    np.testing.assert_allclose(1 / np.sqrt(r.noise_precision), noise, rtol=0.2)
    if x64 or exponent < 5:
        assert predicted is not None
        assert left is not None
    if predicted is not None:
        off = np.abs(predicted - level - fitted).max()
        assert off < max(noise, 1e-3 * size)
        if "X" in place and "y" not in place:
            assert off < noise
    if left is not None:
        assert np.abs(left - (b - level - fitted)).max() < max(noise, 0.1 * np.ptp(b))


@pytest.mark.parametrize("exponent", range(13))
@pytest.mark.parametrize("place", ["X", "y", "X and y"])
def test_numbers_that_come_in_float32(near, place, exponent):
    A, b = given(place, exponent, np.float32)
    with jax.enable_x64(False), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        r = bmjax.fit(A, b, intercept=True)
    said = [str(one.message) for one in said]
    # Sixteen roundings either side of the mean, and none where all entries are the same.
    lost = {"X": 0 < varies(A) < 20, "y": 0 < varies(b) < 20}
    for name, is_lost in lost.items():
        assert is_lost == any(text.startswith(name) and "float64" in text for text in said)
    if exponent < 7:
        assert not said
        assert r.support.tolist() == [True, True, False, False, False]
        np.testing.assert_allclose(r.coef, near, atol=0.1 if exponent == 6 else 5e-3)
    else:
        assert not r.support.any()


def test_what_is_constant_in_float64_is_nothing_to_speak_of():
    """Shares that add up to one, say: filterwarnings makes a warning an error here."""
    ones = 1 + 1e-15 * (np.arange(60) % 3)
    r = bmjax.fit(np.column_stack([X, ones]), Y, intercept=True)
    assert r.support.tolist() == [True, True, *[False] * 4]
