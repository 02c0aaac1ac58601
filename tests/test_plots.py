"""Pictures: what is drawn is what the fit says, where it was asked to be, and errors say whose."""

import subprocess
import sys
from types import SimpleNamespace

import jax
import matplotlib
import numpy as np
import pytest
from scipy import stats

import bmjax
from tests.helpers import normal_design

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from bmjax import plots
from bmjax._drawing import labels, panels

NAMES = ["price", "_hidden", "$a$"]
X, Y = normal_design(3, 30, [1.5, 0.0, -0.8], noise=0.4)
RATES = [0.9, 0.1, 0.5]


@pytest.fixture(scope="module")
def result():
    result = bmjax.fit(X, Y, initial_inclusion=0.5, history=True)
    # Both kinds of feature, or the tests below would say little.
    assert result.support.tolist() == [True, False, True]
    return result


@pytest.fixture
def selection():
    return many(3)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def many(k, every=2):
    """A selection of k features, each second one stable."""
    stable = np.arange(k) % every == 0
    return SimpleNamespace(
        frequencies=np.where(stable, 0.9, 0.2) + np.arange(k) / (20 * k),
        standard_errors=np.linspace(0.01, 0.05, k),
        threshold=0.75,
        stable=stable,
    )


def dots(ax):
    """What was drawn with `plot` and markers alone, by its label: (x, y)."""
    return {
        line.get_label(): np.asarray(line.get_data())
        for line in ax.lines
        if line.get_linestyle() == "None"
    }


def segments(ax):
    return np.concatenate([c.get_segments() for c in ax.collections])


def named_lines(ax, names):
    lines = {line.get_label(): line for line in ax.lines}
    return [lines[name] for name in names]


def ticks(ax):
    return [tick.get_text() for tick in ax.get_yticklabels()]


def ends(ax):
    """The names at the ends of lines."""
    return {text.get_text() for text in ax.texts}


def test_coefficients(result):
    ax = plots.coefficients(result, NAMES, level=0.9)
    coef, kept = np.asarray(result.coef), np.asarray(result.support)
    y = ax.get_yticks()
    assert ticks(ax) == NAMES
    assert ax.get_ylim()[0] > y[2] > y[1] > y[0] > ax.get_ylim()[1]  # the first on top
    np.testing.assert_array_equal(dots(ax)["kept"], [coef[kept], y[kept]])
    np.testing.assert_array_equal(dots(ax)["pruned"], [[0], y[~kept]])
    freedom = 30 - kept.sum()
    half = stats.t.ppf(0.95, freedom) * np.asarray(result.standard_errors)[kept]
    found = segments(ax)
    np.testing.assert_allclose(found[:, 0, 0], coef[kept] - half, rtol=1e-12)
    np.testing.assert_allclose(found[:, 1, 0], coef[kept] + half, rtol=1e-12)
    np.testing.assert_array_equal(found[:, 0, 1], y[kept])
    assert "90 %" in ax.get_xlabel()

    panel = ax.figure.axes[-1]
    assert panel.get_ylim() == ax.get_ylim()
    rates = [bar.get_width() for bar in panel.containers[-1]]
    np.testing.assert_array_equal(rates, result.inclusion[kept])
    assert [text.get_text() for text in panel.texts] == [f"{rate:.2f}" for rate in rates]
    ax.figure.draw_without_rendering()  # names are not taken for mathematics


def test_standardized_effects_stand_between(result):
    ax = plots.coefficients(result, NAMES, standardized=True)
    first, rates, between = ax.figure.axes
    assert first is ax
    x = [a.get_position().x0 for a in (ax, between, rates)]
    assert x == sorted(x)
    bars = [bar.get_width() for bar in between.containers[-1]]
    np.testing.assert_allclose(bars, np.asarray(result.standardized)[np.asarray(result.support)])
    assert between.get_ylim() == ax.get_ylim()
    ax.figure.draw_without_rendering()


def test_names_are_those_of_the_data(result):
    named = result._replace(names=bmjax.Names(tuple(NAMES)))
    assert ticks(plots.coefficients(named)) == NAMES
    assert ticks(plots.coefficients(named, ["a", "b", "c"])) == ["a", "b", "c"]
    assert ends(plots.course(named)[0]) == set(NAMES)


def test_names_in_any_script_are_drawn_without_a_warning(result, monkeypatch):
    """In a font that has the characters, or as escapes where there is none."""
    from matplotlib import font_manager

    names = ["größe", "年龄", "дом"]
    ax = plots.coefficients(result, names)
    ax.figure.draw_without_rendering()  # warnings are errors
    assert ticks(ax)[0] == "größe"
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [])
    labels.font_with.cache_clear()
    ax = plots.coefficients(result, names)
    ax.figure.draw_without_rendering()
    assert ticks(ax) == ["größe", r"\u5e74\u9f84", "дом"]
    labels.font_with.cache_clear()


