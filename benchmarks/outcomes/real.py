"""Real binary outcomes, by repeated cross-validation."""

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.preprocessing import StandardScaler

from benchmarks.outcomes.methods import log_loss, of_two, timed
from benchmarks.practice.datasets import Real, from_package, split_off

_FOLDS = 5
_FEW, _REPEATS = 1000, 4  # if the data have fewer rows than this, the folds are repeated


def default() -> Real:
    """`Default` of ISLR: which of 10 000 holders of credit cards did not pay."""
    frame = from_package("ISLR", "Default")
    return split_off(frame.assign(default=frame["default"] == "Yes"), "default")


def caravan() -> Real:
    """`Caravan` of ISLR: which of 5822 customers bought an insurance, from 85 facts on them."""
    frame = from_package("ISLR", "Caravan")
    return split_off(frame.assign(Purchase=frame["Purchase"] == "Yes"), "Purchase")


def birth_weight() -> Real:
    """`birthwt` of MASS: which of 189 babies weighed less than 2.5 kg; the weight is left out."""
    frame = from_package("MASS", "birthwt").drop(columns="bwt")
    return split_off(frame.assign(race=frame["race"].astype(str)), "low")


def speech() -> Real:
    """`pd_speech` of modeldata: which of 252 people have Parkinson's disease, from 750 sounds."""
    frame = from_package("modeldata", "pd_speech")
    return split_off(frame.assign(**{"class": frame["class"] == "PD"}), "class")


_SETS = {"birthwt": birth_weight, "Default": default, "Caravan": caravan, "pd_speech": speech}


def real(quick: bool) -> pd.DataFrame:
    """Log loss and area under the curve on left-out rows, columns kept, seconds per fit."""
    methods = of_two()
    rows = []
    for name, load in list(_SETS.items())[: 1 if quick else None]:
        data = load()
        repeats = 1 if quick or len(data.y) > _FEW else _REPEATS
        folds = RepeatedStratifiedKFold(n_splits=_FOLDS, n_repeats=repeats, random_state=0)
        for number, (train, test) in enumerate(folds.split(data.X, data.y)):
            units = StandardScaler().fit(data.X[train])
            X, fresh = (np.asarray(units.transform(data.X[part])) for part in (train, test))
            for method_name, method in methods.items():
                if number == 0:
                    timed(method, X, data.y[train])
                found, seconds = timed(method, X, data.y[train])
                eta = found.log_odds(fresh)
                rows.append(
                    {
                        "data": name,
                        "n": len(data.y),
                        "k": data.X.shape[1],
                        "method": method_name,
                        "log loss": log_loss(data.y[test], eta),
                        "AUC": roc_auc_score(data.y[test], eta),
                        "kept": np.sum(found.kept),
                        "seconds": seconds,
                    }
                )
    by = ["data", "n", "k", "method"]
    rules = {"log loss": "mean", "AUC": "mean", "kept": "mean", "seconds": "median"}
    return pd.DataFrame(rows).groupby(by, sort=False).agg(rules).reset_index()
