"""Datasets that are part of the package, so that it can be tried without a download.

`diabetes.csv` is the diabetes study of Efron, Hastie, Johnstone and Tibshirani, "Least Angle
Regression", Annals of Statistics 32 (2004) 407-499: ten baseline features of 442 patients and the
progression of their disease a year later. The figures are taken from scikit-learn's copy
(`sklearn/datasets/data`, release 1.9.1; copyright the scikit-learn developers, BSD-3-Clause), on
their raw scale, rewritten as one plain file: nothing is centred, scaled or rounded.
"""

from __future__ import annotations

from importlib import resources

import numpy as np
from numpy.typing import NDArray

__all__ = ["load_diabetes"]


def __dir__() -> list[str]:
    return __all__


def load_diabetes() -> tuple[NDArray[np.float64], NDArray[np.float64], list[str]]:
    """Load the diabetes data on their raw scale.

    Returns:
        The features (442, 10), the target (442,), which the file calls "progression", and the
        names of the features: age, sex, bmi, bp (mean blood pressure) and the blood serum
        measurements s1 to s6.

    Example:
        >>> from bmjax.datasets import load_diabetes
        >>> X, y, names = load_diabetes()
        >>> X.shape, y.shape, names[:3]
        ((442, 10), (442,), ['age', 'sex', 'bmi'])
    """
    with resources.files(__name__).joinpath("diabetes.csv").open(encoding="utf-8") as lines:
        *names, _ = next(lines).strip().split(",")
        table = np.loadtxt(lines, delimiter=",", dtype=np.float64)
    return np.ascontiguousarray(table[:, :-1]), table[:, -1].copy(), names