def test_coefficients_without_uncertainty(result):
    ax = plots.coefficients(result._replace(uncertainty=None))
    assert not ax.collections
    assert ax.get_xlabel() == "coefficient"
    assert ticks(ax) == ["x0", "x1", "x2"]


def test_course(result):
    axes = plots.course(result, NAMES)
    steps = int(np.sum(np.asarray(result.history.active_count) >= 0))
    assert 1 < steps < len(result.history.active_count)
    for ax, history, last in zip(
        axes,
        (result.history.weights * result.history.inclusion, result.history.inclusion),
        (result.coef, result.inclusion),
        strict=True,
    ):
        assert ax.get_xscale() == "log"
        assert ends(ax) == set(NAMES)
        for j, line in enumerate(named_lines(ax, NAMES)):
            x, y = line.get_data()
            np.testing.assert_array_equal(x, np.arange(1, steps + 1))
            np.testing.assert_array_equal(y, history[:steps, j])
            np.testing.assert_allclose(y[-1], last[j], rtol=1e-12)
    axes[0].figure.draw_without_rendering()


def test_course_of_one_step(result):
    blank = result.history.active_count.at[1:].set(-1)
    ax, _ = plots.course(result._replace(history=result.history._replace(active_count=blank)))
    assert all(line.get_marker() == "." for line in named_lines(ax, ["x0", "x1", "x2"]))
    ax.figure.draw_without_rendering()


def test_path():
    axes = plots.path(X, Y, RATES, NAMES, max_steps=40)
    rates = sorted(RATES)
    fits = [bmjax.fit(X, Y, initial_inclusion=rate, max_steps=40) for rate in rates]
    # All three end at one optimum, where the first counts, though the last comes nearest.
    bounds = np.array([fit.bound for fit in fits])
    assert np.ptp(bounds) < 0.01
    best = 0
    for ax, field in zip(axes, ("coef", "inclusion"), strict=True):
        for j, line in enumerate(named_lines(ax, NAMES)):
            x, y = line.get_data()
            np.testing.assert_array_equal(x, rates)
            np.testing.assert_array_equal(y, [getattr(fit, field)[j] for fit in fits])
        assert any(np.array_equal(line.get_xdata(), [rates[best]] * 2) for line in ax.lines)
        assert f"{rates[best]:.2g}" in ax.get_title()
    axes[0].figure.draw_without_rendering()


def test_path_marks_the_highest_bound(monkeypatch, result):
    bounds = {0.2: -3.0, 0.4: np.nan, 0.6: -1.0, 0.8: -1.001}

    def fit(X, y, *, initial_inclusion):
        return result._replace(bound=np.asarray(bounds[initial_inclusion]))

    monkeypatch.setattr(plots, "fit", fit)
    for ax in plots.path(X, Y, list(bounds)):
        assert any(list(line.get_xdata()) == [0.6, 0.6] for line in ax.lines)


def test_path_has_25_rates(monkeypatch, result):
    monkeypatch.setattr(plots, "fit", lambda X, y, *, initial_inclusion: result)
    ax, _ = plots.path(X, Y)
    x = named_lines(ax, ["x0"])[0].get_xdata()
    np.testing.assert_allclose(x[[0, -1]], [0.02, 0.99])
    np.testing.assert_allclose(np.diff(np.log(x)), np.log(0.99 / 0.02) / 24)


def test_stability(selection):
    ax = plots.stability(selection, NAMES)
    y, stable, half = ax.get_yticks(), selection.stable, 2 * selection.standard_errors
    share = selection.frequencies
    np.testing.assert_array_equal(dots(ax)["stable"], [share[stable], y[stable]])
    np.testing.assert_array_equal(dots(ax)["not stable"], [share[~stable], y[~stable]])
    found = segments(ax)
    order = np.argsort(found[:, 0, 1])
    np.testing.assert_allclose(found[order, 0, 0], share - half)
    np.testing.assert_allclose(found[order, 1, 0], share + half)
    assert any(list(line.get_xdata()) == [0.75, 0.75] for line in ax.lines)
    ax.figure.draw_without_rendering()


def test_of_many_features_only_those_kept_are_named():
    assert len(ticks(plots.stability(many(40)))) == 40
    ax = plots.stability(many(60, every=3))
    assert ticks(ax) == [f"x{j}" for j in range(0, 60, 3)]
    assert len(dots(ax)["not stable"][0]) == 40
    rows = np.sort(np.concatenate([y for _, y in dots(ax).values()]))
    np.testing.assert_array_equal(dots(ax)["stable"][1], rows[::3])


def test_names_at_the_ends_of_many_lines():
    pair = tuple(plt.subplots(1, 2)[1])
    k, kept = 60, np.arange(60) % 10 == 0
    coef = np.where(kept, 1 + np.arange(k) / k, 0)[None, :].repeat(3, axis=0)
    rates = np.where(np.arange(k) == 20, 0.5, kept)[None, :].repeat(3, axis=0)
    names = [f"x{j}" for j in range(k)]
    panels.draw_panels(pair, np.arange(1, 4), coef, rates, names, kept)
    assert ends(pair[0]) == {"x0", "x10", "x20", "x30", "x40", "x50"}
    assert ends(pair[1]) == {"x20"}


