"""What is made of a fit: the refit, the summary, stability selection and the bootstrap."""

import itertools
import json
import pickle
import sys
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bmjax
from bmjax._fitting.stability import _unimodal_bound
from tests.helpers import normal_design, plain_fit, plain_fit_batch, same_bits, uniform_design

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
    head = "feature, coef, std. error, refit, standardized, inclusion, kept"
    assert lines[0].split() == head.replace(",", "").split()
    assert lines[2].split()[0] == "dose"
    assert float(lines[2].split()[1]) == pytest.approx(float(result.coef[0]), rel=1e-4)
    assert float(lines[2].split()[2]) == pytest.approx(float(result.standard_errors[0]), rel=1e-3)
    assert "CONVERGED" in text
    assert f"{float(result.intercept):.5g}" in text
    assert "correlated by 0.9 or more" in text
    assert {"year", "copy"} <= set(text.split("Note: ")[1].replace(",", "").split())
    assert "dose" not in text.split("Note: ")[1]


def test_what_the_summary_adds_equals_the_textbook(data):
    """The refit, standardised effects, intervals and R squared, without another look at the data.

    Also where rows count more than once, without an intercept, and from a stream.
    """
    X, y = data
    counts = np.random.default_rng(1).integers(0, 3, 80)
    rows, target = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    for intercept in (True, False):
        fits = [
            plain_fit(X, y, intercept=intercept, sample_weights=counts),
            bmjax.fit_stream((rows, target), intercept=intercept, initial_inclusion=0.5),
        ]
        for r in fits:
            want = r.refit(rows, target)
            kept = np.asarray(r.support)
            around = target.mean() if intercept else 0.0
            left = np.sum(np.square(target - np.asarray(r.predict(rows), float)))
            explained = 1 - left / np.sum((target - around) ** 2)
            size = rows.std(axis=0) if intercept else np.sqrt(np.mean(rows**2, axis=0))
            of_y = np.sqrt(np.mean((target - around) ** 2))
            table = r.to_pandas()
            np.testing.assert_allclose(table["refit"], want.coef, rtol=1e-4)
            np.testing.assert_allclose(
                table["standardized"], np.asarray(r.coef) * size / of_y, rtol=1e-5
            )
            assert float(r.r_squared) == pytest.approx(explained, abs=1e-5)
            freedom = len(target) - kept.sum() - intercept
            half = stats.t.ppf(0.95, freedom) * np.asarray(r.standard_errors)
            ends = np.stack([r.coef - half, r.coef + half], axis=1)
            np.testing.assert_allclose(r.conf_int(0.9), ends, rtol=1e-5)
            if intercept:
                assert float(r.intercept_standard_error) == pytest.approx(
                    want.intercept_standard_error, rel=0.02
                )
            else:
                assert np.isnan(r.intercept_standard_error)
    known = plain_fit(X, y, noise_precision=1.0)
    half = stats.norm.ppf(0.975) * np.asarray(known.standard_errors)
    np.testing.assert_allclose(known.conf_int()[:, 1], known.coef + half, rtol=1e-5)


def test_residuals_are_what_the_prediction_leaves(data, result):
    X, y = data
    np.testing.assert_allclose(result.residuals(X, y), y - result.predict(X), atol=1e-6)
    with pytest.raises(ValueError, match=r"y has shape \(5,\), wanted \(80,\)"):
        result.residuals(X, y[:5])


def test_the_criteria_of_a_refit_are_those_of_the_normal_density(data, result):
    X, y = data
    got = result.refit(X, y)
    left = y - got.intercept - X @ got.coef
    density = stats.norm.logpdf(left, scale=np.sqrt(np.mean(left**2))).sum()
    parameters = np.sum(got.coef != 0) + 2
    assert got.aic == pytest.approx(2 * parameters - 2 * density)
    assert got.bic == pytest.approx(np.log(80) * parameters - 2 * density)
    assert got.r_squared == pytest.approx(1 - np.sum(left**2) / np.sum((y - y.mean()) ** 2))
    table = got.to_pandas(["dose", "age", "year", "copy"])
    assert list(table.columns) == ["coef", "standard_error", "t", "p_value", "lower", "upper"]
    np.testing.assert_allclose(table[["lower", "upper"]], got.conf_int())
    text = str(got.summary(["dose", "age", "year", "copy"]))
    assert "dose" in text
    assert f"{got.aic:.6g}, {got.bic:.6g}" in text
    with pytest.raises(ValueError, match="level is 2"):
        got.conf_int(2)


