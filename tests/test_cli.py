"""The command: what it prints, checked against NumPy, and every way to misuse it."""

import functools
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import bmjax
from bmjax import _cli
from bmjax._cli import main
from bmjax.datasets import load_diabetes

ROOT = Path(__file__).parents[1]


@pytest.fixture
def write(tmp_path):
    """Writes a CSV file, from text, bytes or columns by name, and returns its path."""

    def write(content) -> str:
        path = tmp_path / "data.csv"
        if isinstance(content, dict):
            rows = [
                ",".join(map(repr, map(float, row))) for row in zip(*content.values(), strict=True)
            ]
            content = "\n".join([",".join(content), *rows]) + "\n"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.fixture
def table():
    """Thirty rows in which y depends on `a` and not on `b`; the one shape most tests compile."""
    rng = np.random.default_rng(7)
    a, b, noise = rng.normal(size=(3, 30))
    y = 5 + 2 * a + 0.3 * noise
    # Without any correlation by chance, so that pruning `b` is right whatever the seed.
    others = np.stack([np.ones(30), a, y], axis=1)
    b -= others @ np.linalg.lstsq(others, b, rcond=None)[0]
    return {"a": a, "b": b, "y": y}


def run(capsys, *argv: str) -> str:
    assert main(argv) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys, *argv: str) -> str:
    """The message of a command that must fail: one or two lines on stderr and nothing else."""
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0].startswith("bmjax: error: ")
    assert len(lines) <= 2
    return captured.err


def rows(out: str) -> dict[str, list[str]]:
    """The body of the printed table: the other cells by the feature's name."""
    cells = [
        re.split(" *[│|] *", line.strip("│| ")) for line in out.splitlines() if line[:1] in "│|"
    ]
    return {name: rest for name, *rest in cells}


def figure(out: str, label: str) -> str:
    found = re.search(rf"^{label}  +(.*?) *$", out, re.MULTILINE)
    assert found, label
    return found[1]


