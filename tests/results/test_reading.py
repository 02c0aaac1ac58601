"""What is made of a fit: the refit, the summary, stability selection and the bootstrap."""

import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bmjax
from bmjax._fitting.resampling import _unimodal_bound
from tests.helpers import normal_design, plain_fit, plain_fit_batch, uniform_design

KEY = jax.random.key(3)


@pytest.fixture(scope="module")
def data():
    X, y = normal_design(0, 80, [2.0, 0.0, -1.0, 0.0])
    X[:, 3] = X[:, 2] + 0.05 * X[:, 3]  # stands in for the one before
    return X, y + 3


@pytest.fixture(scope="module")
def result(data):
    return plain_fit(*data, intercept=True)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_refit_is_the_textbook_least_squares(data, intercept):
    X, y = data
    weights = np.random.default_rng(0).integers(0, 3, 80)
    r = plain_fit(X, y, intercept=intercept)
    got = r.refit(X, y, weights)
    kept = np.flatnonzero(r.support)
    A = X[:, kept]
    if intercept:
        A = np.column_stack([A, np.ones(80)])
    A, b = np.repeat(A, weights, axis=0), np.repeat(y, weights)
    want = np.linalg.lstsq(A, b)[0]
    freedom = len(b) - A.shape[1]
    variance = np.sum((b - A @ want) ** 2) / freedom
    errors = np.sqrt(variance * np.diag(np.linalg.inv(A.T @ A)))
    np.testing.assert_allclose(got.coef[kept], want[: len(kept)], rtol=1e-8)
    np.testing.assert_allclose(got.standard_errors[kept], errors[: len(kept)], rtol=1e-8)
    np.testing.assert_allclose(got.noise_variance, variance, rtol=1e-10)
    assert got.degrees_of_freedom == freedom
    p = 2 * stats.t.sf(np.abs(want / errors), freedom)
    np.testing.assert_allclose(got.p_values[kept], p[: len(kept)], rtol=1e-6)
    if intercept:
        np.testing.assert_allclose(got.intercept, want[-1], rtol=1e-8)
        np.testing.assert_allclose(got.intercept_standard_error, errors[-1], rtol=1e-8)
    else:
        assert got.intercept == 0
    assert np.isnan(got.p_values[~np.asarray(r.support)]).all()
    assert "chosen from the same data" in got.note


def test_a_refit_on_ill_conditioned_years():
    """Longley's trouble: columns far from zero, in float64 by a singular value decomposition."""
    rng = np.random.default_rng(0)
    X = np.column_stack([1950 + np.arange(16.0), 1e6 + 1e4 * np.arange(16.0)])
    X[:, 1] += 10 * rng.normal(size=16)
    y = X @ [3.0, 1e-3] + rng.normal(size=16)
    r = bmjax.fit(X, y, intercept=True, unmasked=[0, 1], initial_inclusion=0.5)
    got = r.refit(X, y)
    # The oracle in exact arithmetic, as far as a centred and scaled system needs it.
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    want = np.linalg.lstsq(Z, y - y.mean())[0] / X.std(axis=0)
    np.testing.assert_allclose(got.coef, want, rtol=1e-7)


def test_a_refit_without_features_is_the_mean():
    X, y = normal_design(0, 40, [0.0, 0.0])
    r = bmjax.fit(X, y + 5, intercept=True, starts=[[0.0, 0.0]], moves=0)
    got = r.refit(X, y + 5)
    assert got.intercept == pytest.approx(np.mean(y) + 5)
    assert got.noise_variance == pytest.approx(np.var(y, ddof=1))


def test_the_summary_says_what_the_fit_found(result):
    text = str(result.summary(["dose", "age", "year", "copy"]))
    lines = text.splitlines()
    assert lines[0].split() == ["feature", "coef", "std.", "error", "inclusion", "kept"]
    assert lines[2].split()[0] == "dose"
    assert float(lines[2].split()[1]) == pytest.approx(float(result.coef[0]), rel=1e-4)
    assert float(lines[2].split()[2]) == pytest.approx(float(result.standard_errors[0]), rel=1e-3)
    assert "CONVERGED" in text
    assert f"{float(result.intercept):.5g}" in text
    assert "correlated by 0.9 or more" in text
    assert {"year", "copy"} <= set(text.split("Note: ")[1].replace(",", "").split())
    assert "dose" not in text.split("Note: ")[1]


