"""`posterior`: the probability that each feature acts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.typing import ArrayLike

from bmjax._checks import inputs, validate
from bmjax._fitting.checking import family_of
from bmjax._io.progress_bar import progress_bar
from bmjax._model.distributions import Student
from bmjax._model.family import Family
from bmjax._posterior.exact import enumerated_all
from bmjax._posterior.found import found_by_chains
from bmjax._posterior.given import Given, Squared, checked_data, given_of, squared
from bmjax._posterior.reference import Reference, reference
from bmjax._posterior.result import Posterior
from bmjax._posterior.reweighted import chains_reweighted, judged, reweighted
from bmjax._posterior.sampling import GROUP, Plan
from bmjax._posterior.units import in_units, stacked
from bmjax._results.names import names_of, numbers_of
from bmjax._runtime import sharding
from bmjax._runtime.precision import full_precision
from bmjax._runtime.threads import one_blas_thread

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
    family: str | Family = "gaussian",
    enumerate_up_to: int = 15,
    chains: int = 16,
    tolerance: float = 0.01,
    max_steps: int = 20_000,
    supports: int = 256,
    mesh: Mesh | None = None,
    progress: bool | None = None,
) -> Posterior:
    """Compute the posterior over supports: probabilities of features, and averaged effects.

    `fit` chooses one support; this function weights all of them. y is normal around the sum of the
    effects of the features in the support; given the support, the effects have Zellner's prior,
    with a width that is learned; each feature is in the support with a rate that is learned as
    well. The evidence of a support then has a closed form. Up to `enumerate_up_to` features every
    support is evaluated; beyond, chains of supports are run until they agree. The support of `fit`,
    the features that are ever unmasked, is a single choice from this posterior.

    For a family that is not Gaussian, supports are found by squared errors that approximate the
    likelihood near the mode of a good support. Then each of the most probable supports is weighted
    by its own evidence, by Laplace's approximation of the integral over its effects.

    The posterior is computed in float64 for any input, and returned in the floating-point type of
    the input as JAX sees it; no setting of JAX is changed. Results do not depend on the units of
    columns and y, nor, with an intercept, on their zeros. Cannot be used inside `jit`.

    Args:
        X: (n, k) features, samples in rows; or (b, n, k) for several datasets; or (n, k) shared by
            all of them if y is (b, n); or a list of (n_i, k) datasets of different lengths, with y
            and `sample_weights` as lists too. Of frames, the column names of the first stay with
            the result.
        y: (n,) target, or (b, n), or a list of (n_i,).
        key: A JAX random key, which determines all draws. Default: jax.random.key(0). Dataset i of
            several is drawn as a single one with jax.random.fold_in(key, i). Nothing is drawn if
            every support is evaluated.
        intercept: Whether the level of y is free, with a flat prior. Default: no, as in `fit`.
        unmasked: Features that are always in, with a flat prior on their effects: (k,) booleans,
            their numbers, or their names if X is a frame.
        sample_weights: (n,) how often each row counts, or (b, n), or a list of (n_i,): a row of
            weight 0 is absent, and an integer is the same as the row repeated.
        standardize: Accepted for calls with the options of `fit`; without effect, since nothing
            depends on units.
        noise_precision: One over the noise variance if it is known; else it is integrated out.
        family: The distribution of y given its predictor, as in `fit`: `"gaussian"`, `"logistic"`
            for outcomes 0 and 1, `"student"` or `bmjax.Student(degrees)` for noise with outliers.
        enumerate_up_to: Largest number of features, without those always in, for which all 2^k
            supports are evaluated. At most 20; 0 to use chains always.
        chains: Number of chains, a multiple of 8.
        tolerance: Largest Monte Carlo standard error of a probability at which the chains end.
        max_steps: Largest number of steps of each chain; at least 1024 are made.
        supports: Largest number of supports in the result, from which intervals, credible sets and
            the standard deviation of predictions are computed.
        mesh: Devices to spread the work over, of any axes: datasets if every support is evaluated,
            else the chains of one dataset after another. Draws do not depend on the devices, and
            results only by rounding. The search for a start and the evidence of a family that is
            not Gaussian stay on the host. With several processes each makes the same call with the
            same arguments, and has the whole result. Default: one device, with all cores if it is a
            CPU.
        progress: Whether to show a progress bar. Default: if stderr is a terminal and rich is
            installed.

    Returns:
        The posterior. Its `status` is `CONVERGED` if every support was evaluated or the chains
        agree, `MAX_STEPS` if they do not, `EXACT_FIT` if the most probable support leaves only
        rounding error, `NON_FINITE` for one of several datasets that is not finite, `SEPARATED` if
        a good support tells the two outcomes apart without error: then only the prior bounds the
        effects, and probabilities are rough.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a shape does not fit, a dataset has fewer than two rows that count, a value
            of a single dataset is not finite, or an option is out of range.

    Example:
        >>> import numpy as np, bmjax
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(60, 5))
        >>> y = X[:, 0] - X[:, 3] + rng.normal(size=60)
        >>> found = bmjax.posterior(X, y, intercept=True)
        >>> found.select(fdr=0.1).tolist()
        [True, False, False, True, False]

        >>> outcome = y > 0
        >>> found = bmjax.posterior(X, outcome, intercept=True, family="logistic")
        >>> found.probability[0] > 0.99, bool(found.predict(X[:1])[0] < 1)
        (Array(True, dtype=bool), True)

        >>> several = bmjax.posterior([X, X[:40]], [y, y[:40]], intercept=True)
        >>> several.probability.shape
        (2, 5)

    Reference:
        Liang, Paulo, Molina, Clyde and Berger, "Mixtures of g priors for Bayesian variable
        selection", JASA 2008; Zanella, "Informed proposals for local MCMC in discrete spaces",
        JASA 2020; Zhou and Smith, "Rapid convergence of informed importance tempering", 2022. For
        families Sabanés Bové and Held, "Hyper-g priors for generalized linear models", Bayesian
        Analysis 2011; Tierney and Kadane, JASA 1986.
    """
    if not inputs.at_hand(X, y, sample_weights):
        raise TypeError(
            "posterior needs the values of X and y, which inside jit and vmap are not there; call "
            "it outside, with several datasets as (b, n, k) and (b, n)."
        )
    with jax.ensure_compile_time_eval():  # also while the caller's function is traced
        validate.flag("intercept", intercept)
        validate.flag("standardize", standardize)
        limit = validate.count("enumerate_up_to", enumerate_up_to, low=0, high=_MOST_ENUMERATED)
        plan = Plan(
            chains=_chains(chains),
            tolerance=float(
                validate.number("tolerance", tolerance, float, low=0, high=1, open_low=True)
            ),
            max_steps=validate.steps("max_steps", max_steps),
            mesh=sharding.checked(mesh),
        )
        count = validate.count("supports", supports, low=1, high=100_000)
        precision = None
        if noise_precision is not None:
            known = validate.number("noise_precision", noise_precision, float, low=0, open_low=True)
            precision = float(known)
        distribution = family_of(family, noise_precision, float)
        distribution = jax.tree.map(partial(np.asarray, dtype=float), distribution)
        names = names_of(X, y)
        words = validate.key_words(jax.random.key(0) if key is None else key)
        data = checked_data(X, y, sample_weights)
        for one in data.datasets:
            inputs.outcomes(distribution, one.y, one.counts, batch=data.several)
        k = data.datasets[0].X.shape[1]
        always = np.zeros(k, bool)
        if unmasked is not None:
            chosen = numbers_of("unmasked", unmasked, names)
            always = np.asarray(validate.chosen_features("unmasked", chosen, k))
            if always.all():
                raise ValueError(
                    f"unmasked names all {k} features, so there is nothing to choose; leave out "
                    "those that may be absent, or use least squares."
                )
        free = k - int(always.sum())
        every = free <= limit
        number = len(data.datasets)
        title = "supports" if every else "steps of chains"
        total = number if every else number * plan.max_steps
        # In float64, in this thread only: the residual of a good fit is a difference of large
        # numbers.
        with (
            progress_bar(title, total, progress) as bar,
            jax.enable_x64(True),
            np.errstate(all="ignore"),
            one_blas_thread(),
        ):
            given = [given_of(one, intercept, always, precision) for one in data.datasets]
            asked = _Asked(distribution, words, plan, count, every, data.several)
            fields = _posteriors(given, asked, partial(bar, title))
        whole = stacked(fields, k) if data.several else fields[0]
        return jax.tree.map(partial(_as_seen, data.dtype), whole._replace(names=names))


def _chains(chains: Any) -> int:
    number = validate.count("chains", chains, low=GROUP, high=10_000)
    if number % GROUP:
        raise ValueError(f"chains is {number}; it must be a multiple of {GROUP}.")
    return number


class _Asked(NamedTuple):
    """The arguments of a call, without the data.

    Attributes:
        family: The distribution of y; None for the Gaussian.
        words: The integers that seed the draws.
        plan: The number of chains and the rule that ends them.
        supports: Largest number of supports to list.
        every: Whether to evaluate every support.
        several: Whether there are several datasets.
    """

    family: Family | None
    words: list[int]
    plan: Plan
    supports: int
    every: bool
    several: bool


@full_precision
def _posteriors(
    given: list[Given], asked: _Asked, report: Callable[[int], None]
) -> list[Posterior]:
    """The posterior of each dataset."""
    near = [_near(asked.family, one) for one in given]
    squares = [one.squared if isinstance(one, Reference) else one for one in near]
    if asked.every:
        evidence = jax.tree.map(lambda *leaves: np.stack(leaves), *[a.evidence for a in squares])
        count = asked.supports
        if asked.family is not None:
            count = max(count, *(judged(len(one.y)) for one in given))
        found = enumerated_all([a.sums for a in squares], evidence, count, asked.plan.mesh, report)
        for i, place in enumerate(near):
            if isinstance(place, Reference):
                found[i] = reweighted(found[i], place, asked.supports, asked.plan.tolerance)
    else:
        draws = _draws(asked.words, len(given)) if asked.several else [asked.words]
        found = [
            chains_reweighted(one, words, asked.plan, asked.supports, report)
            if isinstance(one, Reference)
            else found_by_chains(one, words, asked.plan, asked.supports, report)
            for one, words in zip(near, draws, strict=True)
        ]
    results = []
    for one, own, data, place in zip(found, squares, given, near, strict=True):
        family = place.family if isinstance(place, Reference) else _unsettled(asked.family)
        results.append(in_units(one, own.sums, data.intercept)._replace(family=family))
    return results


def _near(family: Family | None, given: Given) -> Squared | Reference:
    """The squared errors that find the supports of a dataset."""
    if family is None:
        return squared(given)
    if not given.finite:
        return squared(given if family.has_units else given._replace(precision=1.0))
    # If the features always in explain a measured y, nothing of it is left to scale.
    if family.has_units and (plain := squared(given)).sums.y_scale == 0:
        return plain
    return reference(family, given)


def _unsettled(family: Family | None) -> Family | None:
    """The family, with NaN for degrees of freedom that could not be learned."""
    if isinstance(family, Student):
        return Student(np.asarray(np.nan if family.degrees is None else family.degrees, float))
    return family


def _draws(words: list[int], number: int) -> list[list[int]]:
    """The integers that seed the draws of each of several datasets."""
    key = jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32))
    return [validate.key_words(jax.random.fold_in(key, i)) for i in range(number)]


def _as_seen(dtype: Any, leaf: np.ndarray) -> jax.Array:
    """A field of the result as a JAX array, floating-point numbers in the type of the input."""
    with np.errstate(all="ignore"):
        floating = np.issubdtype(leaf.dtype, np.floating)
        return jax.device_put(np.asarray(leaf).astype(dtype) if floating else np.asarray(leaf))
