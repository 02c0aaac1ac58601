"""The entropy of the masks, which the safeguard of a solver needs at every step.

XLA on a CPU calls the C library for each logarithm in float64, one number at a time, which takes
longer than an E step. So the sums for a solver take both logarithms by polynomials, which XLA
vectorises, and leave out pruned features.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float
from numpy.polynomial import chebyshev

from bmjax._model.blocks import over_blocks
from bmjax._model.problem import Problem, State
from bmjax._model.sweep import to_visit
from bmjax._runtime.backend import Array, namespace

# Both functions are analytic up to a distance of three half-widths of their interval, so that each
# degree gains three quarters of a digit; at this one, what is left is rounding.
_DEGREE = 20


def entropy(mask_mean: Float[Array, "*k n"]) -> Float[Array, "*k n"]:
    """Entropy of Bernoulli variables, -p log(p) - q log(q) with 0 log 0 = 0.

    It is computed from the rarer outcome p <= 1/2 and without log1p, several times slower in
    float64.
    """
    xp = namespace(mask_mean)
    p = xp.minimum(mask_mean, 1 - mask_mean)
    q = 1 - p
    tiny = xp.finfo(p.dtype).tiny
    return -p * xp.log(xp.maximum(p, tiny) / q) - xp.log(q)


def entropy_sums(problem: Problem, state: State) -> Float[Array, " k"]:
    """The sum over samples of the entropies of the masks, zero for pruned features.

    It has no reverse-mode derivative.
    """
    features, count = to_visit(state.active, skip_pruned=True)
    of_row = by_polynomials if problem.dtype == jnp.float64 else entropy

    def added(part: Problem, own: Array, _: Array, sums: Array) -> Array:
        def add(position: Array, sums: Array) -> Array:
            feature = features[position]
            row = lax.dynamic_index_in_dim(own, feature, keepdims=False)
            return sums.at[feature].add(part.total(of_row(row)))

        return lax.fori_loop(0, count, add, sums)

    return over_blocks(problem, state.mask_mean, added, jnp.zeros_like(state.weights))


def by_polynomials(mask_mean: Float[Array, "*k n"]) -> Float[Array, "*k n"]:
    """The entropy in float64 as p (q (-log(q) / p) - log(p)), exact to rounding."""
    p = jnp.minimum(mask_mean, 1 - mask_mean)
    return p * ((1 - p) * _value(_LOG_REST, 4 * p - 1) - _log(p))


def _log(p: Float[Array, "*k n"]) -> Float[Array, "*k n"]:
    """The logarithm of numbers in [0, 1], or of the smallest normal number if that is larger.

    A number is f 2^e with f in [1/2, 1): both are read from its bits.
    """
    bits = lax.bitcast_convert_type(jnp.maximum(p, jnp.finfo(p.dtype).tiny), jnp.int64)
    fraction = lax.bitcast_convert_type(bits & (2**52 - 1) | (1022 << 52), p.dtype)
    # The bits of e + 1022 as the lowest ones of 2^52 + e + 1022, which needs no conversion.
    exponent = lax.shift_right_logical(bits, jnp.int64(52)) | (1075 << 52)
    exponent = lax.bitcast_convert_type(exponent, p.dtype) - (2.0**52 + 1022)
    return _value(_LOG, 4 * fraction - 3) + exponent * float(np.log(2))


def _polynomial(function: Callable[[Any], Any], low: float, high: float) -> tuple[float, ...]:
    """The coefficients, highest first, of a function on an interval that is scaled to [-1, 1]."""
    middle, half = (low + high) / 2, (high - low) / 2

    def scaled(u: Any) -> Any:
        return function(middle + half * u)

    terms = chebyshev.chebinterpolate(scaled, _DEGREE)
    return tuple(chebyshev.cheb2poly(terms)[::-1].tolist())


def _value(coefficients: tuple[float, ...], at: Float[Array, "*k n"]) -> Float[Array, "*k n"]:
    """The value of a polynomial by Horner's rule."""
    value = jnp.full_like(at, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * at + coefficient
    return value


_LOG = _polynomial(np.log, 0.5, 1.0)
_LOG_REST = _polynomial(lambda p: -np.log1p(-p) / p, 0.0, 0.5)
