"""The test that `.ci/versions` runs in each environment: it uses each entry point once.

Run `python smoke.py` if no extra is installed, and `python smoke.py extras` if cli, sklearn and
plot are. It works in the current folder, and a failed assertion ends it.
"""

import csv
import subprocess
import sys
from pathlib import Path

import bmjax


def command(*words: str, status: int = 0) -> str:
    """The output of `python -m bmjax` with some arguments; the exit status is checked."""
    call = [sys.executable, "-m", "bmjax", *words]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == status, done
    return done.stdout + done.stderr


def library() -> None:
    """Check a fit and the functions of its result, which need no extra."""
    X, y, names = bmjax.datasets.load_diabetes()
    fit = bmjax.fit(X, y, intercept=True)
    assert [name for name, kept in zip(names, fit.support, strict=True) if kept] == [
        *("sex", "bmi", "bp", "s3", "s5")
    ]
    for table in (fit.summary(names), fit.refit(X, y).summary(names)):
        assert "bmi" in str(table)
    for place in ("fit.json", "fit.npz"):
        fit.save(place)
        again = bmjax.load(place)
        assert (again.coef == fit.coef).all()
        assert (again.predict(X) == fit.predict(X)).all()
    assert bmjax.posterior(X, y, intercept=True).probability[2] > 0.95
    assert "--target" in command("--help")


def write_table() -> None:
    """Write a small table in which the price depends on the size."""
    with Path("houses.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["size", "age", "price"])
        for i in range(40):
            rows.writerow([i, i * 7 % 11, 3 * i + i * i % 5])


def extras() -> None:
    """Check the command on a file, the estimators, frames and pictures."""
    import matplotlib as mpl
    import pandas as pd
    from sklearn.base import clone

    from bmjax.sklearn import BayesianMaskingRegressor

    fitted = command("houses.csv", "--target", "price", "--save", "f.json", "--plot", "f.png")
    assert "size" in fitted
    assert command("predict", "f.json", "houses.csv").startswith("row,prediction")

    X, y, names = bmjax.datasets.load_diabetes()
    frame, target = pd.DataFrame(X, columns=names), pd.Series(y, name="progression")
    frame["half"] = pd.Categorical(["low", "high"] * (len(y) // 2))
    model = clone(BayesianMaskingRegressor()).fit(frame, target)
    assert "bmi" in list(model.get_feature_names_out())
    assert model.score(frame, target) > 0.4
    fit = bmjax.fit(frame[names], target, intercept=True)
    assert fit.to_pandas().kept["bmi"]
    mpl.use("Agg")
    bmjax.plots.coefficients(fit).figure.savefig("coefficients.pdf")
    assert Path("coefficients.pdf").stat().st_size > 1000


def refused() -> None:
    """Check that the command without extras says what to install."""
    assert "pip install" in command("houses.csv", "--target", "price", status=2)


if __name__ == "__main__":
    library()
    write_table()
    (extras if sys.argv[1:] == ["extras"] else refused)()
