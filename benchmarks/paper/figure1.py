"""Figure 1: how the estimators and Bayesian masking shrink a single feature."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

import bmjax
from benchmarks.paper.figure import Claim, Figure, Table, style, yes
from bmjax import shrinkage

SAMPLES, ALPHA = 20, 12.0  # noise precision 1, x'x = n, so the Lasso shifts by 0.6


def measure(quick: bool) -> Table:
    """Each estimator along a line of least-squares estimates, the residual held fixed.

    BM is fitted by EM, because it has no closed form if its masks are free. `FAB` is the mean over
    the noise of the closed form of section 4.3, at random masks that are the same along the line.
    """
    rng = np.random.default_rng(0)
    x, residual = np.ones(SAMPLES), rng.normal(size=SAMPLES)
    residual = (residual - residual.mean()) / residual.std()
    effects = np.linspace(-2, 2, 41 if quick else 161)
    ys = jnp.asarray(effects[:, None] * x + residual)
    masks = rng.uniform(size=SAMPLES)
    fitted = bmjax.fit_batch(
        x[:, None], ys, solver=bmjax.EM(), noise_precision=1.0, initial_inclusion=0.5
    )
    return pd.DataFrame(
        {
            "least squares": [shrinkage.least_squares(x, y) for y in ys],
            "Lasso": [shrinkage.lasso(x, y, ALPHA) for y in ys],
            "ARD": [shrinkage.ard(x, y, 1.0) for y in ys],
            "FAB": [shrinkage.fab(x, effect * x, masks) for effect in effects],
            "BM": np.asarray(fitted.coef)[:, 0],
        },
        dtype=float,
    )


def claims(table: Table) -> list[Claim]:
    """Claims: a constant shift, a shift that fades, or no shift."""
    truth = table["least squares"]
    large, medium = truth.abs() >= 1.5, truth.abs().between(0.75, 1.5, inclusive="left")

    def shift(method: str) -> Table:
        return (truth - table[method]) * np.sign(truth)

    lasso = shift("Lasso")[table["Lasso"] != 0]
    ard = shift("ARD")[table["ARD"] != 0]
    product = ard * truth.abs()[table["ARD"] != 0]
    kept = table["BM"] != 0
    return [
        Claim(
            "Lasso shifts the estimate to zero by the same value",
            f"by {lasso.min():.3f} to {lasso.max():.3f}: alpha / (lambda x'x), half of what the "
            "paper prints (erratum)",
            yes(bool(np.ptp(lasso) < 1e-9)),
        ),
        Claim(
            "the shrinkage of ARD is larger when the LS estimate is smaller",
            f"shift x |LS| is {product.min():.4f} to {product.max():.4f}; the mean shift is "
            f"{shift('ARD')[medium].mean():.3f} from 0.75 to 1.5 and "
            f"{shift('ARD')[large].mean():.3f} from 1.5 to 2",
            yes(bool(np.ptp(product) < 1e-9)),
        ),
        Claim(
            "FAB in one dimension is unbiased at any masks (section 4.3)",
            f"largest distance from LS {(table['FAB'] - truth).abs().max():.1e}",
            yes(bool((table["FAB"] - truth).abs().max() < 1e-9)),
        ),
        Claim(
            "(not in the figure) fitted BM prunes without shrinking",
            f"prunes up to {truth.abs()[~kept].max():.2f}; the mean shift is "
            f"{shift('BM')[medium & kept].mean():.3f} from 0.75 to 1.5 and "
            f"{shift('BM')[large].mean():.4f} from 1.5 to 2",
            yes(bool(shift("BM")[large].abs().max() < 0.05)),
        ),
    ]


def draw(table: Table) -> Picture:
    """Estimates against least squares."""
    figure = Picture(figsize=(5.5, 4.5), layout="constrained")
    axes = figure.subplots()
    truth = table["least squares"]
    axes.plot(truth, table["FAB"], color="0.8", linewidth=5, label="least squares = FAB")
    for method in ("Lasso", "ARD", "BM"):
        look: Any = style(method) | {"markevery": len(table) // 20, "markersize": 4}
        axes.plot(truth, table[method], **look)
    axes.set_xlabel("least-squares estimate (standard error 0.22)")
    axes.set_ylabel("estimate")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    return figure


FIGURE = Figure("Figure 1: shrinkage with one feature", measure, draw, claims)
