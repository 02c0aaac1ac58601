"""The command: what it prints and writes, checked against NumPy, and every way to misuse it."""

import csv
import functools
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import bmjax
from bmjax._cli.command import main
from bmjax._cli.errors import extras
from bmjax._io.files import write_whole
from bmjax.datasets import load_diabetes

ROOT = Path(__file__).parents[2]
OPTIONS = (
    "--target --keep --exclude --categorical --weights --family --no-intercept --stability "
    "--posterior --seed --save --plot --no-cache --sep --decimal --comment --numeric-header "
    "--drop-missing"
).split()


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
        [cell.strip() for cell in re.split("[│|]", line.rstrip()[1:-1])]
        for line in out.splitlines()
        if line[:1] in "│|" and not line.startswith("|-")
    ]
    # In ASCII the headings, of two lines, have the same borders.
    return {name: rest for name, *rest in cells if name not in ("", "feature")}


def figure(out: str, label: str) -> str:
    found = re.search(rf"^{label}  +(.*?) *$", out, re.MULTILINE)
    assert found, label
    return found[1]


@pytest.fixture(scope="module")
def diabetes() -> str:
    """What the real command prints, in a process of its own: float32 by default, no terminal.

    Which float64 must reach the threads of the resampled fits too; and in ASCII.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "bmjax", "--stability", "4"],
        cwd=ROOT,
        capture_output=True,
        encoding="ascii",
        env={"PATH": "", "JAX_PLATFORMS": "cpu", "PYTHONIOENCODING": "ascii"},
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
    # By another road than the command: raw features and a column of ones.
    want = np.linalg.lstsq(np.c_[np.ones(len(y)), X], y, rcond=None)[0][1:]
    got = [float(rows(diabetes)[name][4]) for name in names]
    np.testing.assert_allclose(got, want, rtol=5.01e-4)


def test_diabetes_keeps_what_all_analyses_keep(diabetes):
    table = rows(diabetes)
    for name in ("bmi", "bp", "s5"):
        coef, error, inclusion, verdict, _, stability = table[name]
        assert verdict == "kept"
        assert float(coef) > 5 * float(error)
        assert float(inclusion) > 0.9
        assert re.fullmatch(r"[01]\.\d\d\+-0\.\d\d", stability)
    pruned = [cells for cells in table.values() if cells[3] == "pruned"]
    assert pruned
    assert all(cells[:3] == ["0", "", "0"] for cells in pruned)
    assert figure(diabetes, "kept") == f"{10 - len(pruned)} of 10 features"


def test_diabetes_is_the_fit_of_the_library_in_float64(diabetes):
    X, y, names = load_diabetes()
    result = bmjax.fit(X, y, intercept=True, standardize=True)
    assert result.coef.dtype == np.float64
    for column, want in enumerate((result.coef, result.standard_errors)):
        got = [float(rows(diabetes)[name][column] or "nan") for name in names]
        np.testing.assert_allclose(got, want, rtol=5e-4)
    assert float(figure(diabetes, "intercept")) == pytest.approx(float(result.intercept), rel=1e-4)
    deviation = float(figure(diabetes, r"noise \(standard deviation\)"))
    assert deviation == pytest.approx(float(result.noise_precision) ** -0.5, rel=1e-3)
    bound = float(figure(diabetes, "bound").removesuffix(" nats"))
    assert bound == pytest.approx(float(result.bound), rel=1e-5)
    message = bmjax.Status(int(result.status)).message
    assert message in re.sub(r"\s+", " ", diabetes)


def test_diabetes_output_says_what_the_figures_are(diabetes):
    assert max(map(len, diabetes.splitlines())) <= 80
    assert "\x1b" not in diabetes
    assert "\\" not in diabetes
    flat = re.sub(r"\s+", " ", diabetes)
    for words in ("units of the target", "unit of the feature", "float64", "progression"):
        assert words in flat


def test_file(capsys, write, table):
    out = run(capsys, write(table), "--target", "y")
    cells = rows(out)
    assert [cells[name][3] for name in "ab"] == ["kept", "pruned"]
    slope, level = np.polyfit(table["a"], table["y"], 1)
    assert float(cells["a"][0]) == pytest.approx(slope, rel=0.02)
    assert float(figure(out, "intercept")) == pytest.approx(level, rel=0.02)
    assert "CONVERGED" in figure(out, "status")


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
    assert rows(out)["b"] == ["0", "", "0", "pruned", "0", "0"]
    assert "Constant, so without any effect: b." in out
    assert "not unique" not in out


def test_constant_target(capsys, write, table):
    out = run(capsys, write(table | {"y": np.full(30, 0.1)}), "--target", "y")
    assert all(cells == ["0", "", "0", "pruned", "0", "0"] for cells in map(rows(out).get, "ab"))
    assert figure(out, "intercept") == "0.1"
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


def test_collinear_features_are_noted(capsys, write, table):
    rng = np.random.default_rng(1)
    twin = table["a"] + 0.01 * rng.normal(size=30)
    out = run(capsys, write(table | {"b": twin}), "--target", "y")
    flat = re.sub(r"\s+", " ", out)
    assert re.search(r"Note: [ab] \(kept\).* are correlated by 0.9 or more", flat)


def test_columns_of_any_scale_keep_their_digits(capsys, write, table):
    plain = rows(run(capsys, write(table), "--target", "y"))["a"]
    scaled = rows(run(capsys, write(table | {"a": 1e9 * table["a"]}), "--target", "y"))["a"]
    for cell, same in zip(plain[:2], scaled[:2], strict=True):
        assert float(same) == pytest.approx(1e-9 * float(cell), rel=1e-3)


# ---- options


def test_keep(capsys, write, table):
    path = write(table)
    cells = rows(run(capsys, path, "--target", "y", "--keep", "b"))
    assert cells["b"][2:4] == ["1.000", "always"]
    assert float(cells["b"][1]) > 0
    assert cells["a"][3] == "kept"
    both = rows(run(capsys, path, "--target", "y", "--keep", " b ,a", "--keep", "a"))
    assert [both[name][3] for name in "ab"] == ["always", "always"]
    # The effect in standard deviations, by hand; least squares where all are kept.
    size = float(both["a"][0]) * np.std(table["a"]) / np.std(table["y"])
    assert float(both["a"][5]) == pytest.approx(size, abs=6e-4)
    assert float(both["a"][0]) == pytest.approx(float(both["a"][4]), rel=1e-3)


def test_keep_takes_names_with_commas_in_quotes(capsys, write, table):
    path = write({"a": table["a"], '"b, c"': table["b"], "y": table["y"]})
    cells = rows(run(capsys, path, "--target", "y", "--keep", 'a,"b, c"'))
    assert cells["b, c"][3] == "always"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("weihgt", ["--keep", "no feature 'weihgt'", "Did you mean 'weight'?", "weight, size"]),
        ("size,price", ["'price' is the target", "not a feature"]),
        ("size,,weight", ["name is empty"]),
        ("", ["name is empty"]),
        ("size\nweight", ["line break", "double quotes"]),
    ],
)
def test_unusable_keep(capsys, write, names, words):
    path = write("weight,price,size\n1,2,3\n4,5,6\n")
    message = refused(capsys, path, "--target", "price", "--keep", names)
    assert all(word in message for word in words)


def test_no_intercept(capsys, write, table):
    out = run(capsys, write(table), "--target", "y", "--no-intercept")
    assert not re.search("^intercept", out, re.MULTILINE)
    a, b, y = table.values()
    want = np.linalg.lstsq(np.stack([a, b], axis=1), y, rcond=None)[0]
    got = [float(rows(out)[name][4]) for name in "ab"]
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-9)


def test_constant_feature_without_intercept_has_an_effect(capsys, write, table):
    path = write(table | {"b": np.full(30, 0.1)})
    out = run(capsys, path, "--target", "y", "--no-intercept")
    assert rows(out)["b"][3] == "kept"
    assert float(rows(out)["b"][0]) == pytest.approx(50, rel=0.1)
    assert "Constant" not in out


def test_weights_count_rows(capsys, write, table):
    """Zero is an absent row and two a row repeated."""
    times = np.repeat([0.0, 2.0, 1.0], [5, 5, 20])
    # Without effect in a row that does not count.
    weighted = table | {"w": times, "y": np.where(times == 0, 1e6, table["y"])}
    out = run(capsys, write(weighted), "--target", "y", "--weights", "w")
    repeated = {name: np.repeat(column, times.astype(int)) for name, column in table.items()}
    want = run(capsys, write(repeated), "--target", "y")
    assert rows(out) == rows(want)
    assert figure(out, "bound") == figure(want, "bound")
    assert "25 rows (weights w, 30 in all), 2 features" in out


@pytest.mark.parametrize(
    ("content", "option", "words"),
    [
        ("a,count,y\n1,1,1\n2,2,3\n", "cuont", ["no column 'cuont'", "Did you mean 'count'?"]),
        ("a,w,y\n1,1,1\n2,-0.5,3\n", "w", ["'w'", "negative weight '-0.5'", "line 3"]),
        ("a,w,y\n1,0,1\n2,1,3\n", "w", ["'w' is above zero in 1 rows", "at least 2"]),
        ("a,w,y\n1,,1\n2,1,3\n", "w", ["'w'", "missing", "line 2"]),
        ("a,w,y\n1,1e80,1\n2,1,3\n", "w", ["'w'", "too large"]),
        ("a,y\n1,1\n2,3\n", "y", ["'y' is the target"]),
        ("a,y\n1,1\n2,3\n", "a", ["no column but the target 'y' and the weights 'a'"]),
    ],
)
def test_unusable_weights(capsys, write, content, option, words):
    message = refused(capsys, write(content), "--target", "y", "--weights", option)
    assert all(word in message for word in words)


def test_stability(capsys, write, table):
    path = write(table)
    out = run(capsys, path, "--target", "y", "--stability", "4")
    cells = rows(out)
    assert cells["a"][5] == "1.00±0.00"
    assert re.fullmatch(r"0\.\d\d±0\.\d\d", cells["b"][5])
    assert figure(out, "stable").startswith("a: kept by 75% or more of 4 fits")
    assert figure(out, "expected false among them").startswith("at most ")
    with jax.enable_x64(True):
        X, y = np.stack([table["a"], table["b"]], axis=1), table["y"]
        want = bmjax.stability_selection(
            X, y, jax.random.key(0), 4, intercept=True, standardize=True
        )
    assert float(cells["b"][5][:4]) == pytest.approx(float(want.frequencies[1]), abs=0.005)
    assert run(capsys, path, "--target", "y", "--stability", "4", "--seed", "0") == out


def test_one_pair_of_halves_has_no_standard_error(capsys, write, table):
    out = run(capsys, write(table), "--target", "y", "--stability", "2", "--keep", "b")
    assert [rows(out)[name][5] for name in "ab"] == ["1.00", "1.00"]
    # What is always kept is not found to be stable.
    assert figure(out, "stable").startswith("a: ")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--stability", "7"], ["--stability 7", "pairs", "even"]),
        (["--stability", "0"], ["--stability 0", "at least 2"]),
        (["--stability", "-2"], ["--stability -2", "at least 2"]),
        (["--stability", "4"], ["has 3 rows", "at least 4"]),
        (["--stability", "4", "--weights", "a"], ["does not go with --weights"]),
        (["--stability", "4", "--seed", "-1"], ["--seed -1", "from 0"]),
        (["--seed", str(2**32)], ["--seed 4294967296", "to 4294967295"]),
    ],
)
def test_unusable_stability(capsys, write, options, words):
    message = refused(capsys, write("a,b,y\n1,2,3\n4,5,5\n7,8,1\n"), "--target", "y", *options)
    assert all(word in message for word in words)


def test_save_json(capsys, write, table, tmp_path):
    saved = tmp_path / "fit.JSON"
    saved.write_text("old")
    path = write(table)
    run(capsys, path, "--target", "y", "--keep", "b", "--save", str(saved))
    content = json.loads(saved.read_text())
    X, y = np.stack([table["a"], table["b"]], axis=1), table["y"]
    result = bmjax.fit(X, y, intercept=True, standardize=True, unmasked=[1])
    for key, want in (
        ("coef", result.coef),
        ("standard_error", result.standard_errors),
        ("inclusion", result.inclusion),
        ("kept", result.support),
    ):
        np.testing.assert_allclose([f[key] for f in content["features"]], want, rtol=1e-9)
    assert [feature["name"] for feature in content["features"]] == ["a", "b"]
    assert content["intercept"] == pytest.approx(float(result.intercept), rel=1e-9)
    assert content["noise"]["precision"] == pytest.approx(float(result.noise_precision), rel=1e-9)
    assert content["bound"] == pytest.approx(float(result.bound), rel=1e-9)
    assert content["steps"] == int(result.num_steps)
    assert content["status"] == "CONVERGED"
    assert content["rows"] == 30
    assert content["versions"]["bmjax"] == bmjax.__version__
    assert content["settings"] == {
        "source": path,
        "target": "y",
        "weights": None,
        "keep": ["b"],
        "intercept": True,
        "standardize": True,
        "stability": None,
        "posterior": False,
        "seed": None,
    }
    assert any("units of the target" in note for note in content["notes"])
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "fit.JSON"]


def test_save_with_stability(capsys, write, table, tmp_path):
    saved, features = tmp_path / "fit.json", tmp_path / "fit.csv"
    argv = [write(table), "--target", "y", "--stability", "2", "--seed", "3", "--keep", "b"]
    run(capsys, *argv, "--save", str(saved))
    content = json.loads(saved.read_text())
    assert content["settings"]["stability"] == 2
    assert content["settings"]["seed"] == 3
    assert content["stability"]["threshold"] == 0.75
    # One pair has no standard error, and JSON no NaN.
    assert content["features"][0]["frequency_standard_error"] is None
    run(capsys, *argv, "--save", str(features))
    with features.open(newline="") as file:
        table_rows = list(csv.DictReader(file))
    assert [row["feature"] for row in table_rows] == ["a", "b"]
    for row, feature in zip(table_rows, content["features"], strict=True):
        for key in ("coef", "standard_error", "inclusion", "frequency"):
            assert float(row[key]) == feature[key]
        assert row["kept"] == str(feature["kept"])


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_plot(capsys, write, table, tmp_path, ending, start):
    import matplotlib.pyplot as plt

    path = tmp_path / f"fit.{ending}"
    run(capsys, write(table), "--target", "y", "--plot", str(path))
    assert path.read_bytes().startswith(start)
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--save", "fit.txt"], ["--save fit.txt", "must end in .json, .npz or .csv."]),
        (["--save", "fit"], ["must end in .json, .npz or .csv."]),
        (["--plot", "fit.jpg"], ["--plot fit.jpg", "must end in .png, .pdf or .svg."]),
        (["--save", "none/fit.json"], ["--save", "no directory none"]),
        (["--plot", "none/fit.png"], ["--plot", "no directory none"]),
        (["--save", "data.csv"], ["would overwrite the data"]),
        (["--save", "folder.csv"], ["is a directory"]),
    ],
)
def test_unusable_place(capsys, write, table, tmp_path, monkeypatch, options, words):
    path = write(table)
    (tmp_path / "folder.csv").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bmjax, "fit", lambda *_, **__: pytest.fail("it was fitted"))
    before = Path(path).read_bytes()
    message = refused(capsys, path, "--target", "y", *options)
    assert all(word in message for word in words)
    assert Path(path).read_bytes() == before


def test_failing_write_keeps_table_and_old_file(capsys, write, table, tmp_path, monkeypatch):
    path, saved = write(table), tmp_path / "fit.json"
    saved.write_text("old")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert main([path, "--target", "y", "--save", str(saved)]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"bmjax: error: cannot write {saved}: No space left on device.\n"
    assert rows(captured.out)["a"][3] == "kept"
    assert saved.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["data.csv", "fit.json"]


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
        pytest.param("a;y\n1;2\n3;4\n", ["separated by ';'", "--sep ';'"], id="semicolons"),
        pytest.param("a\ty\n1\t2\n3\t4\n", [r"separated by '\t'", "--sep tab"], id="tabs"),
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
        pytest.param(
            "a,y\n1,2\nred,3\n", ["column 'a'", "'red'", "line 3", "--categorical"], id="text"
        ),
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
    assert "Did you mean 'price' or 'size'?" in refused(capsys, path, "--target", "prize")


def test_long_lists_of_columns_are_cut(capsys, write):
    names = [f"x{j}" for j in range(1000)]
    message = refused(capsys, write(",".join(names) + "\n"))
    assert "x11 and 988 more" in message
    assert "x12" not in message


def test_target_without_file(capsys):
    assert "FILE --target NAME" in refused(capsys, "--target", "bmi")
    assert "FILE --target NAME" in refused(capsys, "--weights", "bmi")


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


def test_missing_matplotlib(capsys, write, tmp_path, monkeypatch):
    for module in [m for m in sys.modules if m.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, "bmjax.plots", raising=False)
    monkeypatch.delattr(bmjax, "plots", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    path = str(tmp_path / "fit.png")
    message = refused(capsys, write("a,y\n1,2\n3,4\n"), "--target", "y", "--plot", path)
    assert "--plot needs matplotlib" in message
    assert 'pip install "bmjax[plot]"' in message


def test_other_missing_modules_are_not_explained_away():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), extras():
        import no_such_module  # noqa: F401  # pyright: ignore[reportMissingImports]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--bogus"], "unrecognized arguments: --bogus\n"),
        (["--targets=y"], "unrecognized arguments: --targets=y. Did you mean --target?"),
        (["price"], "unrecognized arguments: price"),
        (["--target"], "--target: expected one argument"),
        (["--family", "poisson"], "--family: invalid choice: 'poisson'"),
        (["--stability", "2.5"], "--stability: '2.5' is not a whole number"),
        (["--seed", "red"], "--seed: 'red' is not a whole number"),
        (["--se", "1"], "ambiguous option: --se could match --seed, --sep"),
    ],
)
def test_unusable_options(capsys, options, words):
    message = refused(capsys, "data.csv", *options)
    assert words in message
    assert message.endswith("python -m bmjax --help shows what may be given.\n")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "are required: FIT, FILE"),
        (["fit.json"], "are required: FILE"),
        (["fit.json", "new.csv", "--saves", "out.csv"], "Did you mean --save?"),
        (["fit.json", "new.csv", "--target", "y"], "unrecognized arguments: --target y"),
    ],
)
def test_unusable_options_of_predict(capsys, argv, words):
    message = refused(capsys, "predict", *argv)
    assert words in message
    assert message.endswith("python -m bmjax predict --help shows what may be given.\n")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--help", [*OPTIONS, "header row", "examples", "python -m bmjax houses.csv"]),
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
def test_interrupt_is_one_line(capsys, write, table, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(bmjax, "fit", interrupted)
    assert main([write(table), "--target", "y"]) == 130
    assert capsys.readouterr() == ("", "bmjax: interrupted.\n")


@pytest.mark.parametrize("wait", ["jax.block_until_ready", "numpy.asarray"])
def test_interrupt_ends_compiled_code(wait):
    """Here a loop that would take days; in the second way Python does not hear of the signal."""
    code = """
