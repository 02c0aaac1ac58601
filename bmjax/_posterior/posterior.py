"""`posterior`: which features act, as probabilities."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from bmjax._checks import inputs, validate
from bmjax._io.progress_bar import progress_bar
from bmjax._posterior.exact import enumerated_all
from bmjax._posterior.found import Found, found_by_chains
from bmjax._posterior.prior import evidence_of, log_size_prior
from bmjax._posterior.result import Posterior
from bmjax._posterior.sampling import GROUP, Plan
from bmjax._posterior.sums import Sums, sums_of
from bmjax._posterior.units import in_units, stacked
from bmjax._results.names import names_of, numbers_of
from bmjax._runtime.precision import full_precision
from bmjax._runtime.threads import one_blas_thread
from bmjax._selection.neighbours import most_features

_MOST_ENUMERATED = 20


def posterior(  # noqa: PLR0913 - public options
    X: ArrayLike,
    y: ArrayLike,
    key: jax.Array | None = None,
    *,
    intercept: bool = False,
    unmasked: ArrayLike | None = None,
    sample_weights: ArrayLike | None = None,
    standardize: bool = False,
    noise_precision: ArrayLike | None = None,
    enumerate_up_to: int = 15,
    chains: int = 16,
    tolerance: float = 0.01,
    max_steps: int = 20_000,
    supports: int = 256,
    progress: bool | None = None,
) -> Posterior:
    """The posterior over supports: the probability of each feature, and effects averaged over all.

    Where `fit` chooses one support, this weighs all of them: y is normal around the effects of the
    features in the support; given the support the effects have Zellner's prior, of a width that is
    learned; each feature is in with a rate that is learned as well. The evidence of a support is
    then a closed form. Up to `enumerate_up_to` features every support is looked at; beyond, chains
    of supports are run until they agree. Where nothing is measured but which features are ever
    unmasked, this is the posterior that the support of `fit` is a single choice from.

    Computed in float64 whatever the input, and returned in the floating-point type of the input as
    JAX sees it; no setting of JAX is changed. Results do not depend on the units of columns and y,
    nor with an intercept on their zeros. Not for use inside `jit`.

    Args:
        X: (n, k) features, samples in rows; or (b, n, k), several datasets, or (n, k) shared by
            all of them if y is (b, n).
        y: (n,) target, or (b, n).
        key: A JAX random key, on which alone the draws depend. Default: jax.random.key(0). Dataset
            i of several draws as one alone with jax.random.fold_in(key, i). Where every support
            is looked at nothing is drawn.
        intercept: Whether the level of y is free, with a flat prior. Default: no, as in `fit`.
        unmasked: Features that are always in, with a flat prior on their effects: (k,) booleans,
            their numbers, or their names if X is a frame.
        sample_weights: (n,) how often each row counts, or (b, n): with 0 it is absent, and an
            integer is the same as the row repeated.
        standardize: Taken so that calls read like those of `fit`; without effect, since nothing
            depends on units.
        noise_precision: One over the noise variance where it is known; else it is summed out.
        enumerate_up_to: Most features, those always in not counted, of which every support is
            looked at: 2^k of them. At most 20; 0 for chains always.
        chains: How many chains, a multiple of 8.
        tolerance: The chains end when the Monte Carlo standard error of every probability is at
            most this.
        max_steps: Most steps of each chain; 1024 are made in any case.
        supports: Most supports to keep in the result, from which intervals, credible sets and the
            standard deviation of predictions are computed.
        progress: Whether to show a progress bar. Default: if stderr is a terminal and rich is
            installed.

    Returns:
        The posterior. `status` says how it ended: `CONVERGED` if every support was looked at or
        the chains agree, `MAX_STEPS` if they do not, `EXACT_FIT` if the most probable support
        leaves nothing but rounding, `NON_FINITE` for a dataset, of several, that is not finite.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit, a value is not finite, or an option is out of range.

    Example:
        >>> import numpy as np, bmjax
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(60, 5))
        >>> y = X[:, 0] - X[:, 3] + rng.normal(size=60)
        >>> found = bmjax.posterior(X, y, intercept=True)
        >>> found.select(fdr=0.1).tolist()
        [True, False, False, True, False]

    Reference:
        Liang, Paulo, Molina, Clyde and Berger, "Mixtures of g priors for Bayesian variable
        selection", JASA 2008; Zanella, "Informed proposals for local MCMC in discrete spaces",
        JASA 2020; Zhou and Smith, "Rapid convergence of informed importance tempering", 2022.
    """
    if not inputs.at_hand(X, y, sample_weights):
        raise TypeError(
            "posterior needs the values of X and y, which inside jit and vmap are not there; call "
            "it outside, with several datasets as (b, n, k) and (b, n)."
        )
    with jax.ensure_compile_time_eval():  # also while a function of the caller's is traced
        validate.flag("intercept", intercept)
        validate.flag("standardize", standardize)
        limit = validate.count("enumerate_up_to", enumerate_up_to, low=0, high=_MOST_ENUMERATED)
        plan = Plan(
            chains=_chains(chains),
            tolerance=float(
                validate.number("tolerance", tolerance, float, low=0, high=1, open_low=True)
            ),
            max_steps=validate.steps("max_steps", max_steps),
        )
        count = validate.count("supports", supports, low=1, high=100_000)
        precision = None
        if noise_precision is not None:
            known = validate.number("noise_precision", noise_precision, float, low=0, open_low=True)
            precision = float(known)
        words = validate.key_words(jax.random.key(0) if key is None else key)
        data = _data(X, y, sample_weights)
        k = data.X.shape[-1]
        always = np.zeros(k, bool)
        if unmasked is not None:
            chosen = numbers_of("unmasked", unmasked, names_of(X))
            always = np.asarray(validate.chosen_features("unmasked", chosen, k))
            if always.all():
                raise ValueError(
                    f"unmasked names all {k} features, so there is nothing to choose; leave out "
                    "those that may be absent, or use least squares."
                )
        free = k - int(always.sum())
        every = free <= limit
        several = data.y.ndim == 2
        number = len(data.y) if several else 1
        title = "supports" if every else "steps of chains"
        total = number if every else number * plan.max_steps
        # In float64, by a setting of this thread alone: the residual of a good fit is a difference
        # of large numbers.
        with (
            progress_bar(title, total, progress) as bar,
            jax.enable_x64(True),
            np.errstate(all="ignore"),
            one_blas_thread(),
        ):
            sums = [_sums(data, i, intercept, always) for i in range(number)]
            found = _found(sums, precision, every, words, plan, count, several, partial(bar, title))
            fields = [in_units(one, own, intercept) for one, own in zip(found, sums, strict=True)]
        whole = stacked(fields, k) if several else fields[0]
        return jax.tree.map(partial(_as_seen, data.dtype), whole)


class _Data(NamedTuple):
    """Checked data, one dataset or several."""

    X: np.ndarray
    y: np.ndarray
    counts: np.ndarray | None
    dtype: Any


def _chains(chains: Any) -> int:
    number = validate.count("chains", chains, low=GROUP, high=10_000)
    if number % GROUP:
        raise ValueError(f"chains is {number}; it must be a multiple of {GROUP}.")
    return number


def _data(X: Any, y: Any, sample_weights: Any) -> _Data:
    shape = np.shape(y)
    if len(np.shape(X)) == 3 or (len(shape) == 2 and shape[1] > 1):
        features, target, counts, dtype = inputs.batch(X, y, sample_weights)
    else:
        features, target, counts, dtype = inputs.on_host(X, y, sample_weights)
    counts = None if counts is None else np.asarray(counts)
    return _Data(np.asarray(features), np.asarray(target), counts, dtype)


def _sums(data: _Data, i: int, intercept: bool, always: np.ndarray) -> Sums:
    several = data.y.ndim == 2
    X = data.X[i] if data.X.ndim == 3 else data.X
    y = data.y[i] if several else data.y
    counts = data.counts[i] if several and data.counts is not None else data.counts
    present = slice(None) if counts is None else counts > 0
    good = np.isfinite(X[present]).all() and np.isfinite(y[present]).all()
    if not good:  # one of several: its own result is NaN, the others are as they are
        X, y = np.zeros_like(X, float), np.zeros_like(y, float)
    sums = sums_of(X, y, counts, intercept=intercept, always=always)
    return sums if good else sums._replace(y_scale=float("nan"))


@full_precision
def _found(  # noqa: PLR0913 - what is found of a posterior, and how
    sums: list[Sums],
    precision: float | None,
    every: bool,
    words: list[int],
    plan: Plan,
    count: int,
    several: bool,
    report: Any,
) -> list[Found]:
    """What is found of each dataset, in the units of the sums."""
    free = len(sums[0].columns)
    most = [int(most_features(max(one.rows, 0), free)) for one in sums]
    log_size = np.stack([log_size_prior(free, size, free + 1) for size in most])
    known = None
    if precision is not None:
        known = np.array([precision * np.nan_to_num(one.y_scale, nan=1.0) ** 2 for one in sums])
    evidence = evidence_of(np.array([one.freedom for one in sums]), log_size, known)
    if every:
        return enumerated_all(sums, evidence, count, report)
    found = []
    for i, one in enumerate(sums):
        own = jax.tree.map(lambda leaf, i=i: leaf[i], evidence)
        draws = words
        if several:
            base = jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32))
            draws = validate.key_words(jax.random.fold_in(base, i))
        found.append(found_by_chains(one, own, most[i], draws, plan, count, report))
    return found


def _as_seen(dtype: Any, leaf: np.ndarray) -> jax.Array:
    """A field of the result in the type of the input."""
    with np.errstate(all="ignore"):
        floating = np.issubdtype(leaf.dtype, np.floating)
        return jax.device_put(np.asarray(leaf).astype(dtype) if floating else np.asarray(leaf))