def test_masks_that_move_other_effects_are_said(data):
    """A feature that acts in some rows only takes rows with it; the note names who is moved."""
    from bmjax._results.notes import masked_rows_notes, zero_notes

    kept, errors = np.array([True, True, False]), np.array([0.1, 0.1, np.nan])
    one, other = np.array([1.0, 2.0, 0.0]), np.array([1.2, 2.0, 0.0])
    says = masked_rows_notes("abc", kept, one, other, errors, np.array([1, 0.5, 0]))
    assert len(says) == 1
    assert says[0].startswith("a (inclusion 1)")
    assert "masks of b" in says[0]
    assert not masked_rows_notes("abc", kept, one, other, errors, np.array([1, 1, 0]))
    assert not masked_rows_notes("abc", kept, one, one + 0.05, errors, np.array([1, 0.5, 0]))
    ends = np.array([[-1.0, 1.0], [1.0, 2.0], [np.nan, np.nan]])
    assert zero_notes("abc", ends)[0].startswith("The 95 % interval of a covers zero")
    assert zero_notes("abc", ends[1:]) == ()


def test_where_all_inclusions_are_one_effects_are_least_squares(data):
    X, y = data
    r = plain_fit(X[:, :3], y, intercept=True, unmasked=[0, 1, 2], tolerance=1e-9)
    np.testing.assert_allclose(r.coef, r.refit(X[:, :3], y).coef, rtol=1e-5)
    np.testing.assert_allclose(r.coef, r.uncertainty.least_squares, rtol=1e-5)


def test_a_feature_of_some_rows_moves_the_effects_of_others_and_for_the_better():
    """The second acts in half of the rows, which least squares takes for noise."""
    errors = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, on = rng.normal(size=(200, 5)), rng.uniform(size=200) < 0.5
        y = 2 * X[:, 0] + 3 * X[:, 1] * on + 0.5 * rng.normal(size=200)
        r = bmjax.fit(X, y, intercept=True)
        assert float(r.inclusion[1]) < 0.7 < 0.99 < float(r.inclusion[0])
        errors.append([float(r.coef[0]) - 2, float(r.uncertainty.least_squares[0]) - 2])
        apart = abs(errors[-1][0] - errors[-1][1]) > float(r.standard_errors[0])
        assert apart == ("x0 (inclusion 1)" in str(r.summary()))
    ours, theirs = np.sqrt(np.mean(np.square(errors), axis=0))
    assert ours < theirs / 3


def test_names_of_a_frame_stay_with_the_result(data, result):
    X, y = data
    columns = ["dose", "age", "year", "copy"]
    frame, series = pd.DataFrame(X, columns=columns), pd.Series(y, name="score")
    r = plain_fit(frame, series, intercept=True)
    assert same_bits(r, result)
    assert jax.tree.structure(r) != jax.tree.structure(result)
    assert result.names is None
    for one in (r, jax.jit(lambda r: r)(r), pickle.loads(pickle.dumps(r))):
        assert one.names == bmjax.Names(tuple(columns), "score")
        assert list(one.to_pandas().index) == columns
    text = str(r.summary())
    assert "score" in text
    assert "dose" in text
    assert "x0" not in text
    assert "dose" in str(r.refit(frame, series).summary())
    # Columns are looked up by name, in whatever order and company they come.
    other = frame.assign(more=0.0)[["more", *columns[::-1]]]
    np.testing.assert_array_equal(r.predict(other), r.predict(X))
    np.testing.assert_allclose(r.refit(other, y).coef, r.refit(X, y).coef)
    with pytest.raises(ValueError, match="X has no column 'age'"):
        r.predict(frame.rename(columns={"age": "Age"}))
    by_name = plain_fit(frame, series, intercept=True, unmasked=["age"])
    assert same_bits(by_name, plain_fit(X, y, intercept=True, unmasked=[1]))
    with pytest.raises(ValueError, match=r"'agee', of which X has no column. Did you mean 'age'"):
        plain_fit(frame, series, unmasked=["agee"])
    with pytest.raises(ValueError, match="no column names"):
        plain_fit(X, y, unmasked=["age"])
    # Columns that are only numbered are no names.
    assert plain_fit(pd.DataFrame(X), y, intercept=True).names is None
    batch = bmjax.fit_batch(frame, np.stack([y, y]), initial_inclusion=0.5, unmasked="age")
    assert batch.names.features == tuple(columns)
    assert batch.support[:, 1].all()
    halves = bmjax.stability_selection(frame, y, KEY, 2, initial_inclusion=0.5, unmasked=["age"])
    assert halves.names.features == tuple(columns)
    assert halves.frequencies[1] == 1
    stable = int(halves.stable.sum())
    assert f"{stable} of 4 features kept by 75% or more of 2 fits" in repr(halves)


def test_names_of_polars(data, result):
    polars = pytest.importorskip("polars")
    X, y = data
    frame = polars.DataFrame(X, schema=["dose", "age", "year", "copy"])
    r = plain_fit(frame, polars.Series("score", y), intercept=True)
    assert r.names == bmjax.Names(("dose", "age", "year", "copy"), "score")
    np.testing.assert_array_equal(r.predict(frame[:, ::-1]), result.predict(X))


