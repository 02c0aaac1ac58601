"""A study that is killed, or whose disk is full or damaged, loses a chunk at most."""

import os
import resource
import signal
import subprocess
import sys
from functools import partial

import jax
import numpy as np
import pytest

import bmjax
from tests.helpers import same_bits

KEY = jax.random.key(5)
DESIGN = partial(bmjax.simulate.two_features, noise_precision=50.0)
METHODS = {
    "least squares": bmjax.baselines.least_squares,
    "on the host": bmjax.on_host(lambda X, y: np.linalg.lstsq(X, y)[0]),
}


def study(**options):
    return bmjax.monte_carlo(DESIGN, options.pop("methods", METHODS), KEY, 23, chunk=5, **options)


def bits(study):
    return study.truth, {name: o[:3] for name, o in study.outcomes.items()}


@pytest.fixture(scope="module")
def whole():
    return study()


@pytest.mark.parametrize("stop_at", [0, 1, 3, 4])
def test_goes_on_where_it_was_stopped(stop_at, whole, tmp_path, monkeypatch):
    """Stopped after a chunk has been written and before it has its name, as by a kill."""
    real, calls = os.replace, []

    def replace(source, target):
        if os.fspath(target).endswith(".npz"):
            calls.append(target)
            if len(calls) == stop_at + 1:
                raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        study(checkpoint=tmp_path)
    monkeypatch.undo()
    assert len(list(tmp_path.glob("*.npz"))) == stop_at
    assert not list(tmp_path.glob(".*"))
    assert same_bits(bits(study(checkpoint=tmp_path)), bits(whole))


def test_a_finished_study_is_read_and_not_made_again(whole, tmp_path):
    first = study(checkpoint=tmp_path)
    asked = []

    def method(X, y):
        asked.append(1)
        return np.linalg.lstsq(X, y)[0]

    again = study(checkpoint=tmp_path, methods=METHODS | {"on the host": bmjax.on_host(method)})
    assert not asked
    assert same_bits(bits(first), bits(whole))
    assert same_bits(bits(again), bits(whole))
    assert again.outcomes["least squares"].seconds == first.outcomes["least squares"].seconds


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda c: bmjax.monte_carlo(DESIGN, METHODS, KEY, 24, chunk=5, checkpoint=c), "repeats"),
        (lambda c: bmjax.monte_carlo(DESIGN, METHODS, KEY, 23, chunk=6, checkpoint=c), "chunk"),
        (
            lambda c: bmjax.monte_carlo(
                DESIGN, METHODS, jax.random.key(6), 23, chunk=5, checkpoint=c
            ),
            "key",
        ),
        (
            lambda c: bmjax.monte_carlo(
                partial(DESIGN, noise_precision=51.0), METHODS, KEY, 23, chunk=5, checkpoint=c
            ),
            "simulate",
        ),
        (
            lambda c: study(
                checkpoint=c,
                methods=METHODS | {"least squares": lambda X, y: X.T @ y},
            ),
            "method least squares",
        ),
        (lambda c: study(checkpoint=c, methods={"other": METHODS["on the host"]}), "method"),
    ],
)
def test_a_changed_setting_is_named(change, name, tmp_path):
    study(checkpoint=tmp_path)
    with pytest.raises(ValueError, match=rf"is of a study with {name}"):
        change(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_file_is_named_and_its_chunk_made_anew(damage, whole, tmp_path):
    study(checkpoint=tmp_path)
    place = sorted(tmp_path.glob("*.npz"))[2]
    content = bytearray(place.read_bytes())
    if damage == "cut":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = b""
    else:
        content[len(content) // 3] ^= 4
    place.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{place.name} is damaged"):
        study(checkpoint=tmp_path)
    place.unlink()
    assert same_bits(bits(study(checkpoint=tmp_path)), bits(whole))


def test_damaged_settings_and_strange_folders_are_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match=r"holds letter.txt but no settings.json"):
        study(checkpoint=tmp_path)
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(ValueError, match=r"settings.json is damaged"):
        study(checkpoint=tmp_path)


def test_a_full_disk_is_said_and_spoils_nothing(whole, tmp_path):
    """No file may grow beyond a few bytes, which is what a full disk comes to."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    study_settings = tmp_path / "settings.json"
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(OSError, match="File too large"):
            study(checkpoint=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert study_settings.exists()
    assert not list(tmp_path.glob("*.npz"))
    assert not list(tmp_path.glob(".*"))
    assert same_bits(bits(study(checkpoint=tmp_path)), bits(whole))


@pytest.mark.slow
def test_another_process_knows_the_study_again(whole, tmp_path):
    """What a function traces to is the same text in every process."""
    study(checkpoint=tmp_path)
    place = sorted(tmp_path.glob("*.npz"))[1]
    place.unlink()
    code = (
        "import tests.conftest; from tests.study.test_checkpoint import study; "
        f"study(checkpoint={os.fspath(tmp_path)!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert same_bits(bits(study(checkpoint=tmp_path)), bits(whole))
