"""The data of a fit: the problem and the state of the iteration.

The names of the quantities, here and everywhere else:

=================  ==========  =========================================================
name               shape       meaning (symbol of the paper)
=================  ==========  =========================================================
`X`, `y`           (k, n), n   features, one contiguous row each, and the target
`mask_mean`        (k, n)      posterior mean of the mask (mu)
`weights`          k           effect of a feature where it is not masked (beta)
`inclusion`        k           prior rate at which a feature is left in (pi)
`log_odds`         k           log(pi / (1 - pi)), stored in the state for pi
`noise_precision`  scalar      one over the noise variance (lambda)
`active`           k           whether each feature is not pruned
`coef`             k           weights * inclusion: the effect on the mean of y
`bound`            scalar      lower bound of FIC over the active features (G)
=================  ==========  =========================================================

Users give `X` as (n, k). Inside, it is stored feature by feature, since the E step visits one
feature after another.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bmjax._model.groups import Groups
from bmjax._runtime.backend import Array, namespace, sigmoid


class Problem(NamedTuple):
    """One dataset with all that is fixed during its fit.

    Attributes:
        X: Features, one row each (feature-major).
        y: Target.
        noise_precision: The known noise precision, or None to learn it.
        prune_threshold: A feature whose mean mask falls below this is pruned.
        sample_weights: How often each sample counts, None for once each. A row of weight zero must
            still hold finite numbers.
        unmasked: Whether each feature is never masked and never pruned, None for none.
        of_features: Number of features of the dataset, if some of them have no row in X or some
            rows of X are padding; None if the rows of X are all its features.
        family: The distribution of y given its predictor, None for the Gaussian; see `family`.
        log_base: The log likelihood minus that of the Gaussian problem, for a problem that touches
            the likelihood of another family; None for zero.
        groups: Groups of columns that share their mask and rate, None if each has its own.
        blocks: The `Blocks` of samples that a pass takes one after another, None for all at once.

    Example:
        >>> import jax.numpy as jnp
        >>> import bmjax
        >>> X, y, _ = bmjax.datasets.load_diabetes()
        >>> X, y = (jnp.asarray(a - a.mean(axis=0)) / a.std(axis=0) for a in (X, y))
        >>> problem = bmjax.Problem(X.T, y, None, prune_threshold=jnp.asarray(1e-6, y.dtype))
        >>> problem.num_samples, int(problem.num_features)
        (442, 10)
    """

    X: Float[Array, "k n"]
    y: Float[Array, " n"]
    noise_precision: Float[Array, ""] | None
    prune_threshold: Float[Array, ""]
    sample_weights: Float[Array, " n"] | None = None
    unmasked: Bool[Array, " k"] | None = None
    of_features: Int[Array, ""] | None = None
    family: Any = None
    log_base: Float[Array, ""] | None = None
    groups: Groups | None = None
    blocks: Any = None

    @property
    def num_features(self) -> Int[Array, ""]:
        """Number of features of the dataset."""
        if self.of_features is None:
            return np.asarray(len(self.X), np.int32)
        return self.of_features

    @property
    def num_samples(self) -> int | Float[Array, ""]:
        """Number of samples n, the sum of the sample weights."""
        if self.sample_weights is None:
            return self.X.shape[1]
        return self.sample_weights.sum()

    @property
    def num_rows(self) -> int | Int[Array, ""]:
        """Number of rows of weight above zero."""
        if self.sample_weights is None:
            return self.X.shape[1]
        return (self.sample_weights > 0).sum(dtype="int32")

    @property
    def log_samples(self) -> float | Float[Array, ""]:
        """The logarithm of n."""
        n = self.num_samples
        return math.log(n) if isinstance(n, int) else namespace(n).log(n)

    @property
    def maskable(self) -> Bool[Array, " k"]:
        """Whether each feature may be masked and pruned."""
        if self.unmasked is None:
            return namespace(self.X).ones(len(self.X), bool)
        return ~self.unmasked

    @property
    def dtype(self) -> Any:
        """The floating-point type of the fit."""
        return self.y.dtype

    @property
    def mean_squares(self) -> Float[Array, " k"]:
        """Mean square of each feature."""
        return self.squares / self.num_samples

    @property
    def squares(self) -> Float[Array, " k"]:
        """Sum of squares of each feature."""
        if not isinstance(self.X, np.ndarray):
            return self.total(self.X**2)
        # Without an array of the size of X; rows of weight zero are zero.
        weights = self.sample_weights
        if weights is None or np.isin(weights, (0, 1)).all():
            return np.einsum("kn,kn->k", self.X, self.X)
        return np.einsum("kn,kn,n->k", self.X, self.X, weights)

    @property
    def target_square(self) -> Float[Array, ""]:
        """Mean square of the target."""
        return self.mean(self.y**2)

    @property
    def noise_floor(self) -> Float[Array, ""]:
        """The smallest noise variance that residuals of y can show in this type."""
        return smallest_variance(self.target_square)

    def weighted(self, values: Float[Array, "*d n"]) -> Float[Array, "*d n"]:
        """Values of the samples times the sample weights."""
        if self.sample_weights is None:
            return values
        return values * namespace(values).broadcast_to(self.sample_weights, values.shape)

    def total(self, values: Float[Array, "*d n"]) -> Float[Array, "*d"]:
        """The sum over samples."""
        return self.weighted(values).sum(axis=-1)

    def mean(self, values: Float[Array, "*d n"]) -> Float[Array, "*d"]:
        """The mean over samples."""
        if self.sample_weights is None:
            return values.mean(axis=-1)
        return self.total(values) / self.num_samples


class Totals(NamedTuple):
    """The totals of a dataset: the parts of a `Problem` that do not need its rows.

    Attributes:
        num_samples: Number of samples n, the sum of the sample weights.
        num_rows: Number of rows of weight above zero.
        mean_squares: Mean square of each feature.
        target_square: Mean square of the target.
        maskable: Whether each feature may be masked and pruned.
        noise_precision: The known noise precision, or None to learn it.
        prune_threshold: A feature whose mean mask falls below this is pruned.
        log_base, family: As in a `Problem`.
    """

    num_samples: Float[Array, ""]
    num_rows: Int[Array, ""]
    mean_squares: Float[Array, " k"]
    target_square: Float[Array, ""]
    maskable: Bool[Array, " k"]
    noise_precision: Float[Array, ""] | None
    prune_threshold: Float[Array, ""]
    log_base: Float[Array, ""] | None = None
    family: Any = None

    @property
    def groups(self) -> None:
        """None, since groups require the rows in memory."""

    @property
    def log_samples(self) -> Float[Array, ""]:
        """The logarithm of n."""
        return namespace(self.num_samples).log(self.num_samples)

    @property
    def num_features(self) -> Int[Array, ""]:
        """Number of features of the dataset."""
        return np.asarray(len(self.mean_squares), np.int32)

    @property
    def dtype(self) -> Any:
        """The floating-point type of the fit."""
        return self.mean_squares.dtype

    @property
    def noise_floor(self) -> Float[Array, ""]:
        """The smallest noise variance that residuals of y can show in this type."""
        return smallest_variance(self.target_square)


class State(NamedTuple):
    """Everything that an iteration changes. Pruning clears `active`; shapes never change.

    The inclusion rate is carried as its log-odds because both ends matter: near one, `1 - pi`
    is lost in float32 at 6e-8; near zero `pi` spans many orders of magnitude. A rate of exactly
    one is `inf`, of exactly zero `-inf`, and every function of the state is exact there.

    Example:
        >>> import jax.numpy as jnp
        >>> import bmjax
        >>> X, y, _ = bmjax.datasets.load_diabetes()
        >>> X, y = (jnp.asarray(a - a.mean(axis=0)) / a.std(axis=0) for a in (X, y))
        >>> problem = bmjax.Problem(X.T, y, None, prune_threshold=jnp.asarray(1e-6, y.dtype))
        >>> state = bmjax.initialise(problem, jnp.full(10, 0.5, y.dtype))
        >>> state.inclusion.tolist()[:2], bool(state.finite)
        ([0.5, 0.5], True)
    """

    mask_mean: Float[Array, "k n"]
    weights: Float[Array, " k"]
    log_odds: Float[Array, " k"]
    noise_precision: Float[Array, ""]
    active: Bool[Array, " k"]

    @property
    def inclusion(self) -> Float[Array, " k"]:
        """Inclusion rates pi."""
        return sigmoid(self.log_odds)

    @property
    def coef(self) -> Float[Array, " k"]:
        """Effect of each feature on the mean of y, weights * inclusion."""
        return self.weights * self.inclusion

    @property
    def finite(self) -> Bool[Array, ""]:
        """Whether every parameter is a number (log-odds may be infinite, not NaN)."""
        xp = namespace(self.weights)
        return (
            xp.isfinite(self.weights).all()
            & xp.isfinite(self.noise_precision)
            & ~xp.isnan(self.log_odds).any()
        )


def smallest_variance(target_square: Float[Array, ""]) -> Float[Array, ""]:
    """The smallest noise variance that residuals of y can show in their floating-point type."""
    info = jnp.finfo(target_square.dtype)
    return namespace(target_square).maximum((8 * info.eps) ** 2 * target_square, 1e4 * info.tiny)


# A column that varies by no more than this many roundings of its mean counts as constant.
DUST = 16


def centred(
    data: Problem, values: Float[Array, "*d n"]
) -> tuple[Float[Array, "*d n"], Float[Array, "*d"]]:
    """Values minus their mean, and the mean, in two rounds for accuracy in float32."""
    xp = namespace(values)
    first = data.mean(values)
    left = values - first[..., None]
    rest = data.mean(left)
    left = left - rest[..., None]
    if data.sample_weights is not None:
        left = xp.where(xp.broadcast_to(data.sample_weights, left.shape) > 0, left, 0)
    widest = xp.max(xp.abs(left), axis=-1)
    constant = widest <= DUST * xp.finfo(values.dtype).eps * xp.abs(first)
    return xp.where(constant[..., None], 0, left), first + rest
