"""Spreading work over the devices of a mesh, of one or several processes, by JAX's sharding.

Two kinds of work are spread. Rows of one dataset: the compiler inserts an all-reduce for every sum
over rows, and only such sums cross between devices. Datasets of a batch: every device fits its own,
dealt out like cards so that all have equally many, and nothing crosses.

With several processes (`jax.distributed`) every process makes the same call with the same
arguments and gets the same answer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

T = TypeVar("T")

AXIS = "devices"


class Deal(NamedTuple):
    """The distribution of the datasets of a chunk: device i gets numbers i, i + d, i + 2 d, ...

    Attributes:
        slots: Number of datasets that each device has room for.
        devices: Number of devices, d.
    """

    slots: int
    devices: int

    @property
    def size(self) -> int:
        """The number of datasets that a chunk has room for."""
        return self.slots * self.devices

    def datasets(self, count: int) -> np.ndarray:
        """The number of the dataset in each slot, device by device; 0 for an empty slot."""
        number = np.arange(self.size).reshape(self.slots, self.devices).T.ravel()
        return np.where(number < count, number, 0)

    def places(self, count: int) -> np.ndarray:
        """The slot of each of the first `count` datasets."""
        number = np.arange(count)
        return number % self.devices * self.slots + number // self.devices

    def counts(self, count: int) -> np.ndarray:
        """The number of the first `count` datasets that each device has."""
        device = np.arange(self.devices)
        return ((count - device + self.devices - 1) // self.devices).astype(np.int32)


def checked(mesh: Any) -> Mesh | None:
    """The devices of a mesh along one axis, or None if there is no mesh.

    Raises:
        TypeError: If `mesh` is neither a mesh nor None.
    """
    if mesh is None:
        return None
    if not isinstance(mesh, Mesh):
        raise TypeError(
            f"mesh is {mesh!r}; give a jax.sharding.Mesh, such as jax.make_mesh((8,), ('x',))."
        )
    return Mesh(mesh.devices.ravel(), (AXIS,))


def split(mesh: Mesh, rows: Any) -> jax.Array:
    """An array with its first axis split over the devices, whose number must divide its length."""
    return _put(rows, NamedSharding(mesh, P(AXIS)))


def everywhere(mesh: Mesh, tree: Any) -> Any:
    """Arrays replicated on every device."""
    return jax.tree.map(lambda leaf: _put(leaf, NamedSharding(mesh, P())), tree)


def _put(array: Any, sharding: NamedSharding) -> jax.Array:
    if isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        words = _put(jax.random.key_data(array), sharding)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(array))
    if isinstance(array, jax.Array) and (sharding.is_fully_addressable or not _here(array)):
        return jax.device_put(array, sharding)
    host = np.asarray(array)
    return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])


def _here(array: jax.Array) -> bool:
    return array.is_fully_addressable


def to_host(tree: Any) -> Any:
    """Arrays as NumPy arrays, complete in every process."""

    def whole(leaf: Any) -> np.ndarray:
        if isinstance(leaf, jax.Array) and not (_here(leaf) or leaf.is_fully_replicated):
            return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))
        return np.asarray(leaf)

    return jax.tree.map(whole, tree)


def spread(function: Callable[..., Any], mesh: Mesh) -> Callable[..., Any]:
    """A function that every device applies to its own part; it is to be compiled.

    Args:
        function: A function of a pytree of arrays that belong to the device, one of arrays that all
            devices have, and the number of its real datasets. It returns a pytree of arrays with
            the datasets in front, or with a single row.
        mesh: The devices, along one axis.

    Returns:
        The function of the whole arrays; its counts are (d,), one for each device.
    """

    def local(own: Any, shared: Any, counts: jax.Array) -> Any:
        return function(own, shared, counts[0])

    # Nothing crosses between devices, so JAX need not track which values differ between them.
    return jax.shard_map(
        local, mesh=mesh, in_specs=(P(AXIS), P(), P(AXIS)), out_specs=P(AXIS), check_vma=False
    )


def rows_split(
    mesh: Mesh, X: jax.Array, y: jax.Array, sample_weights: jax.Array | None
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """The rows of a dataset split over the devices, padded with absent rows to equal numbers."""
    n = len(y)
    missing = -n % mesh.size
    if missing:
        counts = jnp.ones(n, X.dtype) if sample_weights is None else sample_weights
        X, y, sample_weights = (
            jnp.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1)) for rows in (X, y, counts)
        )
    counts = None if sample_weights is None else split(mesh, sample_weights)
    return split(mesh, X), split(mesh, y), counts


def local(tree: T) -> T:
    """Arrays replicated on all devices of all processes, as arrays of this process only."""

    def own(leaf: jax.Array) -> jax.Array:
        if isinstance(leaf, Tracer) or _here(leaf):
            return leaf
        return jnp.asarray(np.asarray(leaf))

    return jax.tree.map(own, tree)