def test_the_table_is_the_result(result):
    table = result.to_pandas()
    assert list(table.index) == ["x0", "x1", "x2", "x3"]
    np.testing.assert_array_equal(table["coef"], result.coef)
    np.testing.assert_array_equal(table["standard_error"], result.standard_errors)
    np.testing.assert_array_equal(table["kept"], result.support)
    assert isinstance(table, pd.DataFrame)
    assert "standard_error" not in result._replace(uncertainty=None).to_pandas()


@pytest.mark.parametrize("x64", [False, True])
def test_of_a_pruned_effect_no_standard_error_is_known(data, x64):
    X, y = data
    with jax.enable_x64(x64):
        r = plain_fit(X, y, intercept=True)
        batch = plain_fit_batch(X[None], y[None], intercept=True, uncertainty=True)
        kept = np.asarray(r.support)
        assert kept.any()
        assert not kept.all()
        for errors in (
            r.standard_errors,
            r.uncertainty.standard_errors_given_masks,
            batch.standard_errors[0],
            jax.jit(lambda r: r.standard_errors)(r),
            r.to_pandas()["standard_error"],
        ):
            np.testing.assert_array_equal(np.isnan(errors), ~kept)
            assert np.all(np.asarray(errors)[kept] > 0)
        assert np.isfinite(r.predict(X[:2], return_std=True)[1]).all()
        with jax.debug_nans(True):  # this NaN is meant
            assert np.isnan(r.standard_errors).any()
    assert "nan" not in str(r.summary())


@pytest.mark.parametrize("x64", [False, True])
def test_a_missed_intercept_is_named(data, x64):
    """By the t statistic of the textbook; also where columns stand in for the level of y."""
    X, y = data
    for moved in (X, X + np.array([10.0, 0.0, 20.0, 20.0])):
        target = X @ [2.0, 0.0, -1.0, 0.0] + y + 20
        with jax.enable_x64(x64):
            r = plain_fit(moved, target)
            (note,) = [n for n in r.summary().notes if "intercept" in n]
            (other,) = [
                n
                for n in jax.tree.map(
                    lambda leaf: leaf[0],
                    plain_fit_batch(moved[None], target[None], uncertainty=True)._replace(
                        lane_steps=None
                    ),
                )
                .summary()
                .notes
                if "intercept" in n
            ]
        assert "intercept" in str(r.summary()).split("Note: ")[1]
        A = np.column_stack([moved[:, np.asarray(r.support)], np.ones(80)])
        want, square = np.linalg.lstsq(A, target)[:2]
        error = np.sqrt(square[0] / (80 - A.shape[1]) * np.linalg.inv(A.T @ A)[-1, -1])
        level, _, spread = note.split("level: ")[1].split(" by ")[0].split()
        assert float(level) == pytest.approx(want[-1], rel=2e-3)
        assert float(spread) == pytest.approx(error, rel=0.06)
        assert other.startswith(note[:40])


def test_no_intercept_is_missed_where_there_is_none_to_miss(data):
    X, y = data
    centred = X - X.mean(axis=0)
    assert "intercept" not in " ".join(plain_fit(X, y, intercept=True).summary().notes)
    for columns, target in (
        (centred, y - y.mean()),
        (centred, 0 * y),
        (X + 10, (X + 10) @ [2.0, 0.0, -1.0, 0.0]),  # an exact fit
    ):
        assert "intercept" not in " ".join(plain_fit(columns, target).summary().notes)
    # The design of the paper: no column has mean zero, and y none either, nor an intercept.
    levels = []
    for seed in range(8):
        X, y, _ = uniform_design(seed, 4, n=80)
        levels.append(y.mean() / y.std())
        assert not [n for n in plain_fit(X, y).summary().notes if "intercept" in n]
    assert np.mean(levels) > 0.5
    X[:, 1] = 3.0  # kept, it is the intercept
    r = plain_fit(X, y + 40, unmasked=[1])
    assert not [n for n in r.summary().notes if "intercept" in n]


def test_the_summary_of_a_fit_that_came_to_nothing_prints(data, result):
    X, y = data
    hole = np.where(np.arange(80)[:, None] == 3, np.nan, X)
    failed = jax.tree.map(
        lambda leaf: leaf[0],
        plain_fit_batch(hole[None], y[None], uncertainty=True)._replace(lane_steps=None),
    )
    assert failed.status == bmjax.Status.NON_FINITE
    for precision in (failed.noise_precision, jnp.asarray(0.0), jnp.asarray(jnp.inf)):
        for status in bmjax.Status:
            one = failed._replace(noise_precision=precision, status=jnp.asarray(int(status)))
            assert status.name in str(one.summary())
            assert status.name in str(result._replace(status=jnp.asarray(int(status))).summary())


