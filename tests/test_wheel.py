"""The wheel: it builds, holds what it needs and nothing else, and works without any extra."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What only the extras install; None in `sys.modules` is a package that is not there.
WITHOUT = "pandas matplotlib sklearn rich polars"
CODE = f"""
import sys
sys.modules |= dict.fromkeys({WITHOUT!r}.split())
import bmjax
X, y, names = bmjax.datasets.load_diabetes()
fit = bmjax.fit(X, y, intercept=True)
assert "bmi" in str(fit.summary(names)) and "bmi" in str(fit.refit(X, y).summary(names))
fit.save("fit.json")
assert (bmjax.load("fit.json").coef == fit.coef).all()
for extra in ("plots", "sklearn"):
    try:
        getattr(bmjax, extra)
    except ModuleNotFoundError as error:
        assert "pip install" in str(error)
print(bmjax.__file__)
"""


def test_the_wheel_works_without_extras(tmp_path):
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", str(ROOT), "--no-deps", "-w", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        pytest.skip(f"no wheel can be built here: {built.stderr.strip()[-200:]}")
    (wheel,) = tmp_path.glob("bmjax-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    for wanted in ("bmjax/py.typed", "bmjax/datasets/diabetes.csv", "bmjax/CHANGELOG.md"):
        assert wanted in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"bmjax"}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path / "site"))
