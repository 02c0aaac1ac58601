"""What was found of a dataset, in the user's units and over all its features."""

import jax
import numpy as np

from bmjax._model.problem import Status
from bmjax._posterior.found import Found
from bmjax._posterior.result import Mixture, Posterior
from bmjax._posterior.sums import Sums


def in_units(found: Found, sums: Sums, intercept: bool) -> Posterior:
    """What was found of a dataset in the user's units, all its features in order."""
    k = len(sums.center)
    free, always = sums.free, sums.always
    ratio = sums.y_scale / sums.scale
    coef = np.zeros(k)
    coef[free] = found.coef * ratio
    coef[always] = sums.y_along - sums.along @ coef[free]
    noise = found.noise * sums.y_scale**2
    union = found.features  # of those that may be in or not
    to_user = ratio[union]
    inner = found.covariance * to_user[:, None] * to_user[None, :]
    # Effects of what is always in move against those that stand in for it.
    way = np.concatenate([np.eye(len(union)), -sums.along[:, union]])
    covariance = way @ inner @ way.T
    own = len(union)
    covariance[own:, own:] += noise * sums.own
    errors = np.zeros(k)
    errors[free] = found.deviation * np.abs(ratio)
    errors[always] = np.sqrt(np.maximum(np.diagonal(covariance)[own:], 0))
    probability, error = np.ones(k), np.zeros(k)
    probability[free], error[free] = found.probability, found.error
    parts, p = len(found.weight), len(always)
    columns = sums.columns[union]
    bad = np.isnan(sums.y_scale)
    status = Status.NON_FINITE if bad else found.status
    if sums.y_scale == 0:  # there is nothing left to explain
        status = Status.EXACT_FIT
    mixture = Mixture(
        features=np.concatenate([free[union], always]).astype(np.int32),
        probability=found.weight,
        inside=np.concatenate([found.inside, np.ones((parts, p), bool)], axis=1),
        mean=np.concatenate([found.mean * to_user, np.tile(coef[always], (parts, 1))], axis=1),
        deviation=np.concatenate(
            [found.spread * np.abs(to_user), np.tile(errors[always], (parts, 1))], axis=1
        ),
        covariance=covariance,
        correlation=np.pad(columns @ columns.T, ((0, p), (0, p))),
        freedom=np.asarray(found.freedom, float),
    )
    nan = np.nan if bad else 0.0
    return Posterior(
        probability=probability + nan,
        probability_error=error + nan,
        coef=coef,
        standard_errors=errors,
        intercept=np.asarray(sums.y_center - sums.center @ coef if intercept else 0.0),
        center=sums.center,
        level_variance=np.asarray(noise / sums.samples if intercept else 0.0),
        noise_variance=np.asarray(noise),
        size=found.size + nan,
        mixture=mixture,
        unmasked=np.isin(np.arange(k), always),
        r_hat=np.asarray(found.r_hat),
        num_steps=np.asarray(found.steps, np.int32),
        status=np.asarray(int(status), np.int32),
    )


def stacked(parts: list[Posterior], k: int) -> Posterior:
    """Several datasets as one, what differs in length filled up."""

    def joined(*leaves: np.ndarray) -> np.ndarray:
        shape = [max(lengths) for lengths in zip(*(leaf.shape for leaf in leaves), strict=True)]
        whole = np.zeros((len(leaves), *shape), leaves[0].dtype)
        for i, leaf in enumerate(leaves):
            whole[(i, *map(slice, leaf.shape))] = leaf
        return whole

    parts = [jax.tree.map(np.asarray, part) for part in parts]
    result = jax.tree.map(joined, *parts)
    width = result.mixture.features.shape[1]
    features = [
        np.pad(one.mixture.features, (0, width - len(one.mixture.features)), constant_values=k)
        for one in parts
    ]
    return result._replace(mixture=result.mixture._replace(features=np.stack(features)))
