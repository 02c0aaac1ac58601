"""Several datasets in one call, of one length or of several, on one device or spread over many."""

import jax
import numpy as np
import pytest

import bmjax
from bmjax._posterior import reweighted, sampling
from bmjax._runtime import rows
from tests.posterior.designs import ar1, literal

LENGTHS = (40, 33, 70, 48, 41)
KEY = jax.random.key(5)
FEW_STEPS = {"enumerate_up_to": 0, "max_steps": 1024}


def designs(k=6):
    data = [ar1(seed, n, k, [1, -1, 0.4]) for seed, n in enumerate(LENGTHS)]
    return [d[0] + 2 for d in data], [d[1] for d in data]


def outcome_of(family, y):
    return [(one > np.median(one)).astype(float) for one in y] if family == "logistic" else y


@pytest.fixture
def narrow(monkeypatch):
    """Working sets as where there are many features: ten of twelve at a time."""
    monkeypatch.setattr(sampling, "_WIDE", sampling.Width(every=8, core=5, least=10, spare=0))


def the_same(found, wanted):
    """Results in every number that does not depend on how many supports others have."""
    # The climb to a mode, where y is not Gaussian, ends within a tolerance.
    rtol = 1e-9 if found.family is None else 1e-6
    for field in ("probability", "coef", "standard_errors", "intercept", "noise_variance", "size"):
        np.testing.assert_allclose(getattr(found, field), getattr(wanted, field), rtol, 1e-11)
    assert found.status == wanted.status
    assert found.num_steps == wanted.num_steps
    np.testing.assert_allclose(found.interval(), wanted.interval(), 1e-5, 1e-6)
    new = np.ones((1, found.coef.shape[0]))
    np.testing.assert_allclose(found.predict(new, True), wanted.predict(new, True), rtol)
    few = len(wanted.support_probability)
    np.testing.assert_allclose(found.support_probability[:few], wanted.support_probability, rtol)


def one_of(found, i):
    return jax.tree.map(lambda leaf: leaf[i], found)


@pytest.mark.parametrize("weighted", [False, True])
def test_each_of_several_lengths_as_by_a_loop_over_least_squares(weighted):
    X, y = designs()
    counts = [np.random.default_rng(n).integers(0, 3, n).astype(float) for n in LENGTHS]
    found = bmjax.posterior(X, y, intercept=True, sample_weights=counts if weighted else None)
    assert found.probability.shape == (5, 6)
    for i, weights in enumerate(counts if weighted else [None] * 5):
        wanted = literal(X[i], y[i], intercept=True, weights=weights)
        np.testing.assert_allclose(found.probability[i], wanted["probability"], 1e-8)
        np.testing.assert_allclose(found.coef[i], wanted["coef"], 1e-8, 1e-12)
        np.testing.assert_allclose(found.noise_variance[i], wanted["noise"], 1e-8)


@pytest.mark.parametrize(
    ("family", "chains"),
    [
        ("gaussian", False),
        ("gaussian", True),
        ("logistic", False),
        ("logistic", True),
        (bmjax.Student(None), False),
    ],
)
def test_each_of_several_lengths_as_if_alone(family, chains):
    X, y = designs()
    y = outcome_of(family, y)
    options = {"intercept": True, "family": family, "unmasked": [5], "supports": 20}
    options |= FEW_STEPS if chains else {}
    found = bmjax.posterior(X, y, KEY, **options)
    for i in (0, 2, 4):
        alone = bmjax.posterior(X[i], y[i], jax.random.fold_in(KEY, i), **options)
        the_same(one_of(found, i), alone)
        if isinstance(family, bmjax.Student):
            np.testing.assert_allclose(found.family.degrees[i], alone.family.degrees)


@pytest.mark.parametrize("family", ["gaussian", "logistic", "student"])
def test_rows_of_weight_zero_change_nothing(family):
    X, y = designs()
    y = outcome_of(family, y)
    options = {"intercept": True, "family": family}
    most = max(LENGTHS)
    filled = [np.pad(one, [(0, most - len(one)), (0, 0)], constant_values=9.0) for one in X]
    targets = [np.pad(one, (0, most - len(one)), constant_values=9.0) for one in y]
    counts = [np.arange(most) < n for n in LENGTHS]
    padded = bmjax.posterior(
        np.stack(filled), np.stack(targets), sample_weights=np.stack(counts), **options
    )
    ragged = bmjax.posterior(X, y, **options)
    for i in range(5):
        the_same(one_of(padded, i), one_of(ragged, i))


def test_a_long_dataset_has_fewer_supports_judged_as_if_alone(monkeypatch):
    # The limit counts the rows of each dataset: here 7 supports of the longest, 15 of the shortest.
    monkeypatch.setattr(reweighted, "_ROWS", 500)
    monkeypatch.setattr(reweighted, "_FEWEST", 1)
    X, y = designs()
    y = outcome_of("logistic", y)
    options = {"intercept": True, "family": "logistic", "supports": 4}
    found = bmjax.posterior(X, y, **options)
    for i in (1, 2):
        the_same(one_of(found, i), bmjax.posterior(X[i], y[i], **options))