import runpy, sys, bmjax, jax, numpy
def fit(*_, **__):
    print("now", flush=True)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 2**31 - 1, lambda _, x: x @ x, x))
    WAIT(loop(jax.numpy.ones((300, 300))))
bmjax.fit = fit
sys.argv = ["bmjax"]
runpy.run_module("bmjax", run_name="__main__")
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code.replace("WAIT", wait)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "now\n"
        time.sleep(1)  # until the loop is on its way
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert complaint == "bmjax: interrupted.\n"


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_file_saved_over_stays_as_private_as_it_was(tmp_path, mode):
    place = tmp_path / "fit.json"
    place.write_text("old")
    place.chmod(mode)
    write_whole(place, b"new")
    assert place.read_text() == "new"
    assert place.stat().st_mode & 0o777 == mode


def test_a_name_that_is_not_utf8_is_saved(capsys, table, tmp_path, write):
    path = os.path.join(tmp_path, os.fsdecode(b"donn\xe9es.csv"))
    os.rename(write(table), path)
    saved = tmp_path / "fit.json"
    run(capsys, path, "--target", "y", "--save", str(saved))
    assert json.loads(saved.read_bytes())["settings"]["source"] == path
    pruned = json.loads(saved.read_bytes())["features"][1]
    assert pruned["kept"] is False
    assert pruned["standard_error"] is None


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


