"""One spelling for NumPy on the host and JAX in a compiled program.

The search for a subset, the judgement of moves and other small computations are made where the data
are: on the host, if one dataset is fitted from known arrays, since compiling them would take longer
than all its fits; in the program, if many datasets are fitted or values are traced. Functions
written with these helpers and the namespace of their arrays serve both.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.special
from jax import lax

T = TypeVar("T")

# An array of NumPy or JAX in annotations. The two have no common class that a type checker knows,
# so to a type checker it is `Any`.
if TYPE_CHECKING:
    Array: TypeAlias = Any
else:
    Array = jax.Array | np.ndarray | np.generic


def namespace(*trees: Any) -> Any:
    """The namespace of some pytrees: `numpy` if all arrays are NumPy's, else `jax.numpy`."""
    for tree in trees:
        if isinstance(tree, jax.Array):
            return jnp
        if isinstance(tree, tuple) and namespace(*tree) is jnp:  # also a named tuple
            return jnp
    return np


def put(values: Any, index: Any, new: Any) -> Any:
    """Values with new ones at an index of the first axis; an index beyond the end is ignored."""
    if isinstance(values, jax.Array) or isinstance(index, jax.Array) or isinstance(new, jax.Array):
        return jnp.asarray(values).at[index].set(new, mode="drop")
    index = np.asarray(index)
    inside = index < len(values)
    values = np.array(values)
    if index.ndim == 0:
        if inside:
            values[index] = new
        return values
    values[index[inside]] = np.broadcast_to(new, index.shape + values.shape[1:])[inside]
    return values


def take(values: Any, index: Any) -> Any:
    """Rows of values at an index; zeros (False) for an index beyond the end."""
    if isinstance(values, jax.Array) or isinstance(index, jax.Array):
        return jnp.asarray(values).at[index].get(mode="fill", fill_value=0)
    index = np.asarray(index)
    inside = index < len(values)
    rows = values[np.minimum(index, len(values) - 1)]
    return np.where(
        inside.reshape(inside.shape + (1,) * (rows.ndim - inside.ndim)), rows, 0
    ).astype(values.dtype, copy=False)


def while_loop(condition: Callable[[T], Any], body: Callable[[T], T], carry: T) -> T:
    """`jax.lax.while_loop`, or a Python loop if all arrays are NumPy's."""
    if namespace(carry) is jnp:
        return lax.while_loop(condition, body, carry)
    while condition(carry):
        carry = body(carry)
    return carry


def fori_loop(count: Any, body: Callable[[Any, T], T], carry: T) -> T:
    """`jax.lax.fori_loop` from zero, or a Python loop if all arrays are NumPy's."""
    if namespace(count, carry) is jnp:
        return lax.fori_loop(0, count, body, carry)
    for i in range(int(count)):
        carry = body(i, carry)
    return carry


def cond(choice: Any, yes: Callable[[], T], no: Callable[[], T]) -> T:
    """`jax.lax.cond` of functions without arguments, or a Python `if` if the choice is known."""
    if isinstance(choice, jax.Array):
        return lax.cond(choice, yes, no)
    return yes() if choice else no()


def map_rows(function: Callable[[Any], T], rows: Any) -> T:
    """Apply a function to each row of an array, or of a pytree of them, and stack the results."""
    if namespace(rows) is jnp:
        return lax.map(function, rows)
    count = len(jax.tree.leaves(rows)[0])
    made = [function(jax.tree.map(lambda leaf, i=i: leaf[i], rows)) for i in range(count)]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *made)


def select(choice: Any, yes: T, no: T) -> T:
    """One of two pytrees of arrays, by a choice."""
    xp = namespace(choice, yes, no)
    return jax.tree.map(lambda a, b: xp.where(choice, a, b), yes, no)


def cholesky(matrix: Any) -> Any:
    """The lower Cholesky factor, or NaN if there is none."""
    if isinstance(matrix, jax.Array):
        return jnp.linalg.cholesky(matrix)
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)


def solve_factored(factor: Any, target: Any) -> Any:
    """The solution of L L' x = target from the lower factor L."""
    if isinstance(factor, jax.Array):
        return jax.scipy.linalg.cho_solve((factor, True), target)
    return scipy.linalg.cho_solve((factor, True), target, check_finite=False)


def log_sigmoid(x: Any) -> Any:
    """log(1 / (1 + exp(-x))), exact at both ends."""
    if isinstance(x, jax.Array):
        return jax.nn.log_sigmoid(x)
    return -np.logaddexp(np.zeros((), x.dtype), -x)


def log_gamma(x: Any) -> Any:
    """The logarithm of the gamma function."""
    return jax.scipy.special.gammaln(x) if isinstance(x, jax.Array) else scipy.special.gammaln(x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), exact at both ends."""
    if isinstance(x, jax.Array):
        return jax.nn.sigmoid(x)
    return 1 / (1 + np.exp(-x))
