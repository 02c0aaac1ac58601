"""`fit_stream`: fits of a dataset too large for memory, from the sums of passes over its rows.

Starts, moves and their order are those of `fit`, and so are the M step, the extrapolation and the
verdict. All of this runs on the host, since it works on k and k x k numbers only.
"""

from __future__ import annotations

from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from bmjax._checks import validate
from bmjax._fitting.checking import checked
from bmjax._fitting.options import FitOptions, takes_options
from bmjax._fitting.units import leave
from bmjax._model.distributions import Student
from bmjax._results.names import by_number
from bmjax._results.result import Result, named
from bmjax._runtime.debugging import unwatched
from bmjax._runtime.threads import one_blas_thread
from bmjax._solvers.accelerated import Accelerated
from bmjax._stream.blocks import Blocks
from bmjax._stream.dataset import best_streamed
from bmjax._stream.passes import Passes


@takes_options("groups", "standardize", "solver", "initial_weights")
@unwatched
def fit_stream(
    blocks: Any,
    *,
    uncertainty: bool = True,
    block_rows: int | None = None,
    **options: Unpack[FitOptions],
) -> Result:
    """Fit a dataset that is too large for memory, as `fit` fits one in memory.

    Rows are read block by block, once for every iteration, and nothing that grows with their number
    is kept. The optimum is that of `fit`, unless the masks of a sample have more than one fixed
    point: here they start from the inclusion rates each time, in `fit` from their last values. The
    solver is always the default one, in float64 whatever the type of the rows and JAX's setting,
    since sums over millions of samples need its digits. On a CPU all cores work, each on a block.
    `family` may be any with given parameters: `Student(None)`, which learns its degrees of freedom,
    is refused.

    Args:
        blocks: The rows. A tuple of arrays on disk, (X, y) or (X, y, sample_weights), such as
            `numpy.memmap` or HDF5 datasets, which are read in slices; or blocks of rows as such
            tuples: a list, any other iterable that can be read again and again, or a function that
            returns an iterator over them, the same rows each time. All have k features; blocks may
            differ in length. There must be more rows than features.
        options: Options are given by name. An iteration (see `max_steps`) is a pass over the rows;
            three more come before the first, and one after every fit. Where `family` is not
            Gaussian, the search before the first takes some twenty, and two come after every fit.
        uncertainty: As for `fit`.
        block_rows: Number of rows that each core works on at a time. Default: 1 MiB of them, as
            float64.

    Returns:
        The fitted model, a `Result` as from `fit`.

    Raises:
        TypeError: If an argument has the wrong type, or the blocks can be read only once.
        ValueError: If a block does not match the others or holds a value that is not finite (the
            message names the block), there are no more rows than features, or an option is out of
            range.

    Example:
        >>> import bmjax
        >>> X, y, names = bmjax.datasets.load_diabetes()
        >>> blocks = [(X[:200], y[:200]), (X[200:], y[200:])]  # or arrays on the disk: (X, y)
        >>> bmjax.fit_stream(blocks, intercept=True)
        <bmjax.Result: 6 of 10 features kept, CONVERGED>
    """
    if block_rows is not None:
        block_rows = validate.count("block_rows", block_rows, low=1)
    source = Blocks(blocks, block_rows)
    options = by_number(options, source.names)
    wanted = validate.flag("uncertainty", uncertainty)
    with jax.enable_x64(True):
        numbers, solver, plan, frame, _ = checked(source.k, jnp.dtype("float64"), options)
        family = numbers.family
        if isinstance(family, Student) and family.degrees is None:
            raise ValueError(
                "family is Student(degrees=None), which learns its degrees of freedom; fit_stream "
                "takes them as given: bmjax.Student(4), or learn them by bmjax.fit on some rows."
            )
        assert isinstance(solver, Accelerated)
        numbers = jax.device_get(numbers)
        passes = Passes(source, frame, numbers.family)
        with np.errstate(all="ignore"), one_blas_thread():
            result = best_streamed(passes, numbers, solver, plan, wanted)
            result = leave(frame, passes.units, result, np)
    result = named(result, source.names)
    return jax.tree.map(jnp.asarray, result)  # in the type that the caller's setting of JAX has