# ---- how a file is written


def by_semicolons(table: dict, mark: str = ",") -> str:
    rows = zip(*(map(float, column) for column in table.values()), strict=True)
    lines = [";".join(repr(value).replace(".", mark) for value in row) for row in rows]
    return "\n".join([";".join(table), *lines, ""])


def test_tables_of_other_countries_and_programs(capsys, write, table):
    want = rows(run(capsys, write(table), "--target", "y"))
    path = write(by_semicolons(table))
    assert rows(run(capsys, path, "--target", "y", "--sep", ";", "--decimal", ",")) == want
    message = refused(capsys, path, "--target", "y", "--sep", ";")
    assert "not a number" in message
    assert "--decimal ," in message
    # A point beside decimal commas is a mark of thousands or a mistake.
    path = write(by_semicolons(table, ".").replace("\n", "\n", 1))
    assert "not a number" in refused(capsys, path, "--target", "y", "--sep", ";", "--decimal", ",")
    path = write(by_semicolons(table, ".").replace(";", "\t"))
    assert rows(run(capsys, path, "--target", "y", "--sep", "tab")) == want
    with open(write(table), "rb") as file:
        packed = gzip.compress(file.read())
    assert rows(run(capsys, write(packed), "--target", "y")) == want
    assert "damaged gzip" in refused(capsys, write(packed[:40]), "--target", "y")


