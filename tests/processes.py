"""What one of several processes does in `test_devices`: the same calls as all of the others.

python -m tests.processes PORT COUNT NUMBER FOLDER
"""

import os
import sys
from pathlib import Path

import jax
import numpy as np

import bmjax
from tests.helpers import plain_fit, plain_fit_batch, uniform_design


def batch():
    """Eleven datasets, not a multiple of anything."""
    designs = [uniform_design(seed, 5, n=60) for seed in range(11)]
    return tuple(np.stack([design[i] for design in designs]) for i in (0, 1))


def study(mesh, checkpoint, chunk):
    """Methods of every kind, quick to compile."""
    methods = {
        "fit": bmjax.baselines.least_squares,
        "batch": bmjax.batched(jax.vmap(bmjax.baselines.least_squares)),
        "host": bmjax.on_host(lambda X, y: np.linalg.lstsq(X, y)[0]),
    }
    return bmjax.monte_carlo(
        bmjax.simulate.two_features,
        methods,
        jax.random.key(1),
        17,
        chunk=chunk,
        checkpoint=checkpoint,
        mesh=mesh,
    )


def everything(mesh, checkpoint):
    """Numbers from each call that takes a mesh."""
    X, y = batch()
    many = plain_fit_batch(X, y, width=1, mesh=mesh)
    rows = plain_fit(X[0][:59], y[0][:59], uncertainty=False, mesh=mesh)
    every = bmjax.posterior(X, y, mesh=mesh)
    chains = bmjax.posterior(X[0], y[0], enumerate_up_to=0, max_steps=1024, mesh=mesh)
    found = {
        "batch": np.asarray(many.coef),
        "posterior by enumeration": np.asarray(every.probability),
        "posterior by chains": np.asarray(chains.probability),
        "fit": np.asarray(rows.coef),
        "bound": np.asarray(rows.bound),
    }
    for again in (False, True):  # the second time from the checkpoint
        for name, outcomes in study(mesh, checkpoint, chunk=7).outcomes.items():
            found[f"study {name} {again}"] = outcomes.coef
    return found


def main():
    port, count, number, folder = sys.argv[1:]
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(f"127.0.0.1:{port}", int(count), int(number))
    mesh = jax.make_mesh((int(count),), ("processes",))
    checkpoint = Path(folder) / "study"
    found = everything(mesh, checkpoint)
    chunks = len(list(checkpoint.glob("*.npz")))
    np.savez(Path(folder) / f"{number}.npz", chunks=chunks, **found)


if __name__ == "__main__":
    main()
