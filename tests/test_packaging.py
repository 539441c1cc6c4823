"""What is given away: a wheel and a source distribution with everything in it, one version, one
list of linters.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import fusionc
from fusionc.cli import main

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TAKEN_ANYWAY = {
    "LICENSE",
    "MANIFEST.in",
    "PKG-INFO",
    "README.md",
    "fusionc",
    "pyproject.toml",
    "setup.cfg",
    ".git",
}


def test_there_is_one_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fusionc", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.startswith(f"fusionc {fusionc.__version__} (onnx ")
    assert "version" in PROJECT["project"]["dynamic"] and "version" not in PROJECT["project"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "fusionc.version.__version__"
    }


def test_one_sentence_says_what_it_is() -> None:
    """On the first lines of README and of `fusionc --help`, and where packages are listed."""
    sentence = (ROOT / "README.md").read_text().splitlines()[2]
    assert PROJECT["project"]["description"] == sentence
    assert " ".join((main.help or "").split()).startswith(f"{sentence} `fusionc in.onnx out.onnx`")


def test_the_changelog_says_what_comes_next() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall("^## \\[(.+?)\\]", text, re.MULTILINE)[0] in (
        "Unreleased",
        fusionc.__version__,
    )


def test_every_file_beside_the_modules_is_in_the_wheel() -> None:
    """Where files move, so must their patterns."""
    patterns = [
        pattern.replace("**/", "*")
        for pattern in PROJECT["tool"]["setuptools"]["package-data"]["fusionc"]
    ]
    files = [
        path
        for path in (ROOT / "fusionc").rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]
    names = [path.relative_to(ROOT / "fusionc").as_posix() for path in files]
    assert names and not [
        name for name in names if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
    ]


def test_everything_that_is_no_product_of_a_tool_is_in_the_source_distribution() -> None:
    lines = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    taken = TAKEN_ANYWAY | {
        name for words in lines if words[0] in ("graft", "include") for name in words[1:]
    }
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
    here = [path.name for path in ROOT.iterdir()]
    assert not [
        name
        for name in here
        if name not in taken and not any(fnmatch.fnmatch(name, i) for i in ignored)
    ]
    assert not [name for name in taken - TAKEN_ANYWAY if name not in here]


def test_the_hooks_are_the_linters_of_make_check() -> None:
    check = (ROOT / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    hooks = re.findall(r"entry: \.venv/bin/(.+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert {hook.split(" --")[0] for hook in hooks} >= {"ruff check", "ruff format", "mypy"}
    assert all(hook.split(" --")[0] in check for hook in hooks)


def test_a_release_has_the_addresses_of_its_repository(tmp_path: Path) -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    script = textwrap.dedent(re.findall(r"- run: \|\n((?: {10}.*\n)+)", text)[0])
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    names = {
        "GITHUB_SERVER_URL": "https://example.com",
        "GITHUB_REPOSITORY": "a/b",
        "GITHUB_REF_NAME": "v1",
    }
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, env=os.environ | names, check=True)
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Homepage"] == "https://example.com/a/b"
    for name in ("Documentation", "Changelog"):
        file = urls[name].removeprefix("https://example.com/a/b/blob/v1/")
        assert (ROOT / file).is_file()


def test_the_image_is_made_of_what_is_here() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (version,) = (line.split(":")[1].split("-")[0] for line in lines if line.startswith("FROM "))
    assert f"Programming Language :: Python :: {version}" in PROJECT["project"]["classifiers"]
    extras = re.findall(r"/source\[(\w+)\]", "\n".join(lines))
    assert extras and set(extras) <= PROJECT["project"]["optional-dependencies"].keys()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    assert all((ROOT / name).exists() for name in kept)
    needed = {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    assert needed | {"fusionc"} == kept


def test_the_hook_of_pre_commit_fails_for_a_model_that_does_not_run(tmp_path: Path) -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    entry = shlex.split(re.findall(r"^  entry: (.*)$", text, re.MULTILINE)[0])
    good = ROOT / "sample_models" / "conv_bn.onnx"
    bad = tmp_path / "bad model.onnx"
    bad.write_bytes(good.read_bytes()[:3000])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "FUSIONC_PROCESS_LOG_PATH": str(tmp_path)}
    for models, code in (([good], 0), ([good, bad], 1)):
        done = subprocess.run(
            [*entry, *models], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == code, done.stderr
    assert "bad model.onnx" in done.stderr


def test_screenshots_are_here_and_say_what_they_need(tmp_path: Path) -> None:
    pictures = {path.stem for path in (ROOT / "docs" / "screenshots").glob("*.png")}
    subjects = {name.rpartition("-")[0] for name in pictures}
    assert subjects == {"page", "page-420", "means", "models", "tune"}
    assert pictures == {f"{subject}-{mode}" for subject in subjects for mode in ("light", "dark")}
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "screenshots.py"],
        env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and "install chromium" in done.stderr
