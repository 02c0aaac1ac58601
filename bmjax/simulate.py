"""Synthetic datasets: the two designs of the paper and harder ones that it lacks.

Every design is a pure function of a JAX key: the same key and options give the same dataset, and
`jax.vmap` over keys gives a batch. Sizes are Python numbers, since they fix shapes; all other
options may be traced. The draws of a key differ between float32 and float64.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Array, Bool, Float

from bmjax._checks import validate
from bmjax._runtime.precision import full_precision

__all__ = [
    "Dataset",
    "ar1_design",
    "block_design",
    "heavy_tailed_design",
    "sparse_design",
    "two_features",
    "uniform_design",
    "wide_design",
]


def __dir__() -> list[str]:
    return __all__


# Beyond this correlation, columns are equal up to rounding in float32.
_MAX_CORRELATION = 0.999


class Dataset(NamedTuple):
    """A synthetic dataset and the truth behind it: y = X @ coef + noise.

    Attributes:
        X: Features, samples in rows.
        y: Target.
        coef: True effects, exactly zero for an irrelevant feature.
        noise_precision: One over the variance of the noise.

    Example:
        >>> import jax
        >>> from bmjax import simulate
        >>> data = simulate.two_features(jax.random.key(0), pairs=5)
        >>> data.X.shape, data.y.shape, int((data.coef != 0).sum())
        ((10, 2), (10,), 1)
    """

    X: Float[Array, "*b n k"]
    y: Float[Array, "*b n"]
    coef: Float[Array, "*b k"]
    noise_precision: Float[Array, "*b"]


def two_features(
    key: jax.Array,
    pairs: int = 20,
    *,
    noise_precision: ArrayLike = 200.0,
    dtype: DTypeLike | None = None,
) -> Dataset:
    """Section 5.2 of the paper, equation (21): rows (1, 0) and (0.5, 1); the second feature acts.

    Args:
        key: A JAX random key.
        pairs: Number of repetitions of the two rows; n = 2 * pairs.
        noise_precision: One over the noise variance; the paper has 1 / 0.005.
        dtype: Floating-point type. Default: JAX's own, float32 unless float64 is enabled.

    Returns:
        The dataset, with X (2 * pairs, 2).

    Raises:
        TypeError: If an option has the wrong type.
        ValueError: If an option is out of range.

    Example:
        >>> import jax
        >>> from bmjax import simulate
        >>> data = simulate.two_features(jax.random.key(0), pairs=5)
        >>> data.X.shape, data.y.shape, int((data.coef != 0).sum())
        ((10, 2), (10,), 1)
    """
    pairs, dtype = validate.count("pairs", pairs, low=1), _floating(dtype)
    precision = validate.number("noise_precision", noise_precision, dtype, low=0, open_low=True)
    X = jnp.tile(jnp.asarray([[1.0, 0.0], [0.5, 1.0]], dtype), (pairs, 1))
    noise = jax.random.normal(key, (2 * pairs,), dtype)
    return _dataset(X, jnp.asarray([0.0, 1.0], dtype), noise, precision)


def uniform_design(
    key: jax.Array,
    k: int,
    n: int | None = None,
    *,
    noise_precision: ArrayLike = 5.0,
    dtype: DTypeLike | None = None,
) -> Dataset:
    """Section 5.3 of the paper: X and coef from U[0, 1], with half of coef set to zero.

    The columns are not centred, so any two have cosine 0.75 and X'X is close to rank one plus a
    diagonal. The k // 2 irrelevant features are drawn at random.

    Args:
        key: A JAX random key.
        k: Number of features.
        n: Number of samples. Default: 20 * k, as in the paper.
        noise_precision: One over the noise variance; the paper has 1 / 0.2.
        dtype: Floating-point type. Default: JAX's own.

    Returns:
        The dataset, with X (n, k).

    Raises:
        TypeError: If an option has the wrong type.
        ValueError: If an option is out of range.

    Example:
        >>> import jax
        >>> from bmjax import simulate
        >>> data = simulate.uniform_design(jax.random.key(0), 6)
        >>> data.X.shape, data.y.shape, int((data.coef != 0).sum())
        ((120, 6), (120,), 3)
    """
    n, k = _sizes(n, k)
    dtype = _floating(dtype)
    precision = validate.number("noise_precision", noise_precision, dtype, low=0, open_low=True)
    for_X, for_place, for_noise = jax.random.split(key, 3)
    X, effects = jnp.split(jax.random.uniform(for_X, (n + 1, k), dtype), [n])
    # In (0, 1], since a relevant feature must not have effect zero.
    effects = 1 - effects[0]
    relevant = _some_of(for_place, k, k - k // 2)
    noise = jax.random.normal(for_noise, (n,), dtype)
    return _dataset(X, jnp.where(relevant, effects, 0), noise, precision)


def sparse_design(
    key: jax.Array,
    k: int,
    n: int | None = None,
    *,
    num_relevant: int | None = None,
    signal_to_noise: ArrayLike = 1.0,
    dtype: DTypeLike | None = None,
) -> Dataset:
    """Independent standard normal features, few of them relevant, at a given signal-to-noise ratio.

    Here and in the designs below, the relevant features are drawn at random, their effects have
    random signs and sizes from U[0.5, 1.5], and the noise variance is such that the variance of X @
    coef (over samples, for this coef) is `signal_to_noise` times as large.

    Args:
        key: A JAX random key.
        k: Number of features.
        n: Number of samples. Default: 20 * k.
        num_relevant: Number of features that act. Default: a tenth of them, at least one.
        signal_to_noise: Variance of the signal over that of the noise.
        dtype: Floating-point type. Default: JAX's own.

    Returns:
        The dataset, with X (n, k).

    Raises:
        TypeError: If an option has the wrong type.
        ValueError: If an option is out of range.

    Example:
        >>> import jax
        >>> from bmjax import simulate
        >>> data = simulate.sparse_design(jax.random.key(0), 6, num_relevant=2)
        >>> data.X.shape, data.y.shape, int((data.coef != 0).sum())
        ((120, 6), (120,), 2)
    """
    if num_relevant is None:
        num_relevant = max(1, validate.count("k", k, low=1) // 10)
    return ar1_design(
        key,
        k,
        n,
        correlation=0.0,
        num_relevant=num_relevant,
        signal_to_noise=signal_to_noise,
        dtype=dtype,
    )


@full_precision
def ar1_design(  # noqa: PLR0913 - public options
    key: jax.Array,
    k: int,
    n: int | None = None,
    *,
    correlation: ArrayLike = 0.7,
    num_relevant: int | None = None,
    signal_to_noise: ArrayLike = 3.0,
    dtype: DTypeLike | None = None,
) -> Dataset:
    """Normal features whose columns i and j have the correlation `correlation ** |i - j|`.

    Args:
        key: A JAX random key.
        k: Number of features.
        n: Number of samples. Default: 20 * k.
        correlation: Correlation of neighbours, from -0.999 to 0.999.
        num_relevant: Number of features that act. Default: half of them, at least one.
        signal_to_noise: Variance of the signal over that of the noise, see `sparse_design`.
        dtype: Floating-point type. Default: JAX's own.

    Returns:
        The dataset, with X (n, k).

    Raises:
        TypeError: If an option has the wrong type.
        ValueError: If an option is out of range.

    Example:
        >>> import jax
        >>> from bmjax import simulate
        >>> data = simulate.ar1_design(jax.random.key(0), 6, num_relevant=2)
        >>> data.X.shape, data.y.shape, int((data.coef != 0).sum())
        ((120, 6), (120,), 2)
    """
    n, k = _sizes(n, k)
    dtype = _floating(dtype)
    rho = _correlation(correlation, dtype, low=-_MAX_CORRELATION)
    ratio = _ratio(signal_to_noise, dtype)
    for_normal, for_coef, for_place = jax.random.split(key, 3)
    coef = _sparse_coef(for_coef, for_place, k, num_relevant, dtype)
    # The Cholesky factor of the correlation matrix, in closed form.
    lag = jnp.arange(k)[:, None] - jnp.arange(k)[None, :]
    powers = jnp.cumprod(jnp.where(jnp.arange(k) == 0, 1, rho))
    innovation = jnp.where(jnp.arange(k) == 0, 1, jnp.sqrt(1 - rho**2))
    factor = jnp.where(lag >= 0, powers[jnp.abs(lag)], 0) * innovation[None, :]
    normal = jax.random.normal(for_normal, (n, k + 1), dtype)
    X, noise = normal[:, :k] @ factor.T, normal[:, k]
    precision = ratio / jnp.sum((factor.T @ coef) ** 2)
    return _dataset(X, coef, noise, precision)


def block_design(  # noqa: PLR0913 - public options
    key: jax.Array,
    k: int,
    n: int | None = None,
    *,
    block_size: int = 5,
    correlation: ArrayLike = 0.7,
    num_relevant: int | None = None,
    signal_to_noise: ArrayLike = 3.0,
    dtype: DTypeLike | None = None,
) -> Dataset:
    """Normal features in blocks: equally correlated within a block, independent between blocks.

    Args:
        key: A JAX random key.
        k: Number of features.
        n: Number of samples. Default: 20 * k.
        block_size: Number of features in a block; the last block may be smaller.
        correlation: Correlation within a block, from 0 to 0.999.
        num_relevant: Number of features that act. Default: half of them, at least one.
        signal_to_noise: Variance of the signal over that of the noise, see `sparse_design`.
        dtype: Floating-point type. Default: JAX's own.

    Returns:
        The dataset, with X (n, k).

    Raises:
        TypeError: If an option has the wrong type.
        ValueError: If an option is out of range.

    Example:
        >>> import jax
        >>> from bmjax import simulate
        >>> data = simulate.block_design(jax.random.key(0), 6, block_size=3, num_relevant=2)
        >>> data.X.shape, data.y.shape, int((data.coef != 0).sum())
        ((120, 6), (120,), 2)
    """
    n, k = _sizes(n, k)
    block_size, dtype = validate.count("block_size", block_size, low=1), _floating(dtype)
    rho = _correlation(correlation, dtype, low=0)
    ratio = _ratio(signal_to_noise, dtype)
    for_normal, for_coef, for_place = jax.random.split(key, 3)
    coef = _sparse_coef(for_coef, for_place, k, num_relevant, dtype)
    block = jnp.arange(k) // block_size
    num_blocks = -(-k // block_size)
    normal = jax.random.normal(for_normal, (n, k + 1 + num_blocks), dtype)
    own, noise, shared = normal[:, :k], normal[:, k], normal[:, k + 1 :]
    X = jnp.sqrt(rho) * shared[:, block] + jnp.sqrt(1 - rho) * own
    totals = jnp.zeros(num_blocks, dtype).at[block].add(coef)
    signal_variance = rho * jnp.sum(totals**2) + (1 - rho) * jnp.sum(coef**2)
    return _dataset(X, coef, noise, ratio / signal_variance)


def heavy_tailed_design(  # noqa: PLR0913 - public options
    key: jax.Array,
    k: int,
    n: int | None = None,
    *,
    degrees_of_freedom: ArrayLike = 3.0,
    num_relevant: int | None = None,
    signal_to_noise: ArrayLike = 3.0,
    dtype: DTypeLike | None = None,
) -> Dataset:
    """Independent standard normal features, and noise with Student's t distribution.

    The noise is scaled to the variance that `signal_to_noise` asks for, so that only its shape
    differs from that of `sparse_design`.

    Args:
        key: A JAX random key.
        k: Number of features.
        n: Number of samples. Default: 20 * k.
        degrees_of_freedom: Degrees of freedom of the noise, above 2, where its variance is finite.
        num_relevant: Number of features that act. Default: half of them, at least one.
        signal_to_noise: Variance of the signal over that of the noise, see `sparse_design`.
        dtype: Floating-point type. Default: JAX's own.

    Returns:
        The dataset, with X (n, k).

    Raises:
        TypeError: If an option has the wrong type.
        ValueError: If an option is out of range.

    Example:
        >>> import jax
        >>> from bmjax import simulate
        >>> data = simulate.heavy_tailed_design(jax.random.key(0), 6, num_relevant=2)
        >>> data.X.shape, data.y.shape, int((data.coef != 0).sum())
        ((120, 6), (120,), 2)
    """
    n, k = _sizes(n, k)
    dtype = _floating(dtype)
    dof = validate.number("degrees_of_freedom", degrees_of_freedom, dtype, low=2, open_low=True)
    ratio = _ratio(signal_to_noise, dtype)
    for_X, for_noise, for_coef, for_place = jax.random.split(key, 4)
    coef = _sparse_coef(for_coef, for_place, k, num_relevant, dtype)
    X = jax.random.normal(for_X, (n, k), dtype)
    noise = jax.random.t(for_noise, dof, (n,), dtype) * jnp.sqrt((dof - 2) / dof)
    return _dataset(X, coef, noise, ratio / jnp.sum(coef**2))


def wide_design(  # noqa: PLR0913 - public options
    key: jax.Array,
    k: int,
    n: int | None = None,
    *,
    correlation: ArrayLike = 0.0,
    num_relevant: int | None = None,
    signal_to_noise: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
) -> Dataset:
    """Fewer samples than features: AR(1) correlated normal features, very few of them relevant.

    Args:
        key: A JAX random key.
        k: Number of features, at least 4.
        n: Number of samples, below k. Default: k // 2.
        correlation: Correlation of neighbours, from -0.999 to 0.999.
        num_relevant: Number of features that act. Default: a tenth of n, at least one.
        signal_to_noise: Variance of the signal over that of the noise, see `sparse_design`.
        dtype: Floating-point type. Default: JAX's own.

    Returns:
        The dataset, with X (n, k).

    Raises:
        TypeError: If an option has the wrong type.
        ValueError: If an option is out of range or n is not below k.

    Example:
        >>> import jax
        >>> from bmjax import simulate
        >>> data = simulate.wide_design(jax.random.key(0), 60, 20, num_relevant=2)
        >>> data.X.shape, data.y.shape, int((data.coef != 0).sum())
        ((20, 60), (20,), 2)
    """
    k = validate.count("k", k, low=4)
    n = k // 2 if n is None else validate.count("n", n, low=2)
    if n >= k:
        raise ValueError(f"n is {n} and k is {k}; a wide design has n below k.")
    return ar1_design(
        key,
        k,
        n,
        correlation=correlation,
        num_relevant=max(1, n // 10) if num_relevant is None else num_relevant,
        signal_to_noise=signal_to_noise,
        dtype=dtype,
    )


def _sizes(n: int | None, k: int) -> tuple[int, int]:
    k = validate.count("k", k, low=1)
    return max(2, 20 * k) if n is None else validate.count("n", n, low=2), k


def _floating(dtype: DTypeLike | None) -> jnp.dtype:
    if dtype is None:
        return jnp.result_type(float)
    try:
        canonical = jax.dtypes.canonicalize_dtype(dtype)
    except TypeError:
        raise TypeError(f"dtype is {dtype!r}; give a floating-point type.") from None
    if not jnp.issubdtype(canonical, jnp.floating):
        raise TypeError(f"dtype is {canonical}; give a floating-point type.")
    return canonical


def _correlation(value: ArrayLike, dtype: jnp.dtype, *, low: float) -> Float[Array, ""]:
    return validate.number(
        "correlation", value, dtype, low=low, high=_MAX_CORRELATION, open_low=False
    )


def _sparse_coef(
    key: jax.Array, for_place: jax.Array, k: int, num_relevant: int | None, dtype: jnp.dtype
) -> Float[Array, " k"]:
    """Effects of random sign and size from U[0.5, 1.5] at random places, zero elsewhere."""
    if num_relevant is None:
        num_relevant = max(1, k // 2)
    num_relevant = validate.count("num_relevant", num_relevant, low=1)
    if num_relevant > k:
        raise ValueError(f"num_relevant is {num_relevant} but there are only {k} features.")
    signed = jax.random.uniform(key, (k,), dtype, -1, 1)
    effects = jnp.where(signed < 0, signed - 0.5, signed + 0.5)
    return jnp.where(_some_of(for_place, k, num_relevant), effects, 0)


def _some_of(key: jax.Array, k: int, number: int) -> Bool[Array, " k"]:
    """A given number of k places, drawn with equal probability for every set of them."""
    # Ranks by comparison, ties by place: a sort or a permutation takes longer to compile.
    draw, place = jax.random.bits(key, (k,)), jnp.arange(k)
    before = (draw[:, None] > draw[None, :]) | (
        (draw[:, None] == draw[None, :]) & (place[:, None] > place[None, :])
    )
    return jnp.sum(before, axis=1) < number


def _ratio(signal_to_noise: ArrayLike, dtype: jnp.dtype) -> Float[Array, ""]:
    return validate.number("signal_to_noise", signal_to_noise, dtype, low=0, open_low=True)


@full_precision
def _dataset(
    X: Float[Array, "n k"],
    coef: Float[Array, " k"],
    noise: Float[Array, " n"],
    precision: Float[Array, ""],
) -> Dataset:
    """The dataset, with noise of unit variance scaled to the given precision."""
    return Dataset(X, X @ coef + noise / jnp.sqrt(precision), coef, precision)
