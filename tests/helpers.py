"""Problems, states and comparisons that several test modules need."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

import bmjax

# One fit from one start, as the paper has it: what the tests of the algorithms are about.
plain_fit = partial(bmjax.fit, initial_inclusion=0.5)
plain_fit_batch = partial(bmjax.fit_batch, initial_inclusion=0.5)


def uniform_design(seed, k, n=None, noise_variance=0.2):
    """Section 5.3: X and half of the weights from U[0, 1], the other half zero."""
    rng = np.random.default_rng(seed)
    n = 20 * k if n is None else n
    X = rng.uniform(size=(n, k))
    weights = rng.uniform(size=k)
    weights[rng.permutation(k)[: k // 2]] = 0
    y = X @ weights + rng.normal(size=n) * np.sqrt(noise_variance)
    return X, y, weights


def normal_design(seed, n, weights, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(weights)))
    return X, X @ np.asarray(weights, float) + noise * rng.normal(size=n)


def two_features(seed, b, pairs=20):
    """Section 5.2: b datasets of 2 x pairs samples, truth (0, 1), noise precision 200."""
    rng = np.random.default_rng(seed)
    X = np.tile([[1.0, 0.0], [0.5, 1.0]], (pairs, 1))
    return X, X @ [0.0, 1.0] + rng.normal(size=(b, 2 * pairs)) * np.sqrt(0.005)


def some_state(seed, n=30, k=5, dtype=np.float64, *, known_noise=False):
    """A problem and a state in the middle of nowhere: one feature pruned, one always on."""
    rng = np.random.default_rng(seed)
    X, y = normal_design(seed, n, rng.normal(size=k))
    mask = rng.uniform(0.05, 0.95, size=(k, n))
    inclusion = rng.uniform(0.2, 0.9, size=k)
    active = np.ones(k, bool)
    if k > 2:
        mask[1], inclusion[1] = 1, 1
        active[2], mask[2], inclusion[2] = False, 0, 0
    with np.errstate(divide="ignore"):
        log_odds = np.log(inclusion) - np.log1p(-inclusion)
    weights = np.where(active, rng.normal(size=k), 0)
    precision = jnp.asarray(1.7, dtype)
    problem = bmjax.Problem(
        X=jnp.asarray(X.T, dtype),
        y=jnp.asarray(y, dtype),
        noise_precision=precision if known_noise else None,
        prune_threshold=jnp.asarray(np.finfo(dtype).eps, dtype),
    )
    state = bmjax.State(
        mask_mean=jnp.asarray(mask, dtype),
        weights=jnp.asarray(weights, dtype),
        log_odds=jnp.asarray(log_odds, dtype),
        noise_precision=precision,
        active=jnp.asarray(active),
    )
    return problem, state


def for_reference(problem, state):
    """The arguments (X, y, mask_mean, weights, noise_precision, inclusion) of the reference.

    The reference shrinks its arrays, so it gets the active features only.
    """
    on = np.asarray(state.active)
    return (
        np.asarray(problem.X, float)[on].T,
        np.asarray(problem.y, float),
        np.asarray(state.mask_mean, float)[on].T,
        np.asarray(state.weights, float)[on],
        float(state.noise_precision),
        np.asarray(state.inclusion, float)[on],
    )


def spread(active, values):
    """Put the values of the active features back in their places, zero elsewhere."""
    full = np.zeros(active.shape + np.shape(values)[1:])
    full[np.asarray(active)] = values
    return full


def same_bits(a, b):
    """Whether two pytrees are equal bit by bit, NaN equal to NaN."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


def lane(tree, i):
    """Dataset i of a batch."""
    return jax.tree.map(lambda leaf: leaf[i], tree)


def learned_charge(n, strengths, sizes=None, least=1.0):
    """What the rule "learned" charges the weights of features, but for their number.

    Both shapes are gamma distributions of the strength of d weights: of shape d/2 if these are
    normal, of shape d/2 + 1 if their density is multiplied by the strength.
    """
    strengths = np.asarray(strengths)
    if len(strengths) == 0:
        return 0.0
    d = np.ones(len(strengths)) if sizes is None else np.asarray(sizes, float)
    spread = (least + strengths.sum()) / (1 + len(strengths))
    mean = strengths.mean()

    def ratio(s):
        moments = scipy.stats.gamma.logpdf(s, d / 2 + 1, scale=mean / (d / 2 + 1))
        return moments - scipy.stats.gamma.logpdf(s, d / 2, scale=mean / (d / 2))

    normal = np.sum(d / 2 * np.log(n * spread / d))
    # The first feature only tells the spread, not the shape; a fourth is for effects not seen.
    unseen = 0.25 * (len(strengths) - 1)
    return max(normal, 0) - max(ratio(strengths).sum() - ratio(mean).mean() - unseen, 0)
