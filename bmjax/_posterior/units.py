"""Conversion of a posterior to the user's units, over all features."""

import jax
import numpy as np

from bmjax._model.status import Status
from bmjax._posterior.found import Found, Held
from bmjax._posterior.mixture import Mixture
from bmjax._posterior.result import Posterior
from bmjax._posterior.sums import Sums


def in_units(found: Found, sums: Sums, intercept: bool) -> Posterior:
    """The posterior of a dataset in the user's units, over all its features in order."""
    k = len(sums.center)
    free, always = sums.free, sums.always
    union = found.features  # numbers among those that may be in or out
    held, unit, noise = found.held, 1.0, found.noise
    if held is None:
        unit, noise = sums.y_scale, found.noise * sums.y_scale**2
        held = Held(
            level=sums.y_center,
            level_variance=noise / sums.samples,
            coef=sums.y_along,
            covariance=noise * sums.own,
            cross=np.zeros((len(always), len(union))),
        )
    ratio = unit / sums.scale
    coef = np.zeros(k)
    coef[free] = found.coef * ratio
    coef[always] = held.coef - sums.along @ coef[free]
    to_user = ratio[union]
    inner = found.covariance * to_user[:, None] * to_user[None, :]
    # Effects of features always in are lowered by those of the features that they explain in part.
    own, cross = len(union), held.cross * to_user
    joint = np.block([[inner, cross.T], [cross, held.covariance]])
    way = np.eye(len(joint))
    way[own:, :own] = -sums.along[:, union]
    covariance = way @ joint @ way.T
    errors = np.zeros(k)
    errors[free] = found.deviation * np.abs(ratio)
    errors[always] = np.sqrt(np.maximum(np.diagonal(covariance)[own:], 0))
    probability, error = np.ones(k), np.zeros(k)
    probability[free], error[free] = found.probability, found.error
    parts, p = len(found.weight), len(always)
    columns = sums.columns[union]
    bad = np.isnan(sums.y_scale)
    status = Status.NON_FINITE if bad else found.status
    if found.held is None and sums.y_scale == 0:  # nothing is left to explain
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
        intercept=np.asarray(held.level - sums.center @ coef if intercept else 0.0),
        center=sums.center,
        level_variance=np.asarray(held.level_variance if intercept else 0.0),
        noise_variance=np.asarray(noise),
        size=found.size + nan,
        mixture=mixture,
        unmasked=np.isin(np.arange(k), always),
        r_hat=np.asarray(found.r_hat),
        num_steps=np.asarray(found.steps, np.int32),
        status=np.asarray(int(status), np.int32),
    )


def stacked(parts: list[Posterior], k: int) -> Posterior:
    """The posteriors of several datasets stacked, padded where they differ in length."""

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