def test_comments_keep_the_numbers_of_lines(capsys, write, table):
    with open(write(table)) as file:
        head, first, *others = file.read().splitlines()
    text = "\n".join(["# made by hand", head, first, "  # half", *others, ""])
    want = rows(run(capsys, write(table), "--target", "y"))
    assert rows(run(capsys, write(text), "--target", "y", "--comment", "#")) == want
    broken = text.replace(others[0], "red,1,2")
    assert "line 5" in refused(capsys, write(broken), "--target", "y", "--comment", "#")
    assert "--comment '#'" in refused(capsys, write(text), "--target", "y")


def test_columns_left_out_and_rows_with_gaps(capsys, write, table):
    want = rows(run(capsys, write(table), "--target", "y"))
    columns = list(zip(*(map(repr, map(float, column)) for column in table.values()), strict=True))
    lines = [f"row {i},{a},{b},{y}," for i, (a, b, y) in enumerate(columns)]
    lines[3:3] = ["gap,,1.0,2.0,", "gap,1.0,NA,2.0,"]
    path = write("\n".join(["id,a,b,y,remark", *lines, ""]))
    argv = [path, "--target", "y", "--exclude", "id,remark"]
    message = refused(capsys, *argv)
    assert "missing value in line 5" in message
    assert "--drop-missing" in message
    out = run(capsys, *argv, "--drop-missing")
    assert rows(out) == want
    assert "2 of 32 rows were left out" in out
    assert "--exclude: 'y' is the target" in refused(capsys, *argv, "--exclude", "y")
    assert "no column but the target" in refused(capsys, *argv, "--exclude", "a,b")
    assert "Did you mean 'remark'?" in refused(capsys, *argv[:-1], "remarks")


