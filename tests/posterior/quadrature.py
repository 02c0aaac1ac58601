"""The posterior over supports by enumeration and Gauss-Hermite quadrature, for any likelihood."""

import itertools

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

from bmjax._posterior.prior import evidence_of, log_size_prior


def log_logistic(y, eta, _):
    return -np.logaddexp(0, -(2 * y - 1) * eta)


def log_student(degrees):
    def log(y, eta, log_scale):
        return scipy.stats.t.logpdf((y - eta) / np.exp(log_scale), degrees) - log_scale

    return log


def by_quadrature(X, y, log, information, *, has_scale, counts=None, nodes=9):
    """Probabilities, means and standard deviations of the effects; the level is free.

    Only the grid of widths and the prior of sizes are the package's own.

    Args:
        X: (n, k) features, few.
        y: (n,) target.
        log: Log density of y, predictor and log scale.
        information: Of a sample where nothing is explained.
        has_scale: Whether the scale is unknown, with p(scale) = 1 / scale.
        counts: How often each row counts.
        nodes: Of the quadrature, in each direction.
    """
    n, k = X.shape
    counts = np.ones(n) if counts is None else counts
    X = X - counts @ X / counts.sum()
    sizes = log_size_prior(k, k, k + 1)
    evidence = evidence_of(np.asarray(counts.sum() - 1.0), sizes, None)
    at, weights = np.polynomial.hermite_e.hermegauss(nodes)
    logs, codes, means, seconds = [], [], [], []
    for code in range(2**k):
        chosen = [j for j in range(k) if code >> j & 1]
        own, size = X[:, chosen], len(chosen)
        inverse = information * (own * counts[:, None]).T @ own
        lead = 1 + has_scale
        q = lead + size
        grid = np.array(list(itertools.product(at, repeat=q)))
        grid_weights = np.prod(np.array(list(itertools.product(weights, repeat=q))), axis=1)
        begin = np.zeros(q)
        begin[0] = np.log(np.std(y)) if has_scale else 0
        begin[lead - 1] = np.mean(y) if has_scale else 0
        for log_g, prior in zip(np.log(evidence.width), evidence.log_width, strict=True):

            def value(theta, own=own, inverse=inverse, lead=lead, log_g=log_g, size=size):
                theta = np.atleast_2d(theta)
                scale = theta[:, :1] if has_scale else np.zeros((len(theta), 1))
                b = theta[:, lead:]
                eta = theta[:, lead - 1 : lead] + b @ own.T
                square = np.einsum("ti,ij,tj->t", b, inverse, b) * np.exp(-2 * scale[:, 0] - log_g)
                widths = size * (log_g + 2 * scale[:, 0] + np.log(2 * np.pi))
                return log(y, eta, scale) @ counts - 0.5 * (square + widths)

            mode = scipy.optimize.minimize(
                lambda theta, value=value: -value(theta)[0], begin, tol=1e-9
            ).x
            begin = mode
            curve = _hessian(lambda theta, value=value: -value(theta)[0], mode)
            way = np.linalg.cholesky(np.linalg.inv(curve))
            points = mode + grid @ way.T
            values = value(points) + 0.5 * np.sum(grid**2, axis=1)
            top = values.max()
            share = grid_weights * np.exp(values - top)
            total = share.sum()
            logs.append(
                top
                + np.log(total)
                + np.linalg.slogdet(way)[1]
                + (0.5 * np.linalg.slogdet(inverse)[1] if size else 0)
                + prior
                + sizes[size]
            )
            b = np.zeros((len(points), k))
            b[:, chosen] = points[:, lead:]
            means.append(share @ b / total)
            seconds.append(share @ b**2 / total)
            codes.append([j in chosen for j in range(k)])
    weight = np.exp(np.array(logs) - scipy.special.logsumexp(logs))
    mean = weight @ np.array(means)
    variance = weight @ np.array(seconds) - mean**2
    return weight @ np.array(codes, float), mean, np.sqrt(variance)


def _hessian(function, at, step=1e-4):
    q = len(at)
    found = np.zeros((q, q))
    unit = step * np.eye(q)
    for i in range(q):
        for j in range(i + 1):
            signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            values = [a * b * function(at + a * unit[i] + b * unit[j]) for a, b in signs]
            found[i, j] = found[j, i] = sum(values) / (4 * step**2)
    return found
