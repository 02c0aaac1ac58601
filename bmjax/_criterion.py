"""Which of several finished fits of a dataset is the best: what each kept feature is charged.

The bound G is what an algorithm climbs; to rank its finished fits by G is another matter. As the
paper prunes, the count of parameters falls with each pruned feature, so in all a feature kept with
inclusion 1 is charged log n, one half for its weight and one half for its rate. Three rules:

`"paper"`
    G itself: log(n)/2 + log(n pi)/2 a feature. Right for strong signals, over-prunes weak ones.
`"held"`
    log(n pi)/2 a feature, which is BIC at inclusion 1. A pruned feature's rate is a parameter like
    a kept one's, whose value is zero: under Jeffreys' prior on every rate each is charged alike,
    pruned or not, so rates do not matter for the ranking.
`"learned"`
    That, and two things that BIC leaves out because they do not grow with n. How wide the weights
    are spread: BIC gives them the prior of unit information, tau = 1 in units of noise variance
    over mean square of the feature; here tau is learned and at least 1, which charges
    log(tau)/2 more. And how many features were looked at: gamma log C(k, K) for K kept features
    of k, C held at its largest beyond K = k/2, so that no feature is ever kept for company.
    gamma = 1 - log n / (4 log k) lies halfway between 1 and the least value for which the extended
    BIC finds the truth when k grows as a power of n (Chen and Chen, Biometrika, 2008), and is not
    below 0.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bmjax._steps import exact_fit
from bmjax._types import Problem, State, Totals

CRITERIA = ("learned", "held", "paper")


class Criterion(NamedTuple):
    """A rule for datasets of one shape, in nats.

    Attributes:
        each: The charge of a feature at inclusion 1, before the width of the weights.
        learns_width: Whether that width is learned.
        by_size: The charge of a support of 0, 1, ..., k features as such.
        maskable: The features that the rule is about; the others are in every support.
    """

    each: float | Float[Array, ""]
    learns_width: bool
    by_size: Float[Array, " k_plus_1"]
    maskable: Bool[Array, " k"]

    def charge(self, width: Float[Array, ""]) -> Float[Array, ""]:
        """The charge of a feature at inclusion 1, weights spread as learned."""
        return self.each + 0.5 * jnp.log(width)

    def width(self, strength: Float[Array, " k"], support: Bool[Array, " k"]) -> Float[Array, ""]:
        """The learned spread tau of the weights, at least 1.

        Args:
            strength: weights^2 * mean(x^2) * noise_precision of each feature.
            support: The features kept.
        """
        one = jnp.ones((), strength.dtype)
        if not self.learns_width:
            return one
        chosen = support & self.maskable
        size = jnp.maximum(jnp.sum(chosen, dtype=strength.dtype), 1)
        return jnp.maximum(one, jnp.sum(jnp.where(chosen, strength, 0)) / size)

    def per_feature(self, charges: Float[Array, " k"] | Array) -> Float[Array, " k"]:
        """What dropping each feature saves: its charge, or -inf for one that has to stay."""
        return jnp.where(self.maskable, charges, -jnp.inf)


def criterion(name: str, problem: Problem | Totals) -> Criterion:
    """The rule of a name for a dataset; see the table above."""
    half, maskable = 0.5 * problem.log_samples, problem.maskable
    k, dtype = len(maskable), problem.dtype
    free = jnp.zeros(k + 1, dtype)
    if name == "paper":
        return Criterion(2 * half, False, free, maskable)
    if name == "held":
        return Criterion(half, False, free, maskable)
    choices = jnp.sum(maskable, dtype=dtype)
    share = 1 - 0.5 * half / jnp.log(jnp.maximum(choices, 2))
    share = jnp.where(choices > 1, jnp.maximum(share, 0), 0).astype(dtype)
    # log C(k, K), term by term, up to K = k/2; a support of that size holds the unmasked ones too.
    sizes = jnp.arange(k, dtype=dtype)
    terms = jnp.log(jnp.maximum(choices - sizes, 1) / (sizes + 1))
    terms = jnp.where(sizes < choices // 2, terms, 0)
    log_choices = jnp.concatenate([jnp.zeros(1, dtype), jnp.cumsum(terms)])
    size = jnp.arange(k + 1, dtype=jnp.int32) - jnp.sum(~maskable, dtype=jnp.int32)
    return Criterion(half, True, share * log_choices[jnp.maximum(size, 0)], maskable)


def charge_at(rule: Criterion, problem: Problem | Totals, state: State) -> Float[Array, ""]:
    """The charge of a feature at inclusion 1, weights spread as those of a state."""
    strength = state.weights**2 * problem.mean_squares * state.noise_precision
    return rule.charge(rule.width(strength, state.active))


def score(
    rule: Criterion, problem: Problem | Totals, state: State, bound: Float[Array, ""]
) -> Float[Array, ""]:
    """The score of a finished fit, in nats; -inf where it has none.

    Args:
        rule: What features are charged.
        problem: The dataset.
        state: The fitted state.
        bound: Its lower bound, which charges log(n pi)/2 + log(n)/2 a feature.
    """
    size = jnp.sum(state.active, dtype=jnp.int32)
    chosen = jnp.sum(state.active & rule.maskable, dtype=bound.dtype)
    extra = charge_at(rule, problem, state) - problem.log_samples
    value = bound - chosen * extra - rule.by_size[size]
    # With more than half as many features as samples an exact fit says nothing.
    idle = exact_fit(problem, state) & (2 * size > problem.num_rows)
    return jnp.where(jnp.isfinite(value) & ~idle, value, -jnp.inf)
