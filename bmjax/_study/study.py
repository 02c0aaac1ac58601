"""The results of a Monte Carlo study: outcomes by method, means with standard errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bmjax import metrics
from bmjax._model.status import Status
from bmjax._study.timing import Spent

if TYPE_CHECKING:
    import pandas as pd


class Outcomes(NamedTuple):
    """The outcomes of one method on all datasets, in NumPy arrays with one row for each dataset.

    Attributes:
        coef: (b, k) estimated effects.
        support: (b, k) whether each feature is kept.
        status: (b,) codes of `bmjax.Status`, or None if the method gives none.
        seconds: Wall time of all its calls, with compilation counted separately.
    """

    coef: np.ndarray
    support: np.ndarray
    status: np.ndarray | None
    seconds: Spent


Metric = Callable[[Outcomes, np.ndarray], Any]
"""(b,) numbers from the outcomes of a method and the (b, k) true effects."""

METRICS: dict[str, Metric] = {
    "precision": lambda found, truth: metrics.pruning(found.support, truth).precision,
    "recall": lambda found, truth: metrics.pruning(found.support, truth).recall,
    "f1": lambda found, truth: metrics.pruning(found.support, truth).f1,
    "false": lambda found, truth: np.sum(found.support & (truth == 0), axis=-1),
    "missed": lambda found, truth: np.sum(~found.support & (truth != 0), axis=-1),
    "squared_error": lambda found, truth: metrics.squared_error(found.coef, truth),
}
# Titles that say that the first three metrics are of the pruned features.
_TITLES = {name: f"{name} of pruning" for name in ("precision", "recall", "f1")}


class Mean(NamedTuple):
    """A mean over datasets, with its standard error.

    Attributes:
        mean: The mean of the values.
        standard_error: Monte Carlo standard error of the mean; NaN with one dataset.
    """

    mean: float
    standard_error: float


@dataclass(frozen=True)
class Study:
    """The outcomes of several methods on the same datasets.

    `metric` below is one of "precision", "recall" and "f1" (of the pruned features, as in
    `metrics.pruning`: how well a method finds the irrelevant ones), "false" and "missed" (the
    numbers of irrelevant features that it keeps and of relevant ones that it prunes), and
    "squared_error" (of the effects), or a function of the `Outcomes` of a method and the (b, k)
    true effects that returns (b,) numbers.

    Attributes:
        truth: (b, k) true effects of each dataset.
        outcomes: Outcomes of each method, by its name.

    Example:
        >>> import jax
        >>> import bmjax
        >>> methods = {"least squares": bmjax.baselines.least_squares}
        >>> study = bmjax.monte_carlo(bmjax.simulate.two_features, methods, jax.random.key(0), 20)
        >>> study.truth.shape, int(study.values("least squares", "missed").sum())
        ((20, 2), 0)
    """

    truth: np.ndarray
    outcomes: Mapping[str, Outcomes]

    def values(self, method: str, metric: str | Metric) -> np.ndarray:
        """A metric of one method for each dataset.

        Args:
            method: Name of the method.
            metric: Name of a metric, or a function.

        Returns:
            (b,) numbers.

        Raises:
            ValueError: If there is no such method or metric, or a function does not return one
                number for each dataset.
        """
        if method not in self.outcomes:
            raise ValueError(f"method is {method!r}; there are {', '.join(self.outcomes)}.")
        if not callable(metric):
            if metric not in METRICS:
                raise ValueError(
                    f"metric is {metric!r}; give one of {', '.join(METRICS)}, or a function."
                )
            metric = METRICS[metric]
        values = np.asarray(metric(self.outcomes[method], self.truth))
        if values.shape != self.truth.shape[:1]:
            raise ValueError(
                f"metric returned shape {values.shape}, wanted ({len(self.truth)},): one number "
                "for each dataset."
            )
        return values

    def mean(self, method: str, metric: str | Metric) -> Mean:
        """Mean of a metric over the datasets.

        Args:
            method: Name of the method.
            metric: Name of a metric, or a function.

        Returns:
            The mean with its standard error.

        Raises:
            ValueError: As for `values`.
        """
        return _mean(self.values(method, metric))

    def paired(self, a: str, b: str, metric: str | Metric) -> Mean:
        """Mean of the difference a - b of a metric, taken for each dataset.

        All methods have the same datasets, so the difficulty of a dataset cancels: the standard
        error is far below that of two separate means.

        Args:
            a: Name of a method.
            b: Name of the method to subtract.
            metric: Name of a metric, or a function.

        Returns:
            The mean difference with its standard error.

        Raises:
            ValueError: As for `values`.
        """
        # As numbers: booleans do not subtract.
        difference = np.subtract(self.values(a, metric), self.values(b, metric), dtype=float)
        return _mean(difference)

    def table(self) -> pd.DataFrame:
        """A table with one row for each method: means with standard errors (`... se`), and times.

        Precision, recall and F1 are of pruning, and their columns say so; `false` and `missed`
        count kept features that are irrelevant and relevant ones that are not kept. `converged` is
        the share of datasets with `Status.CONVERGED`, NaN for a method without a status; `ms` is
        the run time for each dataset in milliseconds, `compile_s` the compile time in seconds.

        Raises:
            ModuleNotFoundError: If pandas is not installed.
        """
        import pandas as pd

        rows = {}
        for name, found in self.outcomes.items():
            row: dict[str, float] = {}
            for metric in METRICS:
                title = _TITLES.get(metric, metric)
                row[title], row[f"{title} se"] = self.mean(name, metric)
            status = found.status
            row["converged"] = np.nan if status is None else np.mean(status == Status.CONVERGED)
            row["ms"] = 1e3 * found.seconds.run / len(self.truth)
            row["compile_s"] = found.seconds.compile
            rows[name] = row
        return pd.DataFrame.from_dict(rows, orient="index")


def _mean(values: np.ndarray) -> Mean:
    values = np.asarray(values, float)
    spread = values.std(ddof=1) if len(values) > 1 else np.nan
    return Mean(float(values.mean()), float(spread / np.sqrt(len(values))))
