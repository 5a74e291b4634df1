"""Pictures of the HTML page for the documentation; needs chromium, chromedriver and pillow.

    python -m benchmarks.screenshots                    # runs the tiny model first
    python -m benchmarks.screenshots run.json.gz        # of a recording made before

Writes ``docs/images/page-*.png``, with few colours, so that they stay small.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from prescope.inspection import open_view
from prescope.page import write_page

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests" / "support"))
COLOURS = 256
RUN = ("run", "tiny", "--policies", "expected", "--batch", "2", "--tokens", "8", "--backend", "cpu")


def main() -> int:
    """Take all pictures."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("recording", type=Path, nargs="?", help="a file of `prescope run --recording`")
    options.add_argument("--output", type=Path, default=IMAGES)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recording = chosen.recording or record(Path(folder) / "run.json.gz")
        page = Path(folder) / "page.html"
        write_page(open_view(recording), page, start=1)
        for name, picture in pictures(page):
            save(picture, chosen.output / f"page-{name}.png")
    return 0


def record(path: Path) -> Path:
    """Run the tiny model in slow motion."""
    subprocess.run([sys.executable, "-m", "prescope", *RUN, "--recording", str(path)], check=True)
    return path


def pictures(page: Path) -> list[tuple[str, bytes]]:
    """Overview, a zoomed timeline in the dark, maps, and a telephone."""
    from browser import browser, load, theme, view

    found = []
    with browser() as driver:
        view(driver, 1180, 1240)
        load(driver, page)
        found.append(("light", driver.get_screenshot_as_png()))

        show(driver, "residency", 1180, 950)
        found.append(("maps", driver.get_screenshot_as_png()))

        theme(driver, dark=True)
        show(driver, "timeline-card", 1180, 780)
        timeline = driver.find_element("id", "timeline")
        timeline.click()
        timeline.send_keys("++nncc")
        driver.execute_script("document.getElementById('timeline-card').scrollIntoView()")
        found.append(("dark", driver.get_screenshot_as_png()))

        theme(driver, dark=False)
        view(driver, 375, 760)
        load(driver, page)
        first = driver.get_screenshot_as_png()
        show(driver, "timeline-card", 375, 760)
        second = driver.get_screenshot_as_png()
        show(driver, "waterfall", 375, 760)
        found.append(("phone", beside([first, second, driver.get_screenshot_as_png()])))
    return found


def show(driver: Any, card: str, width: int, height: int) -> None:
    """Scroll a card to the top of a window of that size."""
    from browser import view

    view(driver, width, height)
    driver.execute_async_script(
        "const done = arguments[1]; document.getElementById(arguments[0]).scrollIntoView();"
        "requestAnimationFrame(() => requestAnimationFrame(() => done()));",
        card,
    )


def beside(parts: list[bytes]) -> bytes:
    """Pictures in a row, a little apart."""
    from PIL import Image

    images = [Image.open(io.BytesIO(part)) for part in parts]
    gap = 24
    width = sum(image.width for image in images) + gap * (len(images) - 1)
    row = Image.new("RGB", (width, max(image.height for image in images)), "white")
    left = 0
    for image in images:
        row.paste(image, (left, 0))
        left += image.width + gap
    out = io.BytesIO()
    row.save(out, "png")
    return out.getvalue()


def save(picture: bytes, path: Path) -> None:
    """Write with few colours."""
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
