"""The posterior in pictures, on the command line and as a scikit-learn estimator."""

import json

import matplotlib
import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bmjax
from bmjax.__main__ import main
from bmjax.sklearn import SupportPosteriorRegressor
from tests.posterior.designs import ar1

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bmjax import plots

X, Y, _ = ar1(1, 40, 6, [1, -1, 0.4], correlation=0.8)


@pytest.fixture(scope="module")
def found():
    return bmjax.posterior(X, Y, intercept=True)


def test_pictures(found):
    ax = plots.probabilities(found, list("abcdef"))
    places = np.concatenate([line.get_xdata() for line in ax.lines if line.get_marker() == "o"])
    np.testing.assert_allclose(np.sort(places), np.sort(found.probability))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list("abcdef")
    ax.figure.draw_without_rendering()
    ax = plots.sizes(found)
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, found.size[: len(heights)])
    ax.figure.draw_without_rendering()
    plt.close("all")
    with pytest.raises(ValueError, match="names"):
        plots.probabilities(found, ["a"])


def test_command_line(found, tmp_path, capsys):
    data, saved = tmp_path / "data.csv", tmp_path / "fit.json"
    names = list("abcdef")
    rows = [",".join([*names, "y"])]
    rows += [",".join(map(repr, row)) for row in np.column_stack([X, Y]).tolist()]
    data.write_text("\n".join(rows))
    argv = [str(data), "--target", "y", "--posterior", "--save", str(saved)]
    assert main(argv) == 0
    out = " ".join(capsys.readouterr().out.split())  # whatever the width of the console
    assert "averaged" in out
    assert "of which a tenth at most is expected not to act" in out
    content = json.loads(saved.read_text())
    probability = [feature["probability"] for feature in content["features"]]
    np.testing.assert_allclose(probability, found.probability, 1e-6)
    averaged = [feature["averaged_coef"] for feature in content["features"]]
    np.testing.assert_allclose(averaged, found.coef, 1e-6)
    assert content["posterior"]["status"] == "CONVERGED"
    assert content["settings"]["posterior"] is True


@pytest.mark.filterwarnings("ignore:The chains do not agree")
@pytest.mark.filterwarnings("ignore:No features were selected")
@parametrize_with_checks([SupportPosteriorRegressor(max_steps=1024)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_estimator(found):
    one = SupportPosteriorRegressor().fit(X, Y)
    np.testing.assert_allclose(one.coef_, found.coef)
    np.testing.assert_array_equal(one.get_support(), found.select())
    mean, std = one.predict(X[:3], return_std=True)
    for a, b in zip((mean, std), found.predict(X[:3], return_std=True), strict=True):
        np.testing.assert_allclose(a, b)
    pipeline = make_pipeline(StandardScaler(), SupportPosteriorRegressor()).fit(X, Y)
    np.testing.assert_allclose(pipeline.predict(X), one.predict(X))
    assert one.fit(X.astype(np.float32), Y).predict(X).dtype == np.float32
