"""The criterion that ranks the finished fits of a dataset, by the charge of the kept features.

The bound G is the objective that an algorithm maximises; it need not rank the finished fits. With
the pruning of the paper, the number of parameters falls with each pruned feature, so a feature kept
with inclusion 1 is charged log n in all, half of it for its weight and half for its rate. There are
three rules:

`"paper"`
    G itself, equation (10): log(n)/2 + log(n pi)/2 a feature. Right for strong signals, over-prunes
    weak ones.
`"held"`
    log(n pi)/2 a feature, which is BIC at inclusion 1. The rate of a pruned feature is a parameter
    too, whose value is zero: under Jeffreys' prior on every rate all are charged alike, pruned or
    not, so rates do not matter for the ranking.
`"learned"`
    As `"held"`, with charges that BIC leaves out because they do not grow with n, namely what a
    prior on the weights and on the number of features charges if it is learned from the fit.

    The spread of the weights. BIC gives them the prior of unit information, that is, tau = 1 where
    tau is the mean strength of a feature, s = weight^2 mean(x^2) / noise variance. Here tau is
    learned, as the mean strength of the K kept features and of one imagined feature of strength 1,
    so that many weak effects lower the charge of log(n tau)/2 a feature, and a few hardly do.

    The shape of the weights. Their prior is the normal distribution or the moment distribution,
    whose density is the normal one times weight^2, so that no weight is near zero (Johnson and
    Rossell, "On the use of non-local prior densities in Bayesian hypothesis tests", Journal of the
    Royal Statistical Society B, 2010). The shape with the lower charge is taken. That of the
    moments charges K log(tau) - sum log(s) more, with tau the mean strength, and (K - 1) (1.5 log 3
    - 1 - 1/4) less: where effects are about equally strong, all are charged less, and a feature far
    weaker than the others is charged more. The fourth of a nat is there because effects too weak to
    be seen are missing from those that are kept, which therefore look more alike than all are.

    The number of features searched: gamma log C(k, K), with C held at its largest beyond K = k/2,
    so that keeping more features never lowers this charge. The extended BIC is consistent when k
    grows as a power of n if gamma > 1 - log n / (2 log k) (Chen and Chen, Biometrika, 2008); gamma
    = 1 - log n / (8 log k), but at least 0, lies three quarters of the way from there to 1.

If one of two outcomes is rare, a sample has less information on an effect, and a prior of unit
information would be the wider the rarer it is. So the imagined feature has strength 4 p (1 - p),
with p the share of ones, which gives log-odds the prior of unit information at equal shares, and
makes n tau count some four samples for each of the rarer outcome; n in gamma is multiplied by this
strength too (Volinsky and Raftery, "Bayesian information criterion for censored survival models",
Biometrics, 2000, count events likewise).

With groups of columns, features are counted by group, and the strength of a group is the mean
square of its contribution over the noise variance. A group of d columns is charged log(n)/2 for
each of its weights; "paper" charges log(n)/2 more for its one rate. "learned" charges each weight
log(n tau / d)/2, so the charge does not depend on how the columns are coded, and for the means of a
category it counts the samples of a level, not all n, as the weight of a level is learned from its
own samples only (Berger, Bayarri and Pericchi, "The effective sample size", Econometric Reviews,
2014). The moment distribution of d weights is the normal one times the strength.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jaxtyping import Bool, Float, Int

from bmjax._model.problem import Problem, State, Totals
from bmjax._model.steps import exact_fit
from bmjax._runtime.backend import Array, namespace

CRITERIA = ("learned", "held", "paper")
# What the moment distribution is charged more for a feature, in nats: effects too weak to be seen
# are missing from those kept.
_UNSEEN = 0.25


class Effects(NamedTuple):
    """What the charge of features depends on: the terms of each feature, or their sums.

    A feature here is a column or a group of d columns.

    Attributes:
        number: One.
        columns: d.
        column_logs: d log d.
        normalizer: (d/2 + 1) log(1 + 2/d), by which the moment distribution is normalised.
        strength: s, the mean square of the contribution to y; per noise variance after `per_noise`.
        log_strength: log s.
    """

    number: Float[Array, "*s"]
    columns: Float[Array, "*s"]
    column_logs: Float[Array, "*s"]
    normalizer: Float[Array, "*s"]
    strength: Float[Array, "*s"]
    log_strength: Float[Array, "*s"]

    def plus(self, other: "Effects") -> "Effects":
        """The sums with further features."""
        return Effects(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: "Effects") -> "Effects":
        """The sums without some of the features."""
        return Effects(*(a - b for a, b in zip(self, other, strict=True)))

    @property
    def total(self) -> "Effects":
        """The sums over all features."""
        return Effects(*namespace(self).stack(self).sum(axis=1))

    def beside(self, other: "Effects") -> "Effects":
        """The terms, or sums, one after another with others along the first axis."""
        xp = namespace(self)
        return Effects(
            *(xp.concatenate([a, xp.atleast_1d(b)]) for a, b in zip(self, other, strict=True))
        )

    def at_rows(self) -> "Effects":
        """The terms of each feature along a new last axis, to be combined with all others."""
        return Effects(*(term[:, None] for term in self))

    def per_noise(self, precision: Float[Array, "*s"]) -> "Effects":
        """The sums with strengths in units of the noise variance."""
        log = namespace(precision).log(precision)
        return self._replace(
            strength=self.strength * precision, log_strength=self.log_strength + self.number * log
        )


def effects(
    strength: Float[Array, "*s"], chosen: Bool[Array, "*s"] | bool, columns: Array | None = None
) -> Effects:
    """The terms of each feature, zero for features that are not chosen.

    Args:
        strength: The mean square of the contribution of each feature.
        chosen: Whether each feature is kept and may be masked.
        columns: Number of columns of each feature. Default: one.
    """
    xp = namespace(strength)
    zero = xp.zeros_like(strength)
    one = xp.where(chosen, xp.ones_like(strength), zero)
    log = xp.log(xp.maximum(strength, xp.finfo(strength.dtype).tiny))
    ends = xp.where(chosen, strength, zero), xp.where(chosen, log, zero)
    if columns is None:
        return Effects(one, one, zero, 1.5 * math.log(3) * one, *ends)
    d = xp.maximum(xp.asarray(columns, strength.dtype), 1)
    return Effects(one, one * d, one * d * xp.log(d), one * (d / 2 + 1) * xp.log1p(2 / d), *ends)


class Criterion(NamedTuple):
    """A rule for a dataset, as charges in nats.

    Attributes:
        each: The charge of a feature at inclusion 1, for a spread of the weights of one.
        learned: Whether spread and shape of the weights are learned; an array if it differs
            between the stages of a search.
        by_size: The charge of the size of a support of 0, 1, ..., m features, with unmasked ones.
        further: The charge of each further column of a group, for a spread of one.
        unit: The strength of the imagined feature.
    """

    each: float | Float[Array, ""]
    learned: bool | Bool[Array, ""]
    by_size: Float[Array, " sizes"]
    further: float | Float[Array, ""] = 0.0
    unit: float | Float[Array, ""] = 1.0

    def charge(self, kept: Effects) -> Float[Array, "*s"]:
        """The charge of kept features at inclusion 1, from their sums in units of the noise."""
        xp, number = namespace(kept), kept.number
        flat = number * self.each + (kept.columns - number) * self.further
        if not isinstance(self.learned, jax.Array):
            return self._learned(kept) if self.learned else flat
        return xp.where(self.learned, self._learned(kept), flat)

    def _learned(self, kept: Effects) -> Float[Array, "*s"]:
        xp, number = namespace(kept), kept.number
        some = number > 0.5  # sums of ones, from which others were subtracted
        count, strength = xp.where(some, number, 1), xp.maximum(kept.strength, 0)
        spread = (self.unit + strength) / (1 + count)
        normal = kept.columns * (self.each + 0.5 * xp.log(spread)) - 0.5 * kept.column_logs
        mean = xp.maximum(strength / count, xp.finfo(strength.dtype).tiny)
        moments = (count - 1) * (1 + _UNSEEN - kept.normalizer / count)
        moments = moments + count * xp.log(mean) - kept.log_strength
        charge = xp.maximum(normal, 0) + xp.minimum(moments, 0)
        return xp.where(some, charge, xp.zeros_like(charge))

    def of_size(self, size: Int[Array, "*s"]) -> Float[Array, "*s"]:
        """The charge of a support for its number of features alone."""
        return self.by_size[namespace(self.by_size).clip(size, 0, len(self.by_size) - 1)]


def criterion(name: str, problem: Problem | Totals, most: int | None = None) -> Criterion:
    """The rule of a given name for a dataset; see the module's docstring.

    Args:
        name: The name of the rule.
        problem: The dataset.
        most: The largest size of a support that will be charged. Default: all columns.
    """
    xp = namespace(problem)
    half, maskable = 0.5 * problem.log_samples, problem.maskable
    dtype = problem.dtype
    if most is None:
        most = len(maskable)
    if name == "paper":
        return Criterion(2 * half, False, xp.zeros(most + 1, dtype), half)
    if name == "held":
        return Criterion(half, False, xp.zeros(most + 1, dtype), half)
    unmasked, features = ~maskable, problem.num_features
    if problem.groups is not None and problem.groups.members is not None:
        unmasked = unmasked & problem.groups.first
        features = xp.asarray(len(problem.groups.members), xp.int32)
    unmasked = xp.sum(unmasked, dtype=xp.int32)
    choices = (features - unmasked).astype(dtype)
    unit = xp.ones((), dtype)
    if problem.family is not None:
        unit = xp.asarray(problem.family.unit_strength(problem.target_square), dtype)
    share = 1 - 0.25 * (half + 0.5 * xp.log(unit)) / xp.log(xp.maximum(choices, 2))
    share = xp.where(choices > 1, xp.maximum(share, 0), 0).astype(dtype)
    # log C(k, K), term by term, up to K = k/2; the size includes unmasked features.
    sizes = xp.arange(most, dtype=dtype)
    terms = xp.log(xp.maximum(choices - sizes, 1) / (sizes + 1))
    terms = xp.where(sizes < choices // 2, terms, 0)
    log_choices = xp.concatenate([xp.zeros(1, dtype), xp.cumsum(terms)])
    size = xp.arange(most + 1, dtype=xp.int32) - unmasked
    by_size = share * log_choices[xp.maximum(size, 0)]
    return Criterion(half, True, by_size, half, unit)


def constant(rule: Criterion, each: float, further: float = 0.0) -> Criterion:
    """A charge for each feature, and for each further column of a group, in place of a rule."""
    nothing = namespace(rule.by_size).zeros_like(rule.by_size)
    return Criterion(each, False, nothing, further)


def one_of(rules: Sequence[Criterion], which: Int[Array, ""]) -> Criterion:
    """One of several rules, by a number that may be traced."""
    xp = namespace(rules[0].by_size, which)
    dtype = rules[0].by_size.dtype

    def chosen(values: tuple[Any, ...]) -> Array:
        kind = bool if isinstance(values[0], bool) else dtype
        return xp.stack([xp.asarray(value, kind) for value in values])[which]

    return Criterion(*map(chosen, zip(*rules, strict=True)))


def universal(rule: Criterion, features: int) -> Criterion:
    """The charge of the universal threshold, log k a feature, in place of a rule.

    The largest of k noises exceeds it with a chance that goes to zero (Donoho and Johnstone, "Ideal
    spatial adaptation by wavelet shrinkage", Biometrika, 1994). A further column of a group is
    charged one nat, somewhat more than it explains by chance.
    """
    return constant(rule, math.log(max(features, 2)), 1.0)


def effects_of(problem: Problem | Totals, state: State) -> Effects:
    """The terms of each feature that a state keeps and that may be masked."""
    chosen = state.active & problem.maskable
    if isinstance(problem, Problem) and problem.groups is not None:
        groups = problem.groups
        contribution = groups.summed(problem.X * state.coef[:, None])
        strength = problem.mean(contribution**2)
        return effects(strength, chosen & groups.first, groups.size)
    return effects(state.coef**2 * problem.mean_squares, chosen)


def price(
    rule: Criterion, problem: Problem | Totals, state: State, kept: Effects
) -> Float[Array, ""]:
    """The charge of the support of a state at inclusion 1, from the sums of its features."""
    xp, support = namespace(state), state.active
    if isinstance(problem, Problem) and problem.groups is not None:
        support = support & problem.groups.first
    each = rule.charge(kept.per_noise(state.noise_precision))
    return each + rule.of_size(xp.sum(support, dtype=xp.int32))


def score(
    rule: Criterion, problem: Problem | Totals, state: State, bound: Float[Array, ""]
) -> Float[Array, ""]:
    """The score of a finished fit, in nats; -inf for a fit that cannot be ranked.

    Args:
        rule: The charge of each feature.
        problem: The dataset.
        state: The fitted state.
        bound: The lower bound at the state, which charges log(n pi)/2 for the rate of a feature and
            log(n)/2 for each of its columns.
    """
    xp = namespace(state)
    size = xp.sum(state.active, dtype=xp.int32)
    kept = effects_of(problem, state).total
    paid = 0.5 * (kept.number + kept.columns) * problem.log_samples
    value = bound + paid - price(rule, problem, state, kept)
    # An exact fit with more features than half the samples is uninformative.
    idle = exact_fit(problem, state) & (2 * size > problem.num_rows)
    return xp.where(xp.isfinite(value) & ~idle, value, -xp.inf)
