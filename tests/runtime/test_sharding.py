"""Meshes of devices, of one process and of several: the numbers of one device, a share of work."""

import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bmjax
from bmjax._fitting.checking import checked
from bmjax._fitting.dataset import Outputs, room_of, settings_of
from bmjax._fitting.fit import compiled
from bmjax._runtime import sharding
from tests import processes
from tests.helpers import same_bits, uniform_design


@pytest.fixture(scope="module")
def mesh():
    assert len(jax.devices()) == 8  # of the CPU, see conftest
    return jax.make_mesh((4, 2), ("any", "axes"))


def test_a_batch_is_that_of_one_device(mesh):
    X, y = processes.batch()
    alone = bmjax.fit_batch(X, y, moves=0)
    spread = bmjax.fit_batch(X, y, moves=0, mesh=mesh)
    assert alone.lane_steps == spread.lane_steps
    # The bound is a report, which no fit goes by, and a sum over two starts' samples at once: the
    # compiler takes it in an order that depends on how many datasets a device has.
    np.testing.assert_allclose(spread.starts.bound, alone.starts.bound, rtol=1e-14)

    def rest(result):
        starts = result.starts._replace(bound=None)
        return result._replace(lane_steps=None, starts=starts)

    assert same_bits(rest(alone), rest(spread))


def test_a_batch_in_pools_with_shared_features_and_weights(mesh):
    X, y = processes.batch()
    weights = np.random.default_rng(0).integers(0, 3, size=y.shape)
    for data in ((X[0], y), (jnp.asarray(X), jnp.asarray(y))):
        options = {"sample_weights": weights, "initial_inclusion": 0.5, "width": 2}
        alone = bmjax.fit_batch(*data, **options)
        spread = bmjax.fit_batch(*data, **options, mesh=mesh)
        np.testing.assert_array_equal(spread.support, alone.support)
        # Lanes side by side: sums may be taken in another order.
        np.testing.assert_allclose(spread.coef, alone.coef, atol=1e-10)
        np.testing.assert_array_equal(spread.num_steps, alone.num_steps)


def test_datasets_are_dealt_out_evenly():
    for devices in (1, 3, 8):
        for slots in (1, 2, 5):
            deal = sharding.Deal(slots, devices)
            for count in range(1, deal.size + 1):
                dealt, counts = deal.datasets(count), deal.counts(count)
                np.testing.assert_array_equal(dealt[deal.places(count)], np.arange(count))
                assert counts.sum() == count
                assert counts.max() - counts.min() <= 1
                hands = dealt.reshape(devices, slots)
                real = np.concatenate([h[:c] for h, c in zip(hands, counts, strict=True)])
                np.testing.assert_array_equal(np.sort(real), np.arange(count))


def test_a_study_is_that_of_one_device_whatever_the_chunks(mesh, tmp_path):
    alone = processes.study(None, None, chunk=None)
    spread = processes.study(mesh, tmp_path, chunk=7)
    # What is on disk is of no mesh.
    again = processes.study(None, tmp_path, chunk=7)
    for study in (spread, again):
        assert same_bits(study.truth, alone.truth)
        for name, found in alone.outcomes.items():
            assert same_bits(study.outcomes[name][:3], found[:3])


@pytest.mark.parametrize("n", [160, 155], ids=["even", "with absent rows"])
def test_a_fit_with_its_rows_spread(mesh, n):
    X, y, _ = uniform_design(3, 6, n=n)
    options = {"intercept": n == 155}
    alone = bmjax.fit(X, y, **options)
    spread = bmjax.fit(X, y, **options, mesh=mesh)
    np.testing.assert_array_equal(spread.support, alone.support)
    # Sums of n terms in another order; what is in the tolerance of a fit stays in it.
    np.testing.assert_allclose(spread.coef, alone.coef, atol=1e-9)
    np.testing.assert_allclose(spread.bound, alone.bound, atol=1e-9)
    np.testing.assert_allclose(spread.intercept, alone.intercept, atol=1e-9)
    np.testing.assert_allclose(spread.standard_errors, alone.standard_errors, rtol=1e-9)
    assert spread.status == alone.status


def test_the_work_of_a_device_is_its_share():
    """By the compiler's count. What only k decides is done by all, so n is large beside it.

    XLA fuses fewer rows in another way, so that a share may also be a little smaller than fair.
    """
    cost = {devices: work_of_one(devices) for devices in (1, 2, 8)}
    for kind in ("flops", "transcendentals"):
        for devices in (2, 8):
            share = cost[devices][kind] / cost[1][kind]
            assert 0.9 / devices < share < 1.1 / devices


def work_of_one(devices, n=16_000, k=4):
    given = checked(k, jnp.dtype(float), {"initial_inclusion": 0.5, "max_steps": 100})
    over = sharding.checked(jax.make_mesh((devices,), ("x",), devices=jax.devices()[:devices]))
    X, y, _ = uniform_design(0, k, n=n)
    X, y, _ = sharding.rows_split(over, jnp.asarray(X), jnp.asarray(y), None)
    settings = settings_of(given, room_of(n, k, given), Outputs(uncertainty=False))
    numbers = sharding.everywhere(over, given.options)
    program = compiled.lower(X, y, None, numbers, settings=settings).compile()
    text = program.as_text()
    # Sums cross, rows never do.
    assert ("all-reduce(" in text) == (devices > 1)
    for crossing in ("all-gather(", "all-to-all(", "collective-permute("):
        assert crossing not in text
    return program.cost_analysis()


def test_wrong_meshes():
    X, y = processes.batch()
    for call in (
        partial(bmjax.fit, X[0], y[0]),
        partial(bmjax.fit_batch, X, y),
        partial(bmjax.posterior, X, y),
        partial(bmjax.monte_carlo, bmjax.simulate.two_features, {"fit": bmjax.fit}, KEY, 3),
    ):
        with pytest.raises(TypeError, match=r"mesh is 8; give a jax.sharding.Mesh"):
            call(mesh=8)


KEY = jax.random.key(0)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_processes(count, tmp_path):
    """Real processes on this machine, a device each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = Path(__file__).parents[2]
    running = []
    for number in range(count):
        arguments = [str(port), str(count), str(number), str(tmp_path)]
        command = [sys.executable, "-m", "tests.processes", *arguments]
        with open(tmp_path / f"{number}.log", "wb") as log:
            running.append(subprocess.Popen(command, cwd=root, stdout=log, stderr=log))
    try:
        codes = [process.wait(timeout=240) for process in running]
    finally:
        for process in running:
            process.kill()
    logs = "\n".join((tmp_path / f"{number}.log").read_text() for number in range(count))
    assert codes == [0] * count, logs

    alone = processes.everything(None, None)
    for number in range(count):
        with np.load(tmp_path / f"{number}.npz") as found:
            for name, wanted in alone.items():
                np.testing.assert_allclose(found[name], wanted, atol=1e-9, err_msg=name)
            assert found["chunks"] == 3