@pytest.fixture(scope="module")
def diabetes() -> str:
    """What the real command prints, in a process of its own: float32 by default, no terminal."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "bmjax"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        env={"PATH": "", "JAX_PLATFORMS": "cpu", "PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_diabetes_data_equal_the_source():
    datasets = pytest.importorskip("sklearn.datasets")
    X, y, names = load_diabetes()
    X_source, y_source = datasets.load_diabetes(return_X_y=True, scaled=False)
    np.testing.assert_array_equal(X, X_source)
    np.testing.assert_array_equal(y, y_source)
    assert names == list(datasets.load_diabetes().feature_names)


def test_diabetes_data_are_raw():
    X, y, names = load_diabetes()
    assert X.shape == (442, 10)
    assert X.dtype == y.dtype == np.float64
    assert names == ["age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]
    # The published summary of the data: progression between 25 and 346, mean 152.13.
    assert (y.min(), y.max(), round(y.mean(), 2)) == (25, 346, 152.13)
    assert set(X[:, names.index("sex")]) == {1, 2}


def test_diabetes_least_squares_equals_numpy(diabetes):
    X, y, names = load_diabetes()
    # By another road than the command: raw features and an intercept, scaled afterwards.
    fitted = np.linalg.lstsq(np.c_[np.ones(len(y)), X], y, rcond=None)[0]
    want = fitted[1:] * X.std(axis=0)
    got = [float(rows(diabetes)[name][3]) for name in names]
    np.testing.assert_allclose(got, want, atol=5.01e-4)


def test_diabetes_keeps_what_all_analyses_keep(diabetes):
    table = rows(diabetes)
    for name in ("bmi", "bp", "s5"):
        coef, inclusion, verdict, _ = table[name]
        assert verdict == "kept"
        assert float(coef) > 10
        assert float(inclusion) > 0.9
    pruned = [cells for cells in table.values() if cells[2] == "pruned"]
    assert pruned
    assert all(cells[:2] == ["0", "0"] for cells in pruned)
    assert figure(diabetes, "kept") == f"{10 - len(pruned)} of 10 features"


def test_diabetes_is_the_fit_of_the_library_in_float64(diabetes):
    X, y, names = load_diabetes()
    result = bmjax.fit((X - X.mean(axis=0)) / X.std(axis=0), y - y.mean())
    assert result.coef.dtype == np.float64
    got = [float(rows(diabetes)[name][0]) for name in names]
    np.testing.assert_allclose(got, result.coef, atol=6e-4)
    precision = float(figure(diabetes, "noise precision"))
    assert precision == pytest.approx(float(result.noise_precision), rel=1e-5)
    deviation = float(figure(diabetes, "noise standard deviation"))
    assert deviation == pytest.approx(precision**-0.5, rel=1e-5)
    assert float(figure(diabetes, "bound")) == pytest.approx(float(result.bound), abs=1e-4)
    message = bmjax.Status(int(result.status)).message
    assert message in re.sub(r"\s+", " ", diabetes)


def test_diabetes_output_says_what_the_figures_are(diabetes):
    assert max(map(len, diabetes.splitlines())) <= 80
    assert "\x1b" not in diabetes
    assert "…" not in diabetes
    flat = re.sub(r"\s+", " ", diabetes)
    for words in ("unit standard deviation", "units of the target", "float64", "progression"):
        assert words in flat


def test_file(capsys, write, table):
    out = run(capsys, write(table), "--target", "y")
    cells = rows(out)
    assert [cells[name][2] for name in "ab"] == ["kept", "pruned"]
    a, y = table["a"], table["y"]
    slope = np.polyfit(a, y, 1)[0] * a.std()
    assert float(cells["a"][0]) == pytest.approx(slope, rel=0.02)
    assert "Converged" in figure(out, "status")


def test_precision_of_the_caller_neither_matters_nor_changes(capsys, write, table):
    # Far from zero: in float32 these columns would keep two digits.
    path = write({name: 1e5 + column for name, column in table.items()})
    outs = []
    for enabled in (False, True):
        with jax.enable_x64(enabled):
            outs.append(run(capsys, path, "--target", "y"))
            assert jax.config.read("jax_enable_x64") == enabled
    assert outs[0] == outs[1]
    assert rows(outs[0]) == rows(run(capsys, write(table), "--target", "y"))


def test_forms_of_a_csv_file(capsys, write, table):
    """Byte order mark, Windows line ends, blanks, blank lines, quotes and any column order."""
    want = rows(run(capsys, write(table), "--target", "y"))
    lines = [
        f'{y!r}, "{a!r}",{b!r}'
        for a, b, y in zip(*(map(float, c) for c in table.values()), strict=True)
    ]
    text = "\r\n".join(["\ufeffy, a ,b", "", *lines[:3], "  ", *lines[3:], "", ""])
    assert rows(run(capsys, write(text), "--target", "y")) == want


def test_not_converged_is_said_and_is_no_error(capsys, write, table, monkeypatch):
    monkeypatch.setattr(bmjax, "fit", functools.partial(bmjax.fit, max_steps=1))
    out = run(capsys, write(table), "--target", "y")
    assert "before it converged" in figure(out, "status")


def test_constant_feature(capsys, write, table):
    # The mean of thirty times 0.1 is not 0.1, so a deviation would not be exactly zero.
    out = run(capsys, write(table | {"b": np.full(30, 0.1)}), "--target", "y")
    assert rows(out)["b"] == ["0", "0", "pruned", "0"]
    assert "Constant, so without any effect: b." in out
    assert "not unique" not in out


def test_constant_target(capsys, write, table):
    out = run(capsys, write(table | {"y": np.full(30, 0.1)}), "--target", "y")
    assert all(cells == ["0", "0", "pruned", "0"] for cells in map(rows(out).get, "ab"))
    assert figure(out, "kept") == "0 of 2 features"


def test_more_features_than_rows(capsys, write):
    rng = np.random.default_rng(3)
    columns = {f"x{j}": rng.normal(size=6) for j in range(9)} | {"y": rng.normal(size=6)}
    out = run(capsys, write(columns), "--target", "y")
    assert len([name for name in rows(out) if name.startswith("x")]) == 9
    assert "Least squares is not unique" in out


def test_names_are_shown_whole_and_as_they_are(capsys, write, table, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    long = "a_name_without_blanks_" * 5
    text = f'{long},"[red]b\x1b[31m",größe\n' + "".join(
        f"{a!r},{b!r},{y!r}\n"
        for a, b, y in zip(*(map(float, c) for c in table.values()), strict=True)
    )
    out = run(capsys, write(text), "--target", "größe")
    assert max(map(len, out.splitlines())) <= 80
    body = out.partition("feature ")[2]  # the title names the file, whose path has underscores
    assert "".join(re.findall(r"[a-z_]*_[a-z_]*", body)) == long
    assert r"'[red]b\x1b[31m'" in out
    assert "target größe" in out
    assert "…" not in out


def test_narrow_terminal_loses_no_digit(capsys, write, table, monkeypatch):
    path = write(table | {"y": 1e9 * table["y"]})
    monkeypatch.setenv("COLUMNS", "30")
    narrow = rows(run(capsys, path, "--target", "y"))
    monkeypatch.setenv("COLUMNS", "200")
    assert narrow == rows(run(capsys, path, "--target", "y"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("", ["is empty", "header"], id="empty"),
        pytest.param("\n \n", ["is empty", "header"], id="blank"),
        pytest.param("a,y\n", ["no rows", "at least 2"], id="no-rows"),
        pytest.param("a,y\n1,2\n", ["only one row", "at least 2"], id="one-row"),
        pytest.param("1,2\n3,4\n5,6\n", ["no header row", "1, 2"], id="headerless"),
        pytest.param("1e3,,nan\n3,4,5\n", ["no header row"], id="headerless-gap"),
        pytest.param("y\n1\n2\n", ["no column but the target 'y'"], id="no-features"),
        pytest.param("a,b,a,y\n1,2,3,4\n", ["more than one column named a."], id="duplicate"),
        pytest.param(",a,y\n0,1,2\n1,2,3\n", ["column 1", "no name", "index=False"], id="unnamed"),
        pytest.param("a;y\n1;2\n3;4\n", ["separated by ';'", "commas"], id="semicolons"),
        pytest.param("a\ty\n1\t2\n3\t4\n", [r"separated by '\t'", "commas"], id="tabs"),
        pytest.param("a,z\n1,2\n3,4\n", ["no column 'y'", "a, z"], id="unknown-target"),
        pytest.param("a,Y_\n1,2\n3,4\n", ["no column 'y'", "a, Y_"], id="misspelt-target"),
        pytest.param("a,y\n1,2\n\n3,\n", ["column 'y'", "missing", "line 4"], id="missing"),
        pytest.param("a,y\n1,2\nNA,3\n", ["column 'a'", "missing", "line 3"], id="NA"),
        pytest.param("a,b,y\n1,2,3\n4,5\n", ["column 'y'", "missing", "line 3"], id="short-row"),
        pytest.param(
            'a,"b\n(cm)",y\n1,2,3\n4,5,\n,,7\n',
            ["column 'a'", "missing", "line 5", r"other columns: 'b\n(cm)', y"],
            id="missing-in-several",
        ),
        pytest.param("a,y\n1,2\nred,3\n", ["column 'a'", "'red'", "line 3", "0/1"], id="text"),
        pytest.param("a,y\n1,2\n3,inf\n", ["column 'y'", "infinite", "line 3"], id="infinite"),
        pytest.param("a,y\n1e999,2\n3,4\n", ["column 'a'", "infinite", "line 2"], id="overflow"),
        pytest.param("a,y\n1,2\n3,4,5\n", ["line 3", "saw 3", "quotes"], id="long-row"),
        pytest.param("a,y\n1,2,3\n3,4,5\n", ["line 2", "saw 3"], id="long-rows"),
        pytest.param('a,y\n1,2\n"3,4\n5,6\n', ["quote", "line 3", "never closed"], id="quote"),
        pytest.param("a,y\n1,2\n".encode("utf-16"), ["not UTF-8 text", "Save"], id="utf-16"),
        pytest.param(b"\x89PNG\r\n\x1a\n\xff\x00", ["not UTF-8 text", "Save"], id="binary"),
        pytest.param(b"a,y\n\0\0\0", ["not text", "null bytes"], id="null-bytes"),
        pytest.param("x" * 200_000 + ",y\n1,2\n", ["field limit", "line 1"], id="endless-name"),
        pytest.param(f"a,y\n1,2\n{'x' * 9999},2\n", ["'a'", "xx...xx", "line 3"], id="long-text"),
        pytest.param(f"a,y\n1,2\n{'x' * 200_000},2\n", ["field limit", "line 3"], id="endless"),
        pytest.param('a,y\n""\n1,2\n', ["column 'a'", "missing", "line 2"], id="empty-quotes"),
        pytest.param("a,y\n1e300,2\n3,4\n", ["'a'", "too large", "unit"], id="large"),
        pytest.param("a,y\n1,1e-300\n3,0\n", ["'y'", "too small", "unit"], id="small"),
    ],
)
def test_unusable_file(capsys, write, content, words):
    message = refused(capsys, write(content), "--target", "y")
    for word in words:
        assert word in message


def test_target_is_required_and_suggested(capsys, write):
    path = write("weight,price,size\n1,2,3\n4,5,6\n")
    assert "--target NAME" in (message := refused(capsys, path))
    assert "weight, price, size" in message
    assert "Did you mean 'price'?" in refused(capsys, path, "--target", "prize")


def test_long_lists_of_columns_are_cut(capsys, write):
    names = [f"x{j}" for j in range(1000)]
    message = refused(capsys, write(",".join(names) + "\n"))
    assert "x11 and 988 more" in message
    assert "x12" not in message


def test_target_without_file(capsys):
    assert "FILE --target NAME" in refused(capsys, "--target", "bmi")


def test_no_such_file(capsys, tmp_path):
    path = str(tmp_path / "none.csv")
    message = refused(capsys, path, "--target", "y")
    assert path in message
    assert "No such file" in message
    assert "directory" in refused(capsys, str(tmp_path), "--target", "y")


@pytest.mark.parametrize("package", ["pandas", "rich"])
def test_missing_extra(capsys, write, monkeypatch, package):
    for module in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    message = refused(capsys, write("a,y\n1,2\n3,4\n"), "--target", "y")
    assert f"needs {package}" in message
    assert 'pip install "bmjax[cli]"' in message


def test_other_missing_modules_are_not_explained_away():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), _cli._cli_extra():
        import no_such_module  # noqa: F401  # pyright: ignore[reportMissingImports]


def test_unknown_option(capsys):
    with pytest.raises(SystemExit) as error:
        main(["--bogus"])
    assert error.value.code == 2
    assert "--bogus" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--help", ["--target", "header row", "examples", "python -m bmjax houses.csv"]),
        ("--version", [f"bmjax {bmjax.__version__}"]),
    ],
)
def test_information(capsys, option, words):
    with pytest.raises(SystemExit) as error:
        main([option])
    assert error.value.code == 0
    out = capsys.readouterr().out
    assert all(word in out for word in words)


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes that break this way")
@pytest.mark.parametrize("arguments", [["--help"], ["data.csv", "--target", "y"]])
def test_broken_pipe_is_quiet(write, table, tmp_path, arguments):
    write(table)
    process = subprocess.Popen(
        [sys.executable, "-m", "bmjax", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    process.wait(timeout=60)
