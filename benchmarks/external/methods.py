"""The methods compared: each takes the datasets of a cell and returns its estimates."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import bmjax
from benchmarks import estimators
from benchmarks.external.relaxed import relaxed_lasso_cv

_LARGEST = 2e7  # numbers of X that the posterior is given at a time
DEFAULT, POSTERIOR = "default fit", "posterior mean"


class Estimates(NamedTuple):
    """The estimates for each dataset of a cell.

    Attributes:
        coef: Effects, (b, k), which give the fitted mean.
        kept: Whether the method says that each feature is real, (b, k).
        selected: Which features are selected at a false discovery rate of .1, (b, k), or None.
        interval: Lower and upper ends for all effects at .95, (b, k) each, or None.
    """

    coef: np.ndarray
    kept: np.ndarray
    selected: np.ndarray | None = None
    interval: tuple[np.ndarray, np.ndarray] | None = None


# X is (n, k), shared by all, or (b, n, k); y is (b, n). There is no intercept to be fitted.
Method = Callable[[np.ndarray, np.ndarray], Estimates]


def one_by_one(estimator: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Method:
    """A method applied to one dataset after another."""

    def method(X: np.ndarray, y: np.ndarray) -> Estimates:
        each = X if X.ndim == 3 else [X] * len(y)
        coef = estimators.one_by_one(estimator, each, y)
        return Estimates(coef, coef != 0)

    return method


def default_fit(X: np.ndarray, y: np.ndarray) -> Estimates:
    """`bmjax.fit_batch` with its defaults."""
    r = bmjax.fit_batch(X, y)
    return Estimates(np.asarray(r.coef), np.asarray(r.support))


def posterior(X: np.ndarray, y: np.ndarray) -> Estimates:
    """`bmjax.posterior` with its defaults: the average over supports, and each feature's results.

    Features are called real if their probability is above a half.
    """
    b, most = len(y), max(1, int(_LARGEST // (X.shape[-1] * X.shape[-2])))
    # Pieces of one size, so that one compilation serves them all.
    pieces = next(m for m in range(1, b + 1) if b % m == 0 and b // m <= most)
    found = []
    for at in np.array_split(np.arange(b), pieces):
        part = X[at] if X.ndim == 3 else np.broadcast_to(X, (len(at), *X.shape))
        key = jax.random.key(int(at[0]))
        r = bmjax.posterior(np.ascontiguousarray(part), y[at], key)  # pyright: ignore[reportAttributeAccessIssue]
        lower, upper = r.interval(0.95)
        kept = np.asarray(r.probability) > 0.5
        found.append((r.coef, kept, r.select(fdr=0.1), lower, upper))
    coef, kept, selected, lower, upper = (
        np.concatenate([np.asarray(piece) for piece in column])
        for column in zip(*found, strict=True)
    )
    return Estimates(coef, kept, selected, (lower, upper))


def abess(criterion: str) -> Method:
    """Best subset by splicing, the size by `bic` or `ebic`, or by ten-fold cross-validation."""
    options: dict[str, Any] = {"cv": 10} if criterion == "cv" else {"criterion": criterion}
    return one_by_one(lambda X, y: estimators.abess(X, y, **options))


def ours() -> dict[str, Method]:
    """This package's methods, with the posterior only if it is available."""
    methods: dict[str, Method] = {DEFAULT: default_fit}
    if hasattr(bmjax, "posterior"):
        methods[POSTERIOR] = posterior
    return methods


def rivals() -> dict[str, Method]:
    """Other packages' methods, tuned on the same rows."""
    return {
        "abess BIC": abess("bic"),
        "abess EBIC": abess("ebic"),
        "abess CV": abess("cv"),
        "LassoCV": one_by_one(estimators.lasso_cv),
        "relaxed lasso CV": one_by_one(relaxed_lasso_cv),
    }


def qualities(found: Estimates, coef: np.ndarray) -> dict[str, float]:
    """How well real features are distinguished from idle ones, averaged over the datasets.

    Args:
        found: The estimates.
        coef: True effects (k,).
    """
    real = coef != 0
    hits = (found.kept & real).sum(axis=1)
    size = found.kept.sum(axis=1)
    row = {
        "real kept": hits.mean(),
        "idle kept": (size - hits).mean(),
        "F1": (2 * hits / (size + real.sum())).mean(),
    }
    if found.selected is not None:
        wrong = (found.selected & ~real).sum(axis=1)
        row["false discovery rate"] = (wrong / np.maximum(found.selected.sum(axis=1), 1)).mean()
    if found.interval is not None:
        lower, upper = found.interval
        row["interval coverage"] = ((lower <= coef) & (coef <= upper)).mean()
    return {name: float(value) for name, value in row.items()}
