"""The base of the estimators by `bmjax.fit`: parameters, the fit, and the fitted attributes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from bmjax._fitting.estimator import LinearSelector, distinct_rows
from bmjax._fitting.fit import fit
from bmjax._fitting.ragged import filled, rung
from bmjax._model.status import Status
from bmjax._results.names import Names
from bmjax._results.result import Result
from bmjax._solvers.accelerated import Accelerated
from bmjax._solvers.paper import EG, EM, Hybrid, Solver

_SOLVERS: dict[str, type[Solver]] = {
    "accelerated": Accelerated,
    "em": EM,
    "eg": EG,
    "hybrid": Hybrid,
}
# An exact fit is finished too: it is the expected end for noiseless data.
_UNFINISHED = (Status.MAX_STEPS, Status.STALLED, Status.NON_FINITE, Status.SEPARATED)


class MaskingSelector(LinearSelector):
    """A linear model fitted by `bmjax.fit`, the base of the estimators of `bmjax.sklearn`."""

    inclusion_: NDArray[np.floating]
    weights_: NDArray[np.floating]
    bound_: float
    n_iter_: int
    status_: Status
    result_: Result

    def __init__(  # noqa: PLR0913 - public options
        self,
        *,
        fit_intercept: bool = True,
        standardize: bool = False,
        unmasked: ArrayLike | Sequence[str] | None = None,
        groups: Sequence[int | str | None] | None = None,
        solver: Solver | str | None = None,
        initial_inclusion: ArrayLike | None = None,
        starts: ArrayLike | None = None,
        moves: int | None = None,
        criterion: str = "learned",
        prune_threshold: float | None = None,
        tolerance: float = 1e-3,
        max_steps: int = 20_000,
    ) -> None:
        """Store the parameters unchanged; `fit` checks them."""
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.unmasked = unmasked
        self.groups = groups
        self.solver = solver
        self.initial_inclusion = initial_inclusion
        self.starts = starts
        self.moves = moves
        self.criterion = criterion
        self.prune_threshold = prune_threshold
        self.tolerance = tolerance
        self.max_steps = max_steps

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, **others: Any) -> None:
        """Fit checked data and set the fitted attributes; `others` are options of `bmjax.fit`."""
        with jax.enable_x64(True):  # JAX would take float64 for float32
            X, y, counts = _packed(X, y, sample_weight)
            result = fit(
                X,
                y,
                sample_weights=counts,
                intercept=self.fit_intercept,
                unmasked=self._unmasked(),
                groups=self._groups(),
                standardize=self.standardize,
                solver=self._solver(),
                initial_inclusion=self._by_column(self.initial_inclusion),
                starts=self._by_column(self.starts, dimensions=2),
                moves=self.moves,
                criterion=self.criterion,
                prune_threshold=self.prune_threshold,
                tolerance=self.tolerance,
                max_steps=self.max_steps,
                **others,
            )
        names = self._names()
        if self._encoding is not None:
            names = Names(self._encoding.names(tuple(self.feature_names_in_)))
        result = result._replace(names=names)
        self.result_ = result = jax.tree.map(np.asarray, result)
        self.coef_ = result.coef
        self.intercept_ = result.intercept[()]
        self.inclusion_ = result.inclusion
        self.weights_ = result.weights
        self.support_ = result.support
        if self._encoding is not None:
            self.support_ = np.bincount(self._encoding.origin, result.support) > 0
        self.bound_ = result.bound[()]
        self.n_iter_ = int(result.num_steps)
        self.status_ = Status(int(result.status))
        if self.status_ in _UNFINISHED:
            warnings.warn(self.status_.message, ConvergenceWarning, stacklevel=3)

    def _predictor(self, X: Any) -> NDArray[np.floating]:
        """Intercept + X @ coef, in NumPy, since JAX would compile for every number of rows."""
        center = self.result_.center
        return (self.intercept_ + center @ self.coef_) + (X - center) @ self.coef_

    def _solver(self) -> Any:
        if not isinstance(self.solver, str):
            return self.solver
        if self.solver not in _SOLVERS:
            raise ValueError(
                f"solver is {self.solver!r}; give a solver of bmjax or one of "
                f"{', '.join(_SOLVERS)}."
            )
        return _SOLVERS[self.solver]()

    def _groups(self) -> Any:
        """The parameter `groups` by column of the fit, the levels of a category in one group."""
        if self._encoding is None:
            return self.groups
        return self._encoding.labels(tuple(self.feature_names_in_), self.groups)

    def _by_column(self, values: Any, dimensions: int = 1) -> Any:
        """A parameter by feature, repeated by column of the fit; fewer dimensions are unchanged."""
        if self._encoding is None or np.ndim(values) < dimensions:
            return values
        return self._encoding.by_feature(values)


def _packed(
    X: NDArray[np.floating], y: NDArray[np.floating], sample_weight: ArrayLike | None
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[Any]]:
    """The `distinct_rows` as (m, k), (m,) and their counts (m,), padded with rows of count zero.

    As m is a rung of the ladder, the folds of a cross-validation and the samples of a bootstrap
    share one compilation.
    """
    rows, counts = distinct_rows(X, y, sample_weight)
    m = rung(len(rows))
    rows, counts = filled(rows, m), filled(counts, m)
    return rows[:, :-1], rows[:, -1], counts