def test_a_batch_is_a_sequence_of_fits(data):
    X, y = data
    batch = plain_fit_batch(X, np.stack([y, 2 * y, 3 * y]), uncertainty=True)
    assert len(batch) == 3
    assert batch.lane_steps.useful == batch.num_steps.sum()
    assert not any(isinstance(leaf, int) for leaf in jax.tree.leaves(batch))
    for i, one in enumerate(batch):
        assert same_bits(one, jax.tree.map(lambda leaf: leaf[i], batch))  # noqa: B023
        assert str(one.summary()) == str(batch[i].summary())
    np.testing.assert_array_equal(batch[1:].coef, batch.coef[1:])
    np.testing.assert_array_equal(batch[::-1].coef, batch.coef[::-1])
    np.testing.assert_array_equal(batch[batch.bound > batch.bound[1]].status.shape, (1,))
    assert same_bits(batch[-1], batch[[2]][0])
    for bad in (3, -4):
        with pytest.raises(IndexError):
            batch[bad]
    for call in (len, iter, lambda r: r[0]):
        with pytest.raises(TypeError, match="one fit and no batch"):
            list(call(batch[0])) if call is iter else call(batch[0])
    assert batch
    assert batch[0]
    assert "3 fits of 4 features" in repr(batch)
    assert jax.jit(lambda b: b[1].coef)(batch).shape == (4,)


def test_a_result_is_shown_in_a_line_and_as_a_table_in_notebooks(data, result):
    X, y = data
    kept = int(np.sum(result.support))
    assert repr(result) == f"<bmjax.Result: {kept} of 4 features kept, CONVERGED>"
    seen = []
    jax.eval_shape(lambda r: seen.append(repr(r)), result)
    assert seen == ["<bmjax.Result, traced>"]
    frame = pd.DataFrame(X, columns=["<b>", "age", "year", "copy"])
    fit = plain_fit(frame, y, intercept=True)
    refit = fit.refit(frame, y)
    assert refit._repr_html_() == refit.summary()._repr_html_()
    page = fit._repr_html_()
    for one in (page, refit._repr_html_()):
        ElementTree.fromstring(one)  # well formed, and names are no markup
    assert "&lt;b&gt;" in page
    assert f"{float(result.coef[0]):.5g}" in page
    assert plain_fit_batch(X[None], y[None])._repr_html_() is None


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
    from bmjax._results.notes import collinearity_notes

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


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_a_saved_fit_comes_back_to_the_bit(data, result, ending, tmp_path):
    X, y = data
    place = tmp_path / f"fit{ending}"
    course = bmjax.History(*(jnp.asarray([[0.1, np.nan]]),) * 5)
    batch = plain_fit_batch(X, np.stack([y, 2 * y, 3 * y]), uncertainty=True)
    halved = jax.tree.map(
        lambda leaf: leaf.astype(np.float32) if leaf.dtype == float else leaf, result
    )
    for r in (
        result,
        halved,
        result._replace(names=bmjax.Names(("a", "größe", "c", "d"), "y"), history=course),
        batch._replace(uncertainty=None),
    ):
        r.save(place)
        back = bmjax.load(place)
        assert same_bits(r, back)
        assert jax.tree.structure(r) == jax.tree.structure(back)
        assert (back.names, back.lane_steps) == (r.names, r.lane_steps)
        assert back.coef.dtype == r.coef.dtype
    # Without pickle, and JSON as any program reads it.
    if ending == ".json":
        content = json.loads(place.read_text(), parse_constant=pytest.fail)
        assert (content["format"], content["version"]) == ("bmjax fit", 1)
        newer = place.read_text().replace('"version": 1', '"version": 3')
        place.write_text(newer)
        with pytest.raises(ValueError, match=r"version 3 of the format.*update bmjax"):
            bmjax.load(place)
    else:
        place.write_bytes(place.read_bytes()[:300])
        with pytest.raises(ValueError, match=r"fit.npz is not a saved fit, or it is damaged"):
            bmjax.load(place)


def test_files_that_are_no_fit_are_refused(result, tmp_path):
    place = tmp_path / "fit.json"
    for content, words in (
        ("{}", "is not a saved fit.*write one"),
        ("[1]", "is not a saved fit"),
        ("a,b\n1,2\n", "is not a saved fit"),
        ('{"format": "x", "version": 1, "names": null, "fit": {}}', "is not a saved fit of bmjax"),
        ('{"format": "bmjax fit", "version": 1, "names": null, "fit": {}}', "is damaged"),
    ):
        place.write_text(content)
        with pytest.raises(ValueError, match=words):
            bmjax.load(place)
    with pytest.raises(FileNotFoundError):
        bmjax.load(tmp_path / "none.json")
    with pytest.raises(ValueError, match=r"must end in .json or .npz"):
        result.save(tmp_path / "fit.pickle")
    with pytest.raises(TypeError, match="result is int"):
        bmjax.save(3, place)