@pytest.mark.parametrize("words", [("no", "yes"), ("FALSE", "True")])
def test_words_of_two_kinds_are_0_and_1(capsys, write, table, words):
    on = np.arange(30) % 3 == 0
    want = rows(run(capsys, write(table | {"b": 1.0 * on}), "--target", "y"))
    lines = [
        f"{a!r},{words[int(o)]},{y!r}"
        for a, o, y in zip(map(float, table["a"]), on, map(float, table["y"]), strict=True)
    ]
    out = run(capsys, write("\n".join(["a,b,y", *lines, ""])), "--target", "y")
    assert rows(out) == want
    assert f"b was taken as 0/1: {words[0].lower()} = 0" in out
    mixed = "\n".join(["a,b,y", *lines, "1.0,maybe,2.0", ""])
    assert "not a number" in refused(capsys, write(mixed), "--target", "y")


def test_names_that_are_numbers(capsys, write, table):
    want = list(rows(run(capsys, write(table), "--target", "y")).values())
    path = write({"2001": table["a"], "2002": table["b"], "2003": table["y"]})
    assert "--numeric-header" in refused(capsys, path, "--target", "2003")
    out = run(capsys, path, "--target", "2003", "--numeric-header")
    assert list(rows(out)) == ["2001", "2002"]
    assert list(rows(out).values()) == want


