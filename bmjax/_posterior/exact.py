"""Posteriors of many datasets of few features, by enumeration of all supports."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jaxtyping import Float

from bmjax._model.status import Status
from bmjax._posterior.enumeration import Everything, enumerated
from bmjax._posterior.found import Found, freedom_of
from bmjax._posterior.mixture import Parts, parts_of
from bmjax._posterior.prior import LEAST_SHARE, Evidence
from bmjax._posterior.sums import Sums
from bmjax._runtime import rows
from bmjax._runtime.backend import Array
from bmjax._runtime.threads import Settings, cores

_SUPPORTS = 2**14  # number of supports, over all datasets that are computed side by side


def enumerated_all(
    sums: list[Sums],
    evidence: Evidence,
    count: int,
    mesh: Mesh | None,
    report: Callable[[int], None],
) -> list[Found]:
    """The posterior of each dataset over all supports.

    Args:
        sums: The sums of the datasets.
        evidence: The evidence that judges their supports, with a leading axis.
        count: Largest number of supports to list.
        mesh: The devices that the datasets are spread over, or None.
        report: A function that is called with the number of datasets done.
    """
    b, f = len(sums), len(sums[0].columns)
    devices = 1 if mesh is None else mesh.size
    size = devices * max(min(_SUPPORTS // 2**f, 16, -(-b // devices)), 1)
    inherited = Settings.here()

    def chunk(begin: int) -> Any:
        # The last chunk is padded, so that nothing is compiled for it.
        at = np.minimum(np.arange(begin, begin + size), b - 1)
        gram = np.stack([sums[i].columns @ sums[i].columns.T for i in at])
        slope = np.stack([sums[i].columns @ sums[i].target for i in at])
        own = jax.tree.map(lambda leaf: leaf[at], evidence)
        with inherited.in_this_thread():
            found = rows.call(_all_of, (gram, slope, own), (), mesh, count=min(count, 2**f))
        report(min(size, b - begin))
        return found

    with ThreadPoolExecutor(cores() if mesh is None else 1) as pool:
        chunks = list(pool.map(chunk, range(0, b, size)))
    results = []
    for i in range(b):
        one = jax.tree.map(lambda leaf, i=i: leaf[i % size], chunks[i // size])
        own = jax.tree.map(lambda leaf, i=i: leaf[i], evidence)
        every, parts, weight, inside = one
        results.append(_found(every, parts, weight, inside, own))
    return results


def _all_of(
    gram: Float[Array, "b f f"], slope: Float[Array, "b f"], evidence: Evidence, *, count: int
) -> tuple[Everything, Parts, Array, Array]:
    """The posterior over all supports, and the effects given each of the most probable ones."""
    f = gram.shape[-1]

    def one(
        gram: Array, slope: Array, evidence: Evidence
    ) -> tuple[Everything, Parts, Array, Array]:
        every = enumerated(gram, slope, evidence)
        weight, which = lax.top_k(every.support, count)
        numbers = jnp.arange(f, dtype=which.dtype)
        inside = ((which[:, None] >> numbers[None, :]) & 1 > 0) & (weight[:, None] > 0)
        slots = jnp.where(inside, numbers[None, :], f)
        parts = parts_of(gram, slope, evidence, slots, weight)
        # The probabilities of all supports are not returned.
        return every._replace(support=weight[:0]), parts, weight, inside

    return jax.vmap(one)(gram, slope, evidence)


def _found(
    every: Everything, parts: Parts, weight: np.ndarray, inside: np.ndarray, evidence: Evidence
) -> Found:
    exact = float(parts.share[0]) <= 10 * LEAST_SHARE
    variance = np.diagonal(every.covariance)
    return Found(
        probability=every.probability,
        error=np.zeros_like(every.probability),
        coef=every.coef,
        deviation=np.sqrt(np.maximum(variance, 0)),
        noise=float(every.noise),
        size=every.size,
        features=np.arange(len(every.coef)),
        weight=weight,
        inside=inside,
        mean=parts.mean,
        spread=parts.deviation,
        covariance=every.covariance,
        log=parts.log,
        by_chain=None,
        held=None,
        freedom=freedom_of(evidence),
        r_hat=1.0,
        steps=0,
        status=Status.EXACT_FIT if exact else Status.CONVERGED,
    )
