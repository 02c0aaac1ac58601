"""`Result`, which a fit returns."""

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Bool, Float, Int

from bmjax._checks.groups import Label
from bmjax._model.status import Status
from bmjax._results.names import Names
from bmjax._results.parts import History, LaneSteps, Moments, Starts, Uncertainty
from bmjax._results.reading import Readings
from bmjax._results.writing import write
from bmjax._runtime.backend import Array
from bmjax._runtime.debugging import unwatched


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Result(Readings):
    """A fitted Bayesian masking model. Under `vmap` every field has the batch axes in front.

    Read `coef` as the effect of a feature and `inclusion` as the rate at which it acts. `weights`
    is the effect at those samples where the feature is not masked, and can be far larger than
    `coef` when inclusion is small.

    `coef` is that of least squares on the support if every kept feature has inclusion 1. If one has
    less, its masks explain rows one by one, with part of their noise, and the other features are
    fitted to the remainder, so even a feature of inclusion 1 may differ from least squares. The
    difference is small if the rate is low because the feature is weak. It is a standard error or
    more if a strong feature acts in some rows only, and then `coef` is nearer the truth, since the
    effect of the feature in those rows is noise to least squares. `summary()` shows both.

    A result is a pytree of arrays, so it passes through `jax.jit`, `jax.vmap` and `jax.tree.map`. A
    batch of fits has a length, and is indexed and iterated over: `len(batch)`, `batch[3]`,
    `batch[batch.converged]`, `for fit in batch`.

    Attributes:
        coef: Effect of each feature on the mean of y, `weights * inclusion`, in units of y per unit
            of the feature; on the log-odds of y = 1 in a logistic fit. Exactly zero where pruned.
        weights: Effect where a feature is not masked (beta), in the same units. Zero where pruned.
        inclusion: Rate at which a feature is left in (pi), in [0, 1]. Zero where pruned.
        support: Whether each feature is kept.
        intercept: Mean of y where every feature is zero, in units of y (log-odds in a logistic
            fit); 0 if it is not fitted.
        center: Mean of each column, subtracted before a fit with an intercept; 0 without one. Masks
            hide the deviation of a feature from this.
        noise_precision: One over the noise variance (lambda), in one over squared units of y. Masks
            explain part of the noise, so it is biased upwards. For Student's t, one over its
            squared scale; 1 for a logistic fit.
        bound: Lower bound of FIC (G), in nats, over the kept features.
        num_steps: Iterations (E steps) run, over all starts and moves, at most `max_steps`.
        status: The code of `Status` with which the returned fit ended.
        starts: The record of every start and move, including the returned fit.
        uncertainty: Covariance of the effects, or None with `uncertainty=False`.
        history: The course of the fit with `history=True`, else None.
        lane_steps: Iterations of the batch after `fit_batch`, else None. Not in the pytree.
        with_intercept: Whether an intercept was fitted, even if it is zero.
        moments: Moments of the data, of a fit with uncertainty and no intercept, else None.
        family: The distribution of y given its predictor, `Logistic()` or `Student(degrees)` with
            the degrees of freedom, learned or given; None for the Gaussian.
        names: Names of the features and the target, if X was a frame or y a series, else None.
            Static, not an array.
        groups: The label of each feature's group, if `groups` was given, else None. Static as well.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> fit = bmjax.fit(X, y, intercept=True)
        >>> fit
        <bmjax.Result: 6 of 10 features kept, CONVERGED>
        >>> fit.coef.shape, fit.predict(X).shape, round(float(fit.r_squared), 2)
        ((10,), (442,), 0.51)
        >>> [round(float(end), 1) for end in fit.conf_int()[2]]  # of bmi
        [4.5, 7.3]
    """

    coef: Float[Array, "*b k"]
    weights: Float[Array, "*b k"]
    inclusion: Float[Array, "*b k"]
    support: Bool[Array, "*b k"]
    intercept: Float[Array, "*b"]
    center: Float[Array, "*b k"]
    noise_precision: Float[Array, "*b"]
    bound: Float[Array, "*b"]
    num_steps: Int[Array, "*b"]
    status: Int[Array, "*b"]
    starts: Starts
    uncertainty: Uncertainty | None = None
    history: History | None = None
    lane_steps: LaneSteps | None = None
    with_intercept: Bool[Array, "*b"] | None = None
    moments: Moments | None = None
    family: Any = None
    names: Names | None = None
    groups: tuple[Label, ...] | None = None

    def _replace(self, **changes: Any) -> "Result":
        """A copy with other values of some fields."""
        return dataclasses.replace(self, **changes)

    def __repr__(self) -> str:
        """A summary in one line."""
        codes = self.status
        if not isinstance(codes, jax.Array | np.ndarray) or isinstance(codes, Tracer):
            return "<bmjax.Result, traced>"
        shape = np.shape(self.coef)
        if len(shape) == 1:
            kept = int(np.sum(np.asarray(self.support)))
            ended = Status(int(codes)).name
            return f"<bmjax.Result: {kept} of {shape[0]} features kept, {ended}>"
        times = Counter(np.ravel(np.asarray(codes)).tolist())
        ended = ", ".join(f"{count} {Status(code).name}" for code, count in sorted(times.items()))
        fits = " x ".join(map(str, shape[:-1]))
        return f"<bmjax.Result: {fits} fits of {shape[-1]} features, {ended}>"

    def _repr_html_(self) -> str | None:
        """The summary as an HTML table, for notebooks."""
        if isinstance(self.status, Tracer) or self.coef.ndim != 1:
            return None
        return self.summary()._repr_html_()

    def __bool__(self) -> bool:
        """True, even for an empty batch, and for one fit, which has no length."""
        return True

    def __len__(self) -> int:
        """The number of fits in a batch."""
        if self.coef.ndim < 2:
            raise TypeError("this is one fit and no batch, so it has no length.")
        return self.coef.shape[0]

    def __iter__(self) -> Iterator["Result"]:
        """The fits of a batch one after another."""
        for i in range(len(self)):
            yield self[i]

    @unwatched
    def __getitem__(self, index: Any) -> "Result":
        """Fits of a batch, by number, slice, array of numbers or array of booleans.

        Raises:
            IndexError: If a number is out of range.
            TypeError: If this is one fit.
        """
        shape = self.coef.shape[:-1]
        if not shape:
            raise TypeError("this is one fit and no batch, so it cannot be indexed.")
        # NumPy refuses numbers out of range, for which JAX would take the nearest.
        places = np.arange(np.prod(shape)).reshape(shape)[_plain_index(index)]

        def taken(leaf: Any) -> Any:
            whole = leaf.reshape(-1, *leaf.shape[len(shape) :])
            if isinstance(leaf, Tracer) or not isinstance(leaf, jax.Array):
                return whole[places]
            return jnp.asarray(np.asarray(whole)[places])  # so that nothing is compiled

        return jax.tree.map(taken, self)

    @property
    def converged(self) -> Bool[Array, "*b"]:
        """Whether the fit ended at its fixed point (`Status.CONVERGED`)."""
        return self.status == Status.CONVERGED

    def raise_for_status(self) -> None:
        """Raise unless every fit ended well, at its fixed point or at an exact fit.

        Raises:
            RuntimeError: If a fit ended otherwise; the message names the fits, by their place in
                the batch, and the remedies.
        """
        codes = np.asarray(self.status)
        bad = [s for s in Status if s not in (Status.CONVERGED, Status.EXACT_FIT)]
        lines = []
        for status in bad:
            places = np.argwhere(codes == status)
            if len(places):
                lines.append(f"{status.name}{_places(places)}: {status.message}")
        if lines:
            raise RuntimeError("\n".join(lines))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fit to a file, for `bmjax.load` and `python -m bmjax predict`.

        Args:
            path: The file, whose name ends in `.json` (text) or `.npz` (for very many features).

        Raises:
            ValueError: If the name has another ending.
            OSError: If the file cannot be written; an existing file is then unchanged.
        """
        write(self, path)


_ASIDE = ("lane_steps", "names", "groups")
_LEAVES = tuple(f.name for f in dataclasses.fields(Result) if f.name not in _ASIDE)


_Static = tuple[Names | None, tuple[Label, ...] | None]


def _flatten(result: Result) -> tuple[tuple[Any, ...], _Static]:
    return tuple(getattr(result, name) for name in _LEAVES), (result.names, result.groups)


def _flatten_with_keys(result: Result) -> tuple[tuple[Any, ...], _Static]:
    pairs = ((jax.tree_util.GetAttrKey(name), getattr(result, name)) for name in _LEAVES)
    return tuple(pairs), (result.names, result.groups)


def _unflatten(static: _Static, leaves: Iterable[Any]) -> Result:
    # Without `__init__`, since JAX fills pytrees with placeholders.
    result = object.__new__(Result)
    names, groups = static
    result.__dict__.update(zip(_LEAVES, leaves, strict=True), names=names, groups=groups)
    result.__dict__.update(lane_steps=None)
    return result


jax.tree_util.register_pytree_with_keys(Result, _flatten_with_keys, _unflatten, _flatten)


def named(result: Result, names: Names | None) -> Result:
    """The result with names for its features and its target."""
    return result if names is None else result._replace(names=names)


def _plain_index(index: Any) -> Any:
    """An index that NumPy accepts."""
    return np.asarray(index) if isinstance(index, jax.Array | list) else index


def _places(places: np.ndarray) -> str:
    """The places of the first few fits in a batch, for a message."""
    if places.shape[1] == 0:
        return ""
    first = [str(p[0] if len(p) == 1 else tuple(p.tolist())) for p in places[:10]]
    rest = f" and {len(places) - 10} more" if len(places) > 10 else ""
    return f" (fit {', '.join(first)}{rest})"