def test_a_wrong_separator_is_noticed(capsys, write, table):
    path = write(table)
    assert "give --sep ','" in refused(capsys, path, "--target", "y", "--sep", ";")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sep", "ab"], "--sep ab: give one character"),
        (["--sep", "1"], "--sep 1: give one character"),
        (["--sep", ""], "--sep '': give one character"),
        (["--decimal", ";"], "--decimal ;: give . or ,"),
        (["--decimal", ","], "separated by commas too"),
        (["--comment", " "], "--comment: give what"),
    ],
)
def test_unusable_forms(capsys, write, table, options, words):
    assert words in refused(capsys, write(table), "--target", "y", *options)


def test_a_large_intercept_keeps_its_digits(capsys, write, table):
    out = run(capsys, write(table | {"y": table["y"] + 1e9}), "--target", "y")
    error = float(figure(out, "standard error of it"))
    level = np.polyfit(table["a"], table["y"], 1)[1] + 1e9
    assert float(figure(out, "intercept")) == pytest.approx(level, abs=error)


# ---- categories


@pytest.fixture
def houses():
    """Sixty rows as text: the price goes by three districts and the size, not by the heating."""
    rng = np.random.default_rng(3)
    district, heating = rng.integers(0, 3, size=(2, 60))
    size = rng.normal(size=60)
    price = np.array([0.0, 3.0, -2.0])[district] + size + 0.3 * rng.normal(size=60)
    words = np.array(["east", "north", "west"])[district], np.array(["2", "10", "gas"])[heating]
    lines = ["district,heating,size,price"]
    columns = (*words, size.tolist(), price.tolist())
    lines += [f"{a}, {b} ,{c!r},{d!r}" for a, b, c, d in zip(*columns, strict=True)]
    return "\n".join(lines) + "\n"


