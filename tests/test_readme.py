"""The README's blocks run one after another as they stand, and print what is below them."""

import contextlib
import io
import re
from pathlib import Path

import jax
import matplotlib
import numpy as np

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
# What a machine or a precision may change.
VARIES = ("iterations", "bound")


def words(text):
    lines = [line for line in text.splitlines() if not line.startswith(VARIES)]
    return " ".join(lines).split()


def same(got, want):
    try:
        return np.isclose(float(got), float(want), rtol=2e-3, atol=2e-3)
    except ValueError:
        return got == want or set(got) == set(want) == {"-"}


def test_blocks_run_in_order():
    matplotlib.use("Agg")
    before = {
        name: getattr(jax.config, name)
        for name in ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    }
    namespace, found = {}, BLOCK.findall(README.read_text(encoding="utf-8"))
    assert len(found) > 10
    try:
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            for code, printed in found:
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    exec(compile(code, str(README), "exec"), namespace)
                if printed:
                    got, want = words(out.getvalue()), words(printed)
                    assert len(got) == len(want), out.getvalue()
                    pairs = [(a, b) for a, b in zip(got, want, strict=True) if not same(a, b)]
                    assert not pairs
    finally:
        for name, value in before.items():
            jax.config.update(name, value)


def test_links_lead_somewhere():
    text = README.read_text(encoding="utf-8")
    for place in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (README.parent / place).exists(), place


def test_the_first_two_blocks_install_and_test():
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks[0].rstrip().endswith("-m bmjax")
    assert blocks[1].rstrip().endswith("pytest -n 2")
