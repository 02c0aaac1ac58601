"""Small datasets, and the posterior over their supports by a literal loop."""

import numpy as np
import scipy.special

from bmjax._posterior.prior import evidence_of, log_size_prior


def ar1(seed, n, k, weights, correlation=0.5, noise=1.0):
    """Neighbours correlated; the weights are of the first features."""
    rng = np.random.default_rng(seed)
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    X = rng.normal(size=(n, k)) @ np.linalg.cholesky(correlation**distance).T
    coef = np.zeros(k)
    coef[: len(weights)] = weights
    return X, X @ coef + noise * rng.normal(size=n), coef


def literal(X, y, *, intercept, weights=None, always=(), precision=None, most=None):
    """Probabilities, mean, covariance, noise and sizes, least squares by `lstsq` on each support.

    Only the grid of widths and the prior of sizes are the package's own.
    """
    n, k = X.shape
    weights = np.ones(n) if weights is None else weights
    root = np.sqrt(weights)[:, None]
    base = [np.ones((n, 1))] if intercept else []
    base = np.concatenate([*base, X[:, list(always)]], axis=1) * root
    free = [j for j in range(k) if j not in always]

    def left(values):
        if not base.shape[1]:
            return values
        return values - base @ np.linalg.lstsq(base, values, rcond=None)[0]

    Z, t = left(X * root)[:, free], left(y[:, None] * root)[:, 0]
    freedom = weights.sum() - np.linalg.matrix_rank(base) if base.shape[1] else weights.sum()
    total, f = t @ t, len(free)
    sizes = log_size_prior(f, f if most is None else most, f + 1)
    known = None if precision is None else np.asarray(precision * total)
    evidence = evidence_of(np.asarray(float(freedom)), sizes, known)
    g, log_g = np.asarray(evidence.width), np.asarray(evidence.log_width)
    logs, codes, means, seconds, noises = [], [], [], [], []
    for code in range(2**f):
        chosen = [j for j in range(f) if code >> j & 1]
        size = len(chosen)
        b, V = np.zeros(f), np.zeros((f, f))
        if np.linalg.matrix_rank(Z[:, chosen]) < size:
            continue
        b[chosen] = np.linalg.lstsq(Z[:, chosen], t, rcond=None)[0]
        V[np.ix_(chosen, chosen)] = np.linalg.inv(Z[:, chosen].T @ Z[:, chosen])
        rest = np.sum((t - Z @ b) ** 2)
        shrink = g / (1 + g)
        if precision is None:
            # N(y; 0, s2 (I + g P)) over p(s2) = 1/s2, P the projection onto the columns.
            quadratic = rest + (total - rest) / (1 + g)
            log = -0.5 * size * np.log1p(g) - 0.5 * freedom * np.log(quadratic)
            noise = quadratic / (freedom - 2)
        else:
            quadratic = rest + (total - rest) / (1 + g)
            log = -0.5 * size * np.log1p(g) - 0.5 * precision * quadratic
            noise = np.full_like(g, 1 / precision)
        logs.append(log + log_g + sizes[size])
        codes.append([j in chosen for j in range(f)])
        means.append(shrink[:, None] * b)
        seconds.append(
            shrink[:, None, None] ** 2 * np.outer(b, b) + (shrink * noise)[:, None, None] * V
        )
        noises.append(noise)
    weight = np.exp(np.array(logs) - scipy.special.logsumexp(logs))
    mean = np.einsum("sg,sgk->k", weight, np.array(means))
    second = np.einsum("sg,sgkl->kl", weight, np.array(seconds))
    each, codes = weight.sum(1), np.array(codes, float)
    return {
        "probability": each @ codes,
        "coef": mean,
        "covariance": second - np.outer(mean, mean),
        "noise": np.sum(weight * np.array(noises)),
        "size": np.bincount(codes.sum(1).astype(int), each, f + 1),
        "support": each.max(),
        "free": free,
    }