def test_categories_are_kept_or_pruned_together(capsys, write, houses, tmp_path):
    """As a fit of dummies made by hand; each level but the first has a row, and is predicted."""
    path, saved = write(houses), tmp_path / "fit.json"
    chosen = "--target", "price", "--categorical", "district,heating"
    out = run(capsys, path, *chosen, "--save", str(saved))
    table = rows(out)
    assert list(table) == ["district=north", "district=west", "heating=2", "heating=gas", "size"]
    assert [cells[3] for cells in table.values()] == ["kept", "kept", "pruned", "pruned", "kept"]
    assert "district has 3 levels, kept or pruned together; effects are against east." in out
    words = [[cell.strip() for cell in line.split(",")] for line in houses.splitlines()[1:]]
    X = np.array(
        [[d == "north", d == "west", h == "2", h == "gas", float(s)] for d, h, s, _ in words],
        float,
    )
    y = np.array([float(row[3]) for row in words])
    by_hand = bmjax.fit(X, y, groups=["d", "d", "h", "h", None], intercept=True)
    fit = bmjax.load(saved)
    np.testing.assert_allclose(fit.coef, by_hand.coef, atol=1e-6)
    assert fit.groups == ("district", "district", "heating", "heating", None)
    said = run(capsys, "predict", str(saved), path).splitlines()
    got = [float(line.split(",")[1]) for line in said[1:]]
    np.testing.assert_allclose(got, fit.predict(X), rtol=1e-9)
    broken = write(houses.replace("north", "south", 1))
    message = refused(capsys, "predict", str(saved), broken)
    assert "column 'district' has the value 'south', which the fit has not seen" in message


def test_a_kept_category_is_kept_whole(capsys, write, houses):
    chosen = "--target", "price", "--categorical", "district", "--exclude", "heating"
    table = rows(run(capsys, write(houses), *chosen, "--keep", "district"))
    assert [cells[3] for cells in table.values()] == ["always", "always", "kept"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--categorical", "distrikt"], ["no feature 'distrikt'", "'district'"]),
        (["--categorical", "price"], ["'price' is the target"]),
        (["--categorical", "district,size"], ["column 'size' has 60 levels in 60 rows"]),
        (["--categorical", "district", "--posterior"], ["--posterior is of single columns"]),
    ],
)
def test_unusable_categories(capsys, write, houses, given, words):
    message = refused(capsys, write(houses), "--target", "price", "--exclude", "heating", *given)
    assert all(word in message for word in words)


def test_more_unusable_categories(capsys, write):
    one_level = write("a,b,y\n1,x,1\n2,x,2\n3,x,4\n")
    message = refused(capsys, one_level, "--target", "y", "--categorical", "b")
    assert "column 'b' has one level only" in message
    twice = write("b=z,b,y\n" + "1,x,1\n2,z,2\n" * 3)
    message = refused(capsys, twice, "--target", "y", "--categorical", "b")
    assert "there would be two columns b=z" in message
    assert "goes with a CSV file" in refused(capsys, "--categorical", "sex")


# ---- predicting


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_prediction_from_a_saved_fit(capsys, write, table, tmp_path, ending):
    saved = tmp_path / f"fit.{ending}"
    run(capsys, write(table), "--target", "y", "--save", str(saved))
    fit = bmjax.load(saved)
    assert fit.names == bmjax.Names(("a", "b"), "y")
    assert fit.coef.dtype == np.float64
    # Other columns, another order, and none for the feature that was pruned.
    path = write({"more": table["b"], "a": table["a"]})
    out = run(capsys, "predict", str(saved), path)
    head, *lines = csv.reader(out.splitlines())
    assert head == ["row", "prediction", "standard_deviation"]
    X = np.stack([table["a"], table["b"]], axis=1)
    got = np.array(lines, float)
    np.testing.assert_array_equal(got[:, 0], np.arange(1, 31))
    np.testing.assert_allclose(got[:, 1:].T, fit.predict(X, return_std=True), rtol=1e-9)
    place = tmp_path / "predicted.csv"
    assert run(capsys, "predict", str(saved), path, "--save", str(place)) == ""
    assert place.read_text() == out


