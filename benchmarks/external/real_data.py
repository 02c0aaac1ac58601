"""Real data used by others to compare methods, in their own units, from installed packages."""

from collections.abc import Callable

import numpy as np

from benchmarks.practice.datasets import Real, diabetes, from_package, split_off


def hitters() -> Real:
    """`Hitters` of ISLR: salary, in thousands of dollars, of the 263 players with a known one."""
    return split_off(from_package("ISLR", "Hitters").dropna(), "Salary")


def boston() -> Real:
    """`Boston` of MASS: median value of homes, in thousands of dollars, of 506 tracts."""
    return split_off(from_package("MASS", "Boston"), "medv")


def auto() -> Real:
    """`Auto` of ISLR: miles per gallon of 392 cars, without their names, as in Tian et al.

    Tian et al. leave the origin out as well.
    """
    return split_off(from_package("ISLR", "Auto").drop(columns=["name", "origin"]), "mpg")


def college() -> Real:
    """`College` of ISLR: out-of-state tuition, in dollars, of 777 colleges."""
    return split_off(from_package("ISLR", "College"), "Outstate")


def meats() -> Real:
    """Tecator, `meats` of modeldata: per cent of fat in 215 samples, from 100 absorbances."""
    return split_off(from_package("modeldata", "meats").drop(columns=["water", "protein"]), "fat")


def permeability() -> Real:
    """`permeability_qsar` of modeldata: 165 compounds, with 1107 bits of their fingerprints.

    Bits that are the same in all compounds are left out.
    """
    X, y, names = split_off(from_package("modeldata", "permeability_qsar"), "permeability")
    varies = np.ptp(X, axis=0) > 0
    return Real(X[:, varies], y, [name for name, v in zip(names, varies, strict=True) if v])


DATASETS: dict[str, Callable[[], Real]] = {
    "Hitters": hitters,
    "Auto": auto,
    "College": college,
    "diabetes": diabetes,
    "meats": meats,
    "permeability": permeability,
}
