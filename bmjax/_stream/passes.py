"""Passes over the rows of a dataset too large for memory; each returns sums over samples.

Given the parameters, the masks of a sample depend on that sample only. So they are not kept: every
pass computes them again, by sweeps from the inclusion rates until they are at rest, and returns
sums of k and k x k numbers. All is in float64, since float32 loses the digits of a sum over ten
million samples. If y is not Gaussian, each sample's parabola is made to touch its likelihood before
every sweep.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float

from bmjax._checks import inputs
from bmjax._fitting.units import Units
from bmjax._model.entropy import entropy
from bmjax._model.family import by_rows, mean_predictor, predictor, touching
from bmjax._model.options import Frame
from bmjax._model.problem import DUST, Problem, State
from bmjax._model.sums import MaskedSums, masked_sums
from bmjax._model.sweep import mask_offset, residual, visit
from bmjax._runtime.backend import Array
from bmjax._runtime.threads import Settings, cores
from bmjax._selection.gram import Squares
from bmjax._stream.blocks import Block, Blocks

T = TypeVar("T")

# The masks of a block are at rest if the last sweep has moved no residual by more than this share
# of the noise level; there are at most this many sweeps.
_REST, _MOST_SWEEPS = 1e-4, 100


class _Plain(NamedTuple):
    """Sums over samples without masks, with the residual of an anchor.

    Attributes:
        gram: X'X.
        slope: X'residual.
        square: ||residual||^2.
    """

    gram: Any
    slope: Any
    square: Any


class MaskedPass(NamedTuple):
    """Sums over samples at masks that a pass has found.

    Pruned features count as never masked, as the moves require.

    Attributes:
        sums: The sums that an M step needs.
        entropy: Sum of the entropies of the masks of each feature.
        rows: Further sums for a family with parabolas; None for the Gaussian.
    """

    sums: MaskedSums
    entropy: Any
    rows: "ByRows | None" = None


class ByRows(NamedTuple):
    """Sums over samples of the squared errors near a likelihood.

    Attributes:
        squares: Sum of squares of each feature.
        target_square: Sum of squares of the target.
        log_base: The log likelihood minus the Gaussian problem's; zero if parabolas cross it.
        mixed: Number of blocks with a sample that the effects classify wrongly.
    """

    squares: Any
    target_square: Any
    log_base: Any
    mixed: Any


class Values(NamedTuple):
    """Sums over samples at each of c weights.

    Attributes:
        log_likelihood: The log likelihood of each.
        mixed: Number of blocks with a sample that each classifies wrongly.
    """

    log_likelihood: Any
    mixed: Any


# The parabolas that masked sums use: those below the likelihood, those with its curvature under the
# masks, or those with its curvature with the masks summed out.
TOUCHING, LOCAL, INFORMED = "touching", "local", "informed"


class Passes:
    """The passes over the rows, in the units of the fit.

    Attributes:
        family: The distribution of y, None for the Gaussian.
        units: The centres and scales that convert a fit to the user's units.
        intercept: Whether the last feature is one of ones.
        samples, rows: Number of samples, and of rows of weight above zero.
        mean, y_mean: Mean of each feature, including the feature of ones, and of the target.
        largest: Largest absolute value of each feature, and of the target.
    """

    def __init__(self, source: Blocks, frame: Frame, family: Any = None):
        self._source, self.intercept, self.family = source, frame.intercept, family
        self._center = np.zeros(source.k)
        self._y_center = 0.0
        self._varies = np.ones(source.k, bool)
        low, high = np.full(source.k + 1, np.inf), np.full(source.k + 1, -np.inf)
        samples, number, x_sum, y_sum = 0.0, 0, np.zeros(source.k), 0.0
        for block in source:
            counted = block.counts > 0
            inputs.outcomes(family, block.y, block.counts, batch=True)
            rows = np.column_stack([block.X[counted], block.y[counted]])
            low = np.minimum(low, rows.min(axis=0, initial=np.inf))
            high = np.maximum(high, rows.max(axis=0, initial=-np.inf))
            samples, number = samples + block.counts.sum(), number + counted.sum()
            x_sum, y_sum = x_sum + block.counts @ block.X, y_sum + block.counts @ block.y
        if number <= source.k:
            raise ValueError(
                f"blocks hold {number} rows for {source.k} features; a stream is for more rows "
                "than features. Use bmjax.fit, which such data fit into memory for."
            )
        inputs.outcomes(family, np.array([low[-1], high[-1]]))
        self.samples, self.rows = float(samples), int(number)
        self.largest = np.maximum(-low, high)
        self.mean, self.y_mean = x_sum / self.samples, y_sum / self.samples
        if frame.intercept:
            center = np.append(self.mean, self.y_mean)
            if family is not None and not family.has_units:
                center[-1] = 0
            widest = np.maximum(center - low, high - center)
            varies = widest > DUST * np.finfo(float).eps * np.abs(center)
            self._center, self._y_center = center[:-1], center[-1]
            self._varies = varies[:-1]
            self.mean = np.append(np.zeros(source.k), 1.0)
            self.largest = np.append(np.where(varies, widest, 0)[:-1], [1.0, widest[-1]])
        self.units = Units(
            center=self._center,
            scale=np.ones(source.k),
            y_center=np.asarray(self._y_center),
            y_scale=np.ones(()),
            num_samples=np.asarray(self.samples),
        )

    def plain(self, anchor: Float[Array, " k"]) -> Squares:
        """The sums around an anchor, without masks."""
        sums = self._total(partial(_plain_sums, anchor=anchor))
        return Squares(sums.gram, anchor, sums.slope, sums.square, np.asarray(self.samples))

    def near(self, weights: Float[Array, " k"], noise: Float[Array, ""]) -> Squares:
        """The squared errors with the slope and curvature of the likelihood at some weights."""
        sums = self._total(partial(_near_sums, self.family, weights, noise))
        return Squares(sums.gram, weights, sums.slope, sums.square, np.asarray(self.samples))

    def values(self, weights: Float[Array, "c k"], noise: Float[Array, ""]) -> Values:
        """The log likelihood at each of some weights, without masks."""
        return self._total(partial(_values, self.family, weights, noise))

    def masked(self, state: State, kind: str = TOUCHING) -> MaskedPass:
        """The sums at the masks that are at rest given the parameters of a state."""
        samples = np.asarray(self.samples)
        return self._total(partial(_masked_sums, self.family, state, samples, kind=kind))

    def _total(self, sums: Callable[[Block], T]) -> T:
        """The sum of a function over all blocks, added in their order."""
        workers = cores() if jax.default_backend() == "cpu" else 1
        inherited, total = Settings.here(), cast(Any, None)

        def work(block: Block) -> Any:
            with inherited.in_this_thread():
                return jax.tree.map(np.asarray, sums(self._framed(block)))

        def add(part: Any) -> Any:
            return part if total is None else jax.tree.map(np.add, total, part)

        with ThreadPoolExecutor(workers) as pool:
            waiting: deque[Future[Any]] = deque()
            for block in self._source:
                waiting.append(pool.submit(work, block))
                if len(waiting) > workers:  # at most one block more in memory than workers
                    total = add(waiting.popleft().result())
            for future in waiting:
                total = add(future.result())
        return total

    def _framed(self, block: Block) -> Block:
        """A block in the units of the fit: centred, with the feature of ones."""
        if not self.intercept:
            return block
        here = (block.counts > 0)[:, None]
        X = np.where(here & self._varies, block.X - self._center, 0)
        X = np.concatenate([X, np.ones((len(X), 1))], axis=1)
        y = np.where(here[:, 0], block.y - self._y_center, 0)
        return Block(X, y, block.counts)


def _rows(block: Block, family: Any = None) -> Problem:
    """A block as a small dataset, for its sums over samples."""
    no_threshold = jnp.zeros((), block.y.dtype)
    counts = jnp.asarray(block.counts)
    X, y = jnp.asarray(block.X).T, jnp.asarray(block.y)
    return Problem(X, y, None, no_threshold, counts, family=family)


@jax.jit
def _plain_sums(block: Block, *, anchor: Float[Array, " k"]) -> _Plain:
    return _around(_rows(block), anchor)


@jax.jit
def _near_sums(family: Any, weights: Array, noise: Array, block: Block) -> _Plain:
    return _around(_near(_rows(block, family), family, weights @ block.X.T, noise), weights)


def _around(data: Problem, anchor: Float[Array, " k"]) -> _Plain:
    left = data.y - anchor @ data.X
    counted = data.weighted(data.X)
    return _Plain(counted @ data.X.T, counted @ left, data.total(left**2))


def _near(data: Problem, family: Any, mean: Array, noise: Array) -> Problem:
    """The rows of the squared errors near the likelihood, at given predictors."""
    return by_rows(data, family.local(data, mean, jnp.zeros_like(mean), noise))


@jax.jit
def _values(family: Any, weights: Array, noise: Array, block: Block) -> Values:
    data = _rows(block, family)
    means = weights @ data.X
    likelihood = jax.vmap(lambda mean: family.log_likelihood(data, mean, noise))(means)
    apart = jax.vmap(lambda mean: family.separated(data, mean))(means)
    return Values(likelihood, (~apart).astype(likelihood.dtype))


@partial(jax.jit, static_argnames="kind")
def _masked_sums(
    family: Any, state: State, samples: Float[Array, ""], block: Block, *, kind: str
) -> MaskedPass:
    data, offset = _rows(block, family), mask_offset(state, samples)
    # The moves of the residuals by a sweep, and their rounding, are in units of the noise level.
    unit = jnp.sqrt(state.noise_precision)
    rounding = 16 * jnp.finfo(data.dtype).eps * jnp.max(jnp.abs(data.y)) * unit
    rest = jnp.maximum(jnp.asarray(_REST, data.dtype), rounding)

    def sweep_again(carry: Any) -> Any:
        masks, left, _, sweeps = carry
        near = data
        if family is not None:
            here = state._replace(mask_mean=masks)
            near = touching(data, here)
            left = residual(near, here)
        masks, new = visit(near.X, state, offset, (masks, left), 1, skip_pruned=True)
        return masks, new, jnp.max(jnp.abs(new - left)) * unit, sweeps + 1

    masks = jnp.broadcast_to(state.inclusion[:, None], data.X.shape)
    left = residual(data, state._replace(mask_mean=masks))
    begun = masks, left, jnp.full_like(rest, jnp.inf), jnp.zeros((), jnp.int32)
    masks, left, _, _ = lax.while_loop(
        lambda carry: (carry[2] > rest) & (carry[3] < _MOST_SWEEPS), sweep_again, begun
    )
    state = state._replace(mask_mean=masks)
    rested = state._replace(mask_mean=jnp.where(state.active[:, None], masks, 1))
    if family is None:
        sums, _ = masked_sums(data, rested, left)
        return MaskedPass(sums, data.total(entropy(rested.mask_mean)))
    effects = mean_predictor(data, state)
    if kind == INFORMED:
        near = _near(data, family, effects, state.noise_precision)
    elif kind == LOCAL:
        mean, variance = predictor(data, state)
        near = by_rows(data, family.local(data, mean, variance, state.noise_precision))
    else:
        near = touching(data, state)
    rows = ByRows(
        squares=near.total(near.X**2),
        target_square=near.total(near.y**2),
        log_base=jnp.zeros(()) if near.log_base is None else near.log_base,
        mixed=(~family.separated(data, effects)).astype(data.dtype),
    )
    sums, _ = masked_sums(near, rested, residual(near, state))
    return MaskedPass(sums, data.total(entropy(rested.mask_mean)), rows)