def test_unusable_predictions(capsys, write, table, tmp_path):
    saved = tmp_path / "fit.json"
    path = write(table)
    run(capsys, path, "--target", "y", "--save", str(saved))
    assert "No such file" in refused(capsys, "predict", str(tmp_path / "none.json"), path)
    assert "is not a saved fit" in refused(capsys, "predict", path, path)
    other = write({"b": table["b"]})
    assert "has no column a, which the fit has kept" in refused(
        capsys, "predict", str(saved), other
    )
    words = "must end in .csv"
    assert words in refused(capsys, "predict", str(saved), other, "--save", "fit.json")
    broken = write("a\n1\nred\n")
    message = refused(capsys, "predict", str(saved), broken)
    assert "'red', not a number, in line 3" in message
    assert "--categorical" not in message  # which predict has not
    assert "cannot read '': " in refused(capsys, "predict", "", path)


# ---- time, and what is kept on the disk


def test_help_and_mistakes_do_not_wait_for_jax(write, table):
    path = write(table)
    code = (
        "import sys\nfrom bmjax._cli.command import main\n"
        "try:\n    status = main(sys.argv[1:])\nexcept SystemExit as end:\n    status = end.code\n"
        "assert 'jax' not in sys.modules, 'JAX was loaded'\nsys.exit(status)"
    )
    for argv, status in (
        (["--help"], 0),
        (["--version"], 0),
        (["predict", "--help"], 0),
        ([path, "--target", "z"], 2),
        ([path, "--target", "y", "--keep", "z"], 2),
        ([path, "--target", "y", "--save", "fit.txt"], 2),
        ([path], 2),
        ([path, "--bogus"], 2),
        (["predict", path], 2),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *argv], capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        assert "Error" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_compiled_programs_are_kept_in_the_cache_folder(write, table, tmp_path):
    environment = {"PATH": "", "JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = str(ROOT)

    def kept(*argv: str) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "bmjax", write(table), "--target", "y", *argv],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return len(list((tmp_path / "cache").rglob("*-cache")))

    assert kept("--no-cache") == 0
    first = kept()
    assert first > 3
    assert kept() == first


@pytest.fixture
def bought(write):
    """Two words in the place of a number, which `a` decides and `b` does not."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200))
    words = np.where(rng.random(200) < 1 / (1 + np.exp(-2 * a)), "yes", "no")
    rows = [f"{x},{z},{word}" for x, z, word in zip(a, b, words, strict=True)]
    return write("\n".join(["a,b,bought", *rows]) + "\n"), np.column_stack([a, b]), words == "yes"


def test_a_target_of_two_values_is_fitted_by_its_log_odds(capsys, bought, tmp_path):
    path, X, y = bought
    said = run(capsys, path, "--target", "bought", "--save", str(tmp_path / "fit.json"))
    words = " ".join(said.split())
    with jax.enable_x64(True):
        want = bmjax.fit(X, y, family="logistic", intercept=True, standardize=True)
    count = f"kept {int(np.sum(want.support))} of 2 features"
    for part in ("log-odds of 1", "odds", "logistic", count):
        assert part in words
    assert "least" not in words
    with jax.enable_x64(True):
        got = bmjax.load(tmp_path / "fit.json")
        np.testing.assert_allclose(got.coef, want.coef, rtol=1e-9)
    predicted = run(capsys, "predict", str(tmp_path / "fit.json"), path).splitlines()[1:]
    chances = [float(line.split(",")[1]) for line in predicted]
    np.testing.assert_allclose(chances, want.predict(X), rtol=1e-6)


def test_a_target_of_any_two_words(capsys, bought):
    """Of a target, and of no other column, any two words are 0 and 1, in order."""
    path, *_ = bought
    known = run(capsys, path, "--target", "bought")
    text = Path(path).read_text().replace("yes", "MM").replace("no", "CH")
    Path(path).write_text(text)
    said = run(capsys, path, "--target", "bought")
    assert "bought was taken as 0/1: CH = 0, MM = 1." in " ".join(said.split())
    assert said.replace("CH = 0, MM", "no = 0, yes") == known
    Path(path).write_text(text.replace("MM", "XX", 1))
    assert "not a number" in refused(capsys, path, "--target", "bought")
    assert "not a number" in refused(capsys, path, "--target", "a")


def test_families_that_do_not_fit_are_refused(capsys, write, table):
    said = refused(capsys, write(table), "--target", "y", "--family", "logistic")
    assert "has 30 different values" in said
