"""Fits to resamples, for the dependence of a fit on the samples drawn.

A resample is a row of sample weights, so X is never copied and all resamples share one compiled
program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from bmjax._checks import validate
from bmjax._fitting.batch import fit_batch
from bmjax._io.progress_bar import progress_bar

# Fits between two updates of the progress bar; a power of two, so that one shape is compiled.
_CHUNK = 128


def generator(key: jax.Array, i: int) -> np.random.Generator:
    """The random generator of draw i, which does not depend on the division into chunks."""
    return np.random.default_rng([*validate.key_words(key), i])


class Fits(NamedTuple):
    """The fields that are kept of the fits of all resamples."""

    coef: Float[np.ndarray, "r k"]
    intercept: Float[np.ndarray, " r"]
    support: Bool[np.ndarray, "r k"]
    status: Int[np.ndarray, " r"]


def fits_of_resamples(  # noqa: PLR0913 - what every resampling shares
    X: np.ndarray,
    y: np.ndarray,
    draw: Callable[[int], np.ndarray],
    resamples: int,
    title: str,
    progress: bool | None,
    options: dict[str, Any],
) -> Fits:
    """The fits of all resamples, chunk by chunk, each with the sample weights drawn for it."""
    if "sample_weights" in options:
        raise TypeError(f"sample_weights cannot be given: they are what {title} draws.")
    parts = []
    with progress_bar(title, resamples, progress) as report:
        for begin in range(0, resamples, _CHUNK):
            stop = min(begin + _CHUNK, resamples)
            # A shorter last chunk is padded, so that nothing is compiled for it.
            rows = [draw(min(i, stop - 1)) for i in range(begin, begin + min(_CHUNK, resamples))]
            part = fit_batch(X, y, sample_weights=np.stack(rows), **options)
            real = slice(stop - begin)
            parts.append([np.asarray(getattr(part, name))[real] for name in Fits._fields])
            report(title, stop - begin)
    return Fits(*map(np.concatenate, zip(*parts, strict=True)))
