"""Functions of rows, on one device and spread over many."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bmjax._runtime import rows, sharding


def drawn(keys, values, shared, *, scale):
    """A sum for each row, and the number of rows that one device has."""
    noise = jax.vmap(lambda key: jax.random.normal(key, (2,)))(keys)
    found = scale * (noise.sum(axis=1) + values["x"] @ shared)
    return {"sums": found, "here": jnp.full(len(found), len(found))}


@pytest.mark.parametrize("number", [1, 7, 8, 19])
def test_every_device_has_its_share_and_no_row_changes(number):
    mesh = sharding.checked(jax.make_mesh((4, 2), ("any", "axes")))
    keys = jax.random.split(jax.random.key(0), number)
    values = {"x": np.random.default_rng(0).normal(size=(number, 3))}
    own, shared = (keys, values), (np.arange(3.0),)
    alone = rows.call(drawn, own, shared, None, scale=2.0)
    spread = rows.call(drawn, own, shared, mesh, scale=2.0)
    assert spread["sums"].shape == (number,)
    np.testing.assert_allclose(spread["sums"], alone["sums"], 1e-13)
    np.testing.assert_array_equal(alone["here"], number)
    np.testing.assert_array_equal(spread["here"], -(-number // 8))
