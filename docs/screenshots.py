"""Take the pictures in docs/screenshots/ and docs/report.png: the page of --report, the plots and
the chart of README.md, light and dark. `make screenshots` calls this file.

It needs chromium or Chrome, and fusionc with the extra `report`. Look at the pictures before you
commit them. The numbers in the plot of `fusionc tune` are examples.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import fusionc
from fusionc.tune.configuration import TunedChange
from fusionc.tune.confirmation import confirmation_of
from fusionc.tune.decisions import Worth
from fusionc.tune.worth_plot import worth_plot

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "screenshots"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = (
    "no browser is installed that can take screenshots: install chromium (apt-get install "
    "chromium) or Google Chrome, and call `make screenshots` again"
)
DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
NARROW = 420  # pixels; a browser's own window is not that narrow, so a frame is


def main() -> int:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(MISSING, file=sys.stderr)
        return 1
    TARGET.mkdir(exist_ok=True)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for place, target, width, height in _pictures(folder):
            for mode, options in (("light", ()), ("dark", DARK)):
                picture = TARGET / f"{target}-{mode}.png"
                _shoot(browser, folder, place, picture, (width, height), options)
                print(picture.relative_to(ROOT))
        shutil.copy(TARGET / "page-light.png", ROOT / "docs" / "report.png")
    return 0


def _pictures(folder: Path) -> list[tuple[Path, str, int, int]]:
    """Each file to show, with the name of its picture, and the size in pixels."""
    page = folder / "report.html"
    model = ROOT / "sample_models" / "transformer_block.onnx"
    fusionc.convert(model, output=folder / "out.onnx", report=page, log="null")
    frame = folder / "narrow.html"
    frame.write_text(
        '<body style="margin:0"><iframe src="report.html" style="border:0" '
        f'width="{NARROW}" height="1500"></iframe>'
    )
    plot = folder / "tune.svg"
    plot.write_text(_example_of_a_plot())
    measured = ROOT / "docs" / "measured"
    return [
        (page, "page", 1200, 1500),
        (frame, "page-420", 500, 1500),
        (measured / "means.svg", "means", *_size(measured / "means.svg")),
        (measured / "models.svg", "models", *_size(measured / "models.svg")),
        (plot, "tune", *_size(plot)),
    ]


def _size(drawing: Path) -> tuple[int, int]:
    """The width and height of an SVG file."""
    width, height = re.findall(r'(?:width|height)="(\d+)"', drawing.read_text())[:2]
    return int(width), int(height)


def _example_of_a_plot() -> str:
    seconds = {"original": 1.0, "default": 0.92, "tuned": 0.61}
    rounds = [
        {name: [[value * (1 + 0.004 * (at % 3))]] for name, value in seconds.items()}
        for at in range(9)
    ]
    last = confirmation_of(rounds, 0.95)
    changes = {
        "areas with kernels": [-0.41, -0.42, -0.4],
        "TbeConvElemwiseFusionPass off": [0.03, 0.05, 0.04],
        "MultiHeadAttentionFusionPass off": [0.004, -0.006, 0.001],
        "threads 1": [1.2, 1.25, 1.22],
    }
    states = ("pays", "costs", "undecided", "costs")
    worths = [
        Worth(TunedChange(title, "passes"), state, tested=tested)
        for (title, tested), state in zip(changes.items(), states, strict=True)
    ]
    return worth_plot("example.onnx", worths, last, 0.95)


def _shoot(
    browser: str,
    folder: Path,
    place: Path,
    target: Path,
    size: tuple[int, int],
    options: tuple[str, ...],
) -> None:
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'browser'}",
        f"--window-size={size[0]},{size[1]}",
        f"--screenshot={target}",
        *options,
        place.as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    sys.exit(main())