def test_a_summary_tells_of_a_fit_that_was_cut_short(data):
    r = bmjax.fit(*data, max_steps=9)
    assert r.num_steps <= 9
    assert "MAX_STEPS: Stopped at max_steps" in str(r.summary())


@pytest.mark.parametrize("max_steps", [0, 3, 10, 40])
def test_max_steps_holds_for_all_starts_and_moves_together(data, max_steps):
    r = bmjax.fit(*data, max_steps=max_steps, tolerance=1e-9)
    assert int(r.num_steps) <= max_steps
    assert r.status == bmjax.Status.MAX_STEPS
    assert np.isfinite(r.coef).all()


def test_stability_frequencies_are_those_of_fits_to_the_halves(data):
    X, y = data
    got = bmjax.stability_selection(X, y, KEY, 6, initial_inclusion=0.5)
    supports = got.supports
    assert supports.shape == (6, 4)
    np.testing.assert_allclose(got.frequencies, supports.mean(axis=0), rtol=1e-12)
    by_pair = supports.reshape(3, 2, 4).mean(axis=1)
    errors = by_pair.std(axis=0, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(got.standard_errors, errors, rtol=1e-12)
    np.testing.assert_array_equal(got.stable, supports.mean(axis=0) >= 0.75)
    q = supports.sum(axis=1).mean()
    assert got.average_size == pytest.approx(q)
    assert got.expected_false == pytest.approx(q**2 / (0.5 * 4))
    again = bmjax.stability_selection(X, y, KEY, 2, initial_inclusion=0.5)
    np.testing.assert_array_equal(again.supports, supports[:2])  # whatever the number of fits


def test_halves_are_complementary_and_rows_come_from_weights(data, monkeypatch):
    seen = []

    def spy(X, y, sample_weights, **options):
        seen.append(sample_weights)
        return plain_fit_batch(X, y, sample_weights=sample_weights, max_steps=3)

    monkeypatch.setattr("bmjax._fitting.resampling.fit_batch", spy)
    X, y = data
    bmjax.stability_selection(X[:79], y[:79], KEY, 4)
    first, second = seen[0][0], seen[0][1]
    assert first.sum() == second.sum() == 39
    assert (first + second).max() == 1
    assert not np.array_equal(seen[0][0], seen[0][2])
    bmjax.bootstrap(X, y, KEY, 3)
    np.testing.assert_array_equal(seen[1].sum(axis=1), 80)
    assert seen[1].max() > 1


def test_bounds_on_false_selections():
    """Against Monte Carlo where the bound is proven: frequencies of independent idle features."""
    assert np.isnan(_unimodal_bound(6.0, 10, 0.9, 50))  # theta above 1 / sqrt(3)
    assert np.isnan(_unimodal_bound(2.0, 100, 0.501, 50))
    # By hand from Shah and Samworth (2013), theorem 2 with theta = 0.02, q = 2, B = 50.
    assert _unimodal_bound(2.0, 100, 0.7, 50) == pytest.approx(0.02 * 2 / (2 * (0.4 - 0.01)))
    assert _unimodal_bound(2.0, 100, 0.9, 50) == pytest.approx(0.04 * 4 * 0.11 / 1.02)
    rng = np.random.default_rng(0)
    k, rate, pairs = 100, 0.1, 50
    frequencies = rng.binomial(2 * pairs, rate, size=(2000, k)) / (2 * pairs)
    for threshold in (0.6, 0.75, 0.9):
        false = (frequencies >= threshold).sum(axis=1).mean()
        assert false <= _unimodal_bound(rate * k, k, threshold, pairs)


def test_the_bootstrap_is_fits_to_repeated_rows(data):
    X, y = data
    got = bmjax.bootstrap(X, y, KEY, 5, level=0.8, initial_inclusion=0.5, intercept=True)
    assert got.coef.shape == (5, 4)
    np.testing.assert_allclose(got.lower, np.quantile(got.coef, 0.1, axis=0))
    np.testing.assert_allclose(got.upper, np.quantile(got.coef, 0.9, axis=0))
    np.testing.assert_allclose(got.standard_errors, got.coef.std(axis=0))
    assert got.intercept_lower == pytest.approx(np.quantile(got.intercept, 0.1))
    np.testing.assert_allclose(got.frequencies, (got.coef != 0).mean(axis=0))


def test_a_longer_run_of_resamples_is_cut_into_chunks(data, monkeypatch):
    monkeypatch.setattr("bmjax._fitting.resampling._CHUNK", 4)
    X, y = data
    options = dict(initial_inclusion=0.5, max_steps=30, progress=False)
    cut = bmjax.bootstrap(X, y, KEY, 6, **options)
    monkeypatch.undo()
    whole = bmjax.bootstrap(X, y, KEY, 6, **options)
    np.testing.assert_allclose(cut.coef, whole.coef, rtol=1e-9)


def test_collinear_groups_are_named_once():
    from bmjax._results.summary import collinearity_notes

    names = list("abcdef")
    correlation = np.eye(6)
    for i, j in itertools.pairwise(range(3)):  # a - b - c, the ends not correlated
        correlation[i, j] = correlation[j, i] = -0.95
    correlation[3, 4] = correlation[4, 3] = 0.99  # both pruned: nothing to say
    kept = np.array([True, False, True, False, False, True])
    slots = np.array([0, 2, 5, 6])  # the last one is empty
    rows = np.concatenate([correlation[slots[:3]], np.zeros((1, 6))])
    notes = collinearity_notes(names, kept, slots, rows)
    assert len(notes) == 1
    assert notes[0].startswith("a, c (kept) and b (pruned) are correlated by 0.9 or more")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r, X, y: r.refit(X[:, :2], y), ValueError, "X has 2 columns but the fit has 4"),
        (lambda r, X, y: r.refit(X, y[:5]), ValueError, "y has 5 entries but X has 80 rows"),
        (lambda r, X, y: r.refit(X * np.nan, y), ValueError, "X holds NaN"),
        (lambda r, X, y: r.summary(["a"]), ValueError, "names has 1 entries but the fit has 4"),
        (
            lambda r, X, y: jax.tree.map(lambda leaf: leaf[None], r).summary(),
            ValueError,
            r"summary is of one fit, this is a batch of shape \(1,\)",
        ),
        (
            lambda r, X, y: bmjax.stability_selection(X, y, KEY, 5),
            ValueError,
            "resamples is 5; halves come in pairs",
        ),
        (
            lambda r, X, y: bmjax.stability_selection(X, y, KEY, threshold=0.5),
            ValueError,
            "threshold is 0.5; it must be above 0.5",
        ),
        (
            lambda r, X, y: bmjax.stability_selection(X[:3], y[:3], KEY),
            ValueError,
            "X has 3 rows; half of them must be at least 2",
        ),
        (
            lambda r, X, y: bmjax.bootstrap(X, y, KEY, sample_weights=np.ones(80)),
            TypeError,
            "sample_weights cannot be given",
        ),
        (lambda r, X, y: bmjax.bootstrap(X, y, KEY, level=1.5), ValueError, "level is 1.5"),
        (lambda r, X, y: bmjax.bootstrap(X, y, KEY, 0), ValueError, "resamples is 0"),
    ],
)
def test_refused_with_a_message(call, error, message, data, result):
    with pytest.raises(error, match=message):
        call(result, *data)