def test_lengths_of_wide_data_share_programs(narrow, monkeypatch):
    X, y = designs(12)
    called, shapes = rows.call, set()

    def seen(function, own, shared, mesh, **static):
        shapes.add((function.__name__, *(np.shape(leaf) for leaf in jax.tree.leaves(shared))))
        return called(function, own, shared, mesh, **static)

    monkeypatch.setattr(rows, "call", seen)
    found = bmjax.posterior(X, y, KEY, intercept=True, **FEW_STEPS)
    assert len({shape for shape in shapes if shape[0] == "at_large"}) == 2  # of 64 and of 80 rows
    alone = bmjax.posterior(X[3], y[3], jax.random.fold_in(KEY, 3), intercept=True, **FEW_STEPS)
    np.testing.assert_array_equal(found.probability[3], alone.probability)
    exact = bmjax.posterior(X, y, intercept=True)
    assert np.max(np.abs(found.probability - exact.probability)) < 0.1


def test_names_and_types_of_a_list():
    pd = pytest.importorskip("pandas")
    X, y = designs()
    frames = [pd.DataFrame(one, columns=list("abcdef")) for one in X]
    found = bmjax.posterior(frames, y, intercept=True, unmasked=["b"])
    assert found.names == bmjax.Names(tuple("abcdef"))
    np.testing.assert_array_equal(found.unmasked, np.tile(np.arange(6) == 1, (5, 1)))
    single = [one.astype(np.float32) for one in X]
    targets = [one.astype(np.float32) for one in y]
    assert bmjax.posterior(single, targets).coef.dtype == np.float32
    assert bmjax.posterior(single, [*targets[:4], y[4]]).coef.dtype == np.float64


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda X, y: (X, np.concatenate(y)), TypeError, "y is ndarray; with a list of datasets"),
        (lambda X, y: (X, y[:-1]), ValueError, "y holds 4 arrays, X holds 5"),
        (lambda X, y: ([X[0][:, :3], *X[1:]], y), ValueError, r"datasets of \[3, 6\] features"),
        (lambda X, y: ([X[0][:1], *X[1:]], [y[0][:1], *y[1:]]), ValueError, r"X\[0\] has 1 row"),
        (
            lambda X, y: (X, [*y[:4], y[4] + 0.5]),
            ValueError,
            "outcomes 0 and 1",
        ),
    ],
)
def test_wrong_lists(change, error, message):
    X, y = designs()
    X, y = change(X, outcome_of("logistic", y))
    with pytest.raises(error, match=message):
        bmjax.posterior(X, y, family="logistic")


def test_a_dataset_without_rows_that_count_is_refused_by_its_number():
    X, y = designs()
    counts = np.ones((2, 40))
    counts[1, 1:] = 0
    with pytest.raises(ValueError, match=r"dataset 1 has 1 row\(s\) that count"):
        bmjax.posterior(X[0], np.stack([y[0], y[0]]), sample_weights=counts)


# ---- meshes


def mesh_of(devices):
    return jax.make_mesh((devices,), ("x",), devices=jax.devices()[:devices])


@pytest.fixture
def dealt(monkeypatch):
    """The numbers of rows that were dealt out to the devices of a mesh, with that of devices."""
    split, found = rows.sharding.split, set()

    def seen(mesh, values):
        found.add((mesh.size, len(values)))
        return split(mesh, values)

    monkeypatch.setattr(rows.sharding, "split", seen)
    return found


@pytest.mark.parametrize(("devices", "slots"), [(3, 6), (8, 8)])
def test_datasets_spread_over_devices(devices, slots, dealt):
    X, y = designs()
    alone = bmjax.posterior(X, y, intercept=True)
    spread = bmjax.posterior(X, y, intercept=True, mesh=mesh_of(devices))
    assert (devices, slots) in dealt
    for i in range(5):
        the_same(one_of(spread, i), one_of(alone, i))
    # A single dataset leaves devices idle, and is the same.
    single = bmjax.posterior(X[0], y[0], intercept=True, mesh=mesh_of(devices))
    the_same(single, one_of(alone, 0))


@pytest.mark.parametrize("family", ["gaussian", "student"])
def test_chains_spread_over_devices(family, dealt):
    X, y = designs()
    options = {"intercept": True, "family": family, **FEW_STEPS}
    alone = bmjax.posterior(X[:2], y[:2], KEY, **options)
    spread = bmjax.posterior(X[:2], y[:2], KEY, mesh=mesh_of(3), **options)
    assert (3, 18) in dealt  # sixteen chains, six a device
    for i in range(2):
        the_same(one_of(spread, i), one_of(alone, i))


def test_chains_of_one_wide_dataset_spread_over_devices(narrow, dealt):
    X, y = designs(12)
    options = {"intercept": True, **FEW_STEPS}
    alone = bmjax.posterior(X[0], y[0], KEY, **options)
    spread = bmjax.posterior(X[0], y[0], KEY, mesh=mesh_of(8), **options)
    assert (8, 16) in dealt
    the_same(spread, alone)
