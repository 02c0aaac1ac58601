"""`fit_batch` against the literal NumPy algorithms, and against other estimators."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import bmjax
from benchmarks import estimators, reference
from benchmarks.speed import clock, data


def against_reference(quick: bool) -> list[dict[str, Any]]:
    """EM and hybrid, literally, in NumPy, and `fit_batch`, each run to its own convergence."""
    X, y = data.two_features(50 if quick else 500)
    cases: list[tuple[str, Any, Any, dict[str, Any]]] = [
        (f"two features, {len(y)} datasets", X, y, {"noise_precision": 200.0})
    ]
    for k, b in [(10, 5)] if quick else [(10, 100), (50, 20)]:
        X, y, _ = data.uniform_design(b, k)
        cases.append((f"k = {k}, {b} datasets", X, y, {}))
    rows = []
    for name, X, y, options in cases:
        features = [X] * len(y) if X.ndim == 2 else list(X)
        # A first call of the very same shapes compiles; the reference has nothing to compile.
        data.plain_fit_batch(X, y, **options)
        for label, literal in (("EM", reference.fab_em), ("hybrid", reference.fab_hybrid)):
            if label == "hybrid" and len(y) * X.shape[-1] >= 1000 and X.shape[-1] > 10:
                continue  # hours, and the paper's own figure for it is no faster than EM's
            fits: list[Any] = []
            theirs = clock.seconds(
                lambda f=literal, a=features, o=options, out=fits, t=y: out.extend(
                    f(x, target, **o) for x, target in zip(a, t, strict=True)
                )
            )
            # Once for a rival that takes minutes, many times for what takes hundredths of a second.
            ours = clock.in_turn(
                [lambda x=X, t=y, o=options: data.plain_fit_batch(x, t, **o)], 15, warm_up=False
            )
            ratio = clock.spread(theirs / ours)
            r = data.plain_fit_batch(X, y, **options)
            assert r.lane_steps is not None
            rows.append(
                {
                    "case": name,
                    "rival": f"reference {label}",
                    "rival s": theirs,
                    "fit_batch s": np.median(ours),
                    "ratio": ratio[0],
                    "lowest": ratio[1],
                    "highest": ratio[2],
                    "rival bound": np.nanmean([f.bound for f in fits]),
                    "bound": float(jnp.mean(r.bound)),
                    "rival converged": np.mean([f.converged for f in fits]),
                    "converged": float(jnp.mean(r.converged)),
                    "rival iterations": np.median([f.num_steps for f in fits]),
                    "iterations": float(jnp.median(r.num_steps)),
                    "useful lane-steps": r.lane_steps.useful / r.lane_steps.total,
                }
            )
    return rows


def against_estimators(quick: bool) -> list[dict[str, Any]]:
    """The default and one start on a batch, and each rival used in its usual way per dataset.

    They take turns; the F1 of pruning is given with the time; rivals fit a sample of the datasets.
    """
    fits = {"default": bmjax.fit_batch, "one start": data.plain_fit_batch}
    rivals = {
        "LassoCV(cv=10)": estimators.lasso_cv,
        "ARDRegression": estimators.ard,
        "abess (BIC)": estimators.abess,
    }
    rows = []
    for k, b, sample in (
        [(10, 20, 5)] if quick else [(10, 100, 100), (30, 100, 20), (50, 100, 12), (100, 100, 4)]
    ):
        X, y, weights = data.uniform_design(b, k, seed=1)
        # Ours compile in a call that is not counted; the rivals have nothing to compile.
        ends = {name: jax.block_until_ready(fit(X, y)) for name, fit in fits.items()}
        found: dict[str, list[np.ndarray]] = {}

        def one_by_one(name, a=X, t=y, m=sample, found=found):
            found[name] = [rivals[name](a[i], t[i]) for i in range(m)]

        sides = [partial(fit, X, y) for fit in fits.values()]
        sides += [partial(one_by_one, name) for name in rivals]
        times = clock.in_turn(sides, 2 if k < 50 else 1, warm_up=False)
        times = times / ([b] * len(fits) + [sample] * len(rivals))
        spent = dict(zip([*fits, *rivals], times.T, strict=True))
        row: dict[str, Any] = {"k": k, "datasets": b, "sample of rivals": sample}
        for name, r in ends.items():
            row[f"{name} ms"] = 1e3 * np.median(spent[name])
            row[f"{name} F1"] = data.f1_of_pruning(np.asarray(r.support), weights).mean()
            row[f"{name} iterations"] = float(jnp.median(r.num_steps))
            row[f"{name} converged"] = float(jnp.mean(r.converged))
        for name, coefs in found.items():
            row[f"{name} ms"] = 1e3 * np.median(spent[name])
            for ours in fits:
                row[f"{name} / {ours}"] = np.median(spent[name] / spent[ours])
            row[f"{name} F1"] = data.f1_of_pruning(np.stack(coefs) != 0, weights[:sample]).mean()
        rows.append(row)
    return rows


def against_vmap(quick: bool) -> list[dict[str, Any]]:
    """The gain from lanes that end on their own."""
    X2, y2 = data.two_features(100 if quick else 500)
    X10, y10, _ = data.uniform_design(10 if quick else 100, 10)
    rows = []
    cases: list[tuple[str, Any, Any, dict[str, Any]]] = [
        ("two features", X2, y2, {"noise_precision": 200.0}),
        ("k = 10", X10, y10, {}),
    ]
    for name, host_X, host_y, options in cases:
        X, y = jnp.asarray(host_X), jnp.asarray(host_y)
        axes = (None if X.ndim == 2 else 0, 0)
        plain = jax.jit(jax.vmap(lambda a, t, o=options: data.plain_fit(a, t, **o), in_axes=axes))
        times = clock.in_turn(
            [
                lambda f=plain, a=X, t=y: f(a, t),
                lambda a=X, t=y, o=options: data.plain_fit_batch(a, t, **o),
            ],
            3,
        )
        ratio = clock.spread(times[:, 0] / times[:, 1])
        rows.append(
            {
                "case": f"{name}, {len(y)} datasets",
                "vmap(fit) s": np.median(times[:, 0]),
                "fit_batch s": np.median(times[:, 1]),
                "ratio": ratio[0],
                "lowest": ratio[1],
                "highest": ratio[2],
            }
        )
    return rows


def precisions(quick: bool) -> list[dict[str, Any]]:
    """The same datasets in float32 and in float64: supports, F1 and time.

    For one fit from one start, and for the default, which tries several starts.
    """
    rows = []
    fits = {"one start": data.plain_fit_batch, "default": bmjax.fit_batch}
    for k, b in [(10, 20)] if quick else [(10, 200), (30, 60)]:
        X, y, weights = data.uniform_design(b, k, seed=2)
        small = X.astype(np.float32), y.astype(np.float32)
        for name, fit in fits.items():
            times = clock.in_turn(
                [lambda f=fit, a=small: f(*a), lambda f=fit, a=X, t=y: f(a, t)],
                3,
            )
            kept = [np.asarray(fit(*pair).support) for pair in (small, (X, y))]
            f1 = [data.f1_of_pruning(support, weights) for support in kept]
            rows.append(
                {
                    "k": k,
                    "datasets": b,
                    "fit": name,
                    "same support": (kept[0] == kept[1]).all(axis=1).mean(),
                    "float32 F1": f1[0].mean(),
                    "float64 F1": f1[1].mean(),
                    "F1 standard error": f1[1].std() / np.sqrt(b),
                    "float64 s / float32 s": np.median(times[:, 1] / times[:, 0]),
                }
            )
    return rows