def test_bad_fits_of_a_batch_are_named(data):
    X, y = data
    ys = np.stack([y] * 13)
    ys[[2, 12], 5] = np.nan
    batch = plain_fit_batch(X, ys)
    with pytest.raises(RuntimeError, match=r"NON_FINITE \(fit 2, 12\): The fit met NaN"):
        batch.raise_for_status()
    jax.tree.map(lambda leaf: leaf[0], batch._replace(lane_steps=None)).raise_for_status()
    with pytest.raises(RuntimeError, match=r"^MAX_STEPS \(fit 0, 1, 2, .* and 3 more\): Stopped"):
        plain_fit_batch(X, np.stack([y] * 13), max_steps=3).raise_for_status()
    with pytest.raises(RuntimeError, match=r"^MAX_STEPS: Stopped"):
        plain_fit(X, y, max_steps=3).raise_for_status()


def test_pandas_is_needed_for_its_table_alone(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert str(result.summary())
    with pytest.raises(ModuleNotFoundError):
        result.to_pandas()


def test_float32_stays(data):
    X, y = (jnp.asarray(a, jnp.float32) for a in data)
    got = bmjax.bootstrap(X, y, KEY, 2, initial_inclusion=0.5, max_steps=30)
    assert got.coef.dtype == np.float32
