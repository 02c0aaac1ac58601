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
from bmjax.sklearn import SupportPosteriorClassifier, SupportPosteriorRegressor
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
    ax = plots.probabilities(found._replace(names=bmjax.Names(tuple("uvwxyz"))))  # of the data
    assert [tick.get_text() for tick in ax.get_yticklabels()] == list("uvwxyz")
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


def test_command_line_of_a_family(tmp_path, capsys):
    data, saved = tmp_path / "data.csv", tmp_path / "fit.json"
    outcome = Y > np.median(Y)
    rows = ["a,b,c,d,e,f,bought"]
    for row, yes in zip(X.tolist(), outcome, strict=True):
        rows.append(",".join([*map(repr, row), "yes" if yes else "no"]))
    data.write_text("\n".join(rows))
    argv = [str(data), "--target", "bought", "--posterior", "--save", str(saved)]
    assert main(argv) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "effects are on the log-odds of 1" in out
    content = json.loads(saved.read_text())
    found = bmjax.posterior(X, outcome, intercept=True, family="logistic")
    probability = [feature["probability"] for feature in content["features"]]
    np.testing.assert_allclose(probability, found.probability, 1e-5)
    assert content["posterior"]["noise_standard_deviation"] is None
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "--posterior" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:The chains do not agree")
@pytest.mark.filterwarnings("ignore:No features were selected")
@pytest.mark.filterwarnings("ignore:A probable support tells the two classes apart")
@parametrize_with_checks(
    [SupportPosteriorRegressor(max_steps=1024), SupportPosteriorClassifier(max_steps=1024)]
)
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


def test_estimators_of_families():
    outcome = np.where(Y > np.median(Y), "yes", "no")
    model = SupportPosteriorClassifier().fit(X, outcome)
    found = bmjax.posterior(X, outcome == "yes", intercept=True, family="logistic")
    np.testing.assert_allclose(model.coef_, found.coef, 1e-5, 1e-7)
    np.testing.assert_array_equal(model.get_support(), found.select())
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], found.predict(X), 1e-5)
    np.testing.assert_array_equal(model.predict(X) == "yes", model.predict_proba(X)[:, 1] > 0.5)
    robust = SupportPosteriorRegressor(family=bmjax.Student(3)).fit(X, Y)
    found = bmjax.posterior(X, Y, intercept=True, family=bmjax.Student(3))
    np.testing.assert_allclose(robust.coef_, found.coef, 1e-5, 1e-7)
    with pytest.raises(ValueError, match="SupportPosteriorClassifier"):
        SupportPosteriorRegressor(family="logistic").fit(X, outcome == "yes")
    with pytest.warns(UserWarning, match="tells the two classes apart"):
        SupportPosteriorClassifier().fit(X[:, :3], X[:, 1] > 0)