def test_spread():
    np.testing.assert_allclose(panels.spread_out(np.array([0.9, 0.1, 0.5]), 0.1), [0.9, 0.1, 0.5])
    # Two at one place move apart by as much each; at the edge all of it is the other's.
    np.testing.assert_allclose(panels.spread_out(np.array([0.5, 0.5]), 0.1), [0.45, 0.55])
    np.testing.assert_allclose(panels.spread_out(np.array([1.0, 1.0]), 0.1), [0.9, 1.0])
    rng = np.random.default_rng(0)
    for m in (1, 7, 30):
        places = panels.spread_out(rng.uniform(size=m), 0.06)
        assert np.all((places >= -1e-12) & (places <= 1 + 1e-12))
        assert np.all(np.diff(np.sort(places)) >= min(0.06, 1 / max(1, m - 1)) - 1e-12)


def test_axes_given_are_those_returned(result, selection):
    picture, axes = plt.subplots(2, 2)
    assert plots.coefficients(result, ax=axes[0, 0]) is axes[0, 0]
    assert plots.stability(selection, ax=axes[0, 1]) is axes[0, 1]
    assert plots.course(result, axes=axes[1]) == tuple(axes[1])
    pair = tuple(plt.subplots(1, 2)[1])
    assert plots.path(X, Y, RATES, axes=pair, max_steps=40) == pair
    assert len(picture.axes) == 5  # one more, for the rates
    assert len(plt.get_fignums()) == 2  # and no figure
    # Axes that are in no grid are divided all the same.
    free = plt.figure().add_axes((0.1, 0.1, 0.8, 0.8))
    assert plots.coefficients(result, ax=free) is free
    assert free.get_position().x1 < free.figure.axes[-1].get_position().x0


def test_a_long_name_is_cut(selection):
    names = ticks(plots.stability(selection, ["a", "b", "c" * 99]))
    assert names[2] == "c" * 29 + "…"


@pytest.mark.parametrize("names", [["a", "b"], "abc", ["a"] * 4])
def test_wrong_names(result, selection, names):
    for draw in (
        lambda: plots.coefficients(result, names),
        lambda: plots.course(result, names),
        lambda: plots.path(X, Y, names=names),
        lambda: plots.stability(selection, names),
    ):
        with pytest.raises(ValueError, match=r"^names .* 3 (names|features)"):
            draw()
    assert not plt.get_fignums()


@pytest.mark.parametrize("level", [0, 1, 1.0, 0.0, -0.5, 95, float("nan"), "0.95", True, None])
def test_wrong_level(result, level):
    with pytest.raises((TypeError, ValueError), match=r"^level is .*between 0 and 1"):
        plots.coefficients(result, level=level)


def test_a_batch_is_refused(result, selection):
    batch = jax.tree.map(lambda leaf: leaf[None], result)
    for draw in (plots.coefficients, plots.course):
        with pytest.raises(ValueError, match=r"^result is a batch.*jax\.tree\.map"):
            draw(batch)
    selection.frequencies = selection.frequencies[None]
    with pytest.raises(ValueError, match=r"^selection is a batch.*jax\.tree\.map"):
        plots.stability(selection)


def test_course_needs_a_history(result):
    with pytest.raises(ValueError, match="history=True"):
        plots.course(result._replace(history=None))
    never = result.history._replace(active_count=result.history.active_count.at[:].set(-1))
    with pytest.raises(ValueError, match="max_steps"):
        plots.course(result._replace(history=never))


def test_two_axes_are_needed(result):
    _, ax = plt.subplots()
    for axes in (ax, [ax], [ax] * 3):
        with pytest.raises(ValueError, match=r"^axes has"):
            plots.course(result, axes=axes)
        with pytest.raises(ValueError, match=r"^axes has"):
            plots.path(X, Y, axes=axes)


@pytest.mark.parametrize("rates", [0.5, [0.5], [0, 0.5], [0.5, 1.1], [0.5, np.nan]])
def test_wrong_rates(rates):
    with pytest.raises(ValueError, match=r"^rates must be"):
        plots.path(X, Y, rates)


def test_a_path_varies_the_initial_rate_itself():
    with pytest.raises(ValueError, match=r"initial_inclusion .* rates"):
        plots.path(X, Y, initial_inclusion=0.5)


def test_without_matplotlib():
    code = """
import sys
import bmjax
assert not any(name.partition(".")[0] == "matplotlib" for name in sys.modules)
sys.modules["matplotlib"] = None
try:
    import bmjax.plots
except ModuleNotFoundError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "bmjax[plot]"' in run.stdout
