"""The quality of an estimate when the truth is known: selection, coefficients, prediction.

Every function takes one dataset or a batch, with batch axes in front, and returns one number for
each dataset. Batch axes broadcast, so one truth serves many estimates.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bmjax._checks.arrays import floating_array

__all__ = [
    "Scores",
    "bias",
    "prediction_error",
    "pruning",
    "selection",
    "squared_error",
]


def __dir__() -> list[str]:
    return __all__


class Scores(NamedTuple):
    """Precision, recall and their harmonic mean, each in [0, 1].

    The scores of empty sets: if no feature is named, precision is 1, since no name was wrong; if
    there is none to be named, recall is 1, since none was missed. `f1` is 2 hits / (named + to be
    named), which is the harmonic mean if both are positive: 0 if only one of the sets is empty, 1
    if both are. (scikit-learn scores an empty set 0.)

    Example:
        >>> from bmjax import metrics
        >>> scores = metrics.pruning(support=[1, 1, 0, 0], truth=[1, 0, 0, 0])
        >>> float(scores.precision), round(float(scores.recall), 2)
        (1.0, 0.67)
    """

    precision: Float[Array, "*b"]
    recall: Float[Array, "*b"]
    f1: Float[Array, "*b"]


def pruning(support: ArrayLike, truth: ArrayLike) -> Scores:
    """Precision, recall and F1 of the pruned features, as the paper defines them (section 5.3).

    Precision is m3 / m2 and recall m3 / m1, with m1 the number of truly irrelevant features, m2 of
    pruned ones and m3 of those that are both. An estimator that prunes nothing scores (1, 0, 0);
    see `Scores`.

    Args:
        support: (..., k) features kept: booleans, or coefficients that are 0 where pruned.
        truth: (..., k) whether each feature is relevant: booleans, or the true coefficients.

    Returns:
        The scores, one for each dataset.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If the shapes do not fit together.

    Example:
        >>> from bmjax import metrics
        >>> scores = metrics.pruning(support=[1, 1, 0, 0], truth=[1, 0, 0, 0])
        >>> float(scores.precision), round(float(scores.recall), 2), round(float(scores.f1), 2)
        (1.0, 0.67, 0.8)
    """
    kept, relevant = _sets(support, truth)
    return _scores(~kept, ~relevant)


def selection(support: ArrayLike, truth: ArrayLike) -> Scores:
    """Precision, recall and F1 of the kept features: `pruning` with the complements of both sets.

    Precision is the share of kept features that are relevant, recall the share of relevant
    features that are kept. An estimator that keeps nothing scores (1, 0, 0); see `Scores`.

    Args:
        support: (..., k) features kept: booleans, or coefficients that are 0 where pruned.
        truth: (..., k) whether each feature is relevant: booleans, or the true coefficients.

    Returns:
        The scores, one for each dataset.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If the shapes do not fit together.

    Example:
        >>> from bmjax import metrics
        >>> scores = metrics.selection(support=[1, 1, 0, 0], truth=[1, 0, 0, 0])
        >>> float(scores.precision), float(scores.recall)
        (0.5, 1.0)
    """
    return _scores(*_sets(support, truth))


def bias(coef: ArrayLike, truth: ArrayLike) -> Float[Array, "*b"]:
    """Mean over the relevant features of the error in the direction of the truth.

    This is sign(truth) * (coef - truth): negative for an estimator that shrinks towards zero or
    prunes. It estimates a bias only after averaging over datasets. Without relevant features it is
    0. For the bias of each feature, average `coef - truth` over datasets.

    Args:
        coef: (..., k) estimated effects.
        truth: (..., k) true effects.

    Returns:
        One number for each dataset, in units of the coefficients.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If the shapes do not fit together.

    Example:
        >>> from bmjax import metrics
        >>> float(metrics.bias(coef=[1.5, 0.0, -1.0], truth=[2.0, 0.0, -1.0]))  # shrunk
        -0.25
    """
    coef, truth = _together("coef", "truth", *_numbers(coef=coef, truth=truth))
    towards = jnp.sum(jnp.sign(truth) * (coef - truth), axis=-1)
    relevant = jnp.sum(truth != 0, axis=-1, dtype=truth.dtype)
    return towards / jnp.maximum(relevant, 1)


def squared_error(coef: ArrayLike, truth: ArrayLike) -> Float[Array, "*b"]:
    """Squared distance between estimated and true effects, summed over all features.

    Args:
        coef: (..., k) estimated effects.
        truth: (..., k) true effects.

    Returns:
        One number for each dataset, in squared units of the coefficients.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If the shapes do not fit together.

    Example:
        >>> from bmjax import metrics
        >>> float(metrics.squared_error(coef=[1.5, 0.0, -1.0], truth=[2.0, 0.0, -1.0]))
        0.25
    """
    coef, truth = _together("coef", "truth", *_numbers(coef=coef, truth=truth))
    return jnp.sum((coef - truth) ** 2, axis=-1)


def prediction_error(coef: ArrayLike, X: ArrayLike, y: ArrayLike) -> Float[Array, "*b"]:
    """Mean squared error of X @ coef.

    On new samples it estimates the error of prediction, including the noise; with y = X @ truth it
    is the error of the fitted mean, without the noise.

    Args:
        coef: (..., k) estimated effects.
        X: (..., n, k) samples, preferably not those of the fit.
        y: (..., n) their targets.

    Returns:
        One number for each dataset, in squared units of y.

    Raises:
        TypeError: If an argument is not an array of real numbers.
        ValueError: If the shapes do not fit together or there is no sample.

    Example:
        >>> from bmjax import metrics
        >>> float(metrics.prediction_error(coef=[2.0], X=[[1.0], [2.0]], y=[2.0, 5.0]))
        0.5
    """
    coef, X, y = _numbers(coef=coef, X=X, y=y)
    shapes = f"coef {coef.shape}, X {X.shape} and y {y.shape}"
    if coef.ndim < 1 or X.ndim < 2 or y.ndim < 1 or X.shape[-1:] != coef.shape[-1:]:
        raise ValueError(f"{shapes} do not fit: X needs a column for each coefficient.")
    if X.shape[-2:-1] != y.shape[-1:] or y.shape[-1] == 0:
        raise ValueError(f"{shapes} do not fit: y needs one entry for each row of X, one or more.")
    try:
        batch = jnp.broadcast_shapes(coef.shape[:-1], X.shape[:-2], y.shape[:-1])
    except ValueError:
        raise ValueError(f"{shapes} do not fit: their batch axes differ.") from None
    coef = jnp.broadcast_to(coef, (*batch, *coef.shape[-1:]))
    predicted = jnp.einsum("...nk,...k->...n", X, coef)
    return jnp.mean((jnp.broadcast_to(y, predicted.shape) - predicted) ** 2, axis=-1)


def _scores(named: Array, wanted: Array) -> Scores:
    hits, named_count, wanted_count = (
        jnp.sum(which, axis=-1, dtype=jnp.result_type(float))
        for which in (named & wanted, named, wanted)
    )

    def ratio(numerator, denominator):
        return jnp.where(denominator > 0, numerator / jnp.maximum(denominator, 1), 1)

    return Scores(
        precision=ratio(hits, named_count),
        recall=ratio(hits, wanted_count),
        f1=ratio(2 * hits, named_count + wanted_count),
    )


def _sets(support: ArrayLike, truth: ArrayLike) -> tuple[Array, Array]:
    kept, relevant = _numbers(support=support, truth=truth)
    return _together("support", "truth", kept != 0, relevant != 0)


def _together(name_a: str, name_b: str, a: Array, b: Array) -> tuple[Array, Array]:
    """Two arrays over the same features, with their batch axes broadcast."""
    if a.ndim < 1 or b.ndim < 1 or a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"{name_a} has shape {a.shape} and {name_b} {b.shape}; both need the features last."
        )
    try:
        shape = jnp.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise ValueError(
            f"{name_a} has shape {a.shape} and {name_b} {b.shape}; their batch axes differ."
        ) from None
    return jnp.broadcast_to(a, shape), jnp.broadcast_to(b, shape)


def _numbers(**values: ArrayLike) -> list[Array]:
    """The values as arrays of one floating-point type, the widest among them."""
    arrays = [jnp.asarray(floating_array(name, value)) for name, value in values.items()]
    widest = max((a.dtype for a in arrays), key=lambda dtype: dtype.itemsize)
    return [a.astype(widest) for a in arrays]
