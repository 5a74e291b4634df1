"""A headless Chromium, where the machine has one."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
)


def why_not() -> str | None:
    """Say what is missing for a browser test; ``None`` when nothing is."""
    try:
        import selenium  # noqa: F401
    except ModuleNotFoundError:
        return "needs selenium: pip install prescope[dev]"
    if CHROMIUM is None or DRIVER is None:
        return "needs chromium and chromedriver: apt-get install chromium chromium-driver"
    return None


@contextmanager
def browser(width: int = 1280, height: int = 900, *, dark: bool = False) -> Iterator[Any]:
    """Yield a driver whose pages are ``width`` by ``height`` pixels; nothing of it is left behind."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        options.add_argument(f"--user-data-dir={profile}")
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        try:
            view(driver, width, height)
            theme(driver, dark=dark)
            yield driver
        finally:
            driver.quit()


def view(driver: Any, width: int, height: int) -> None:
    """Set the size of the page, below what a window may be as well."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def theme(driver: Any, *, dark: bool) -> None:
    """Say what the system prefers."""
    feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def load(driver: Any, path: Path) -> None:
    """Open a page and wait until it says that it is drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(path.resolve().as_uri())
    ready = "return document.documentElement.dataset.ready || document.querySelector('[role=alert]')"
    WebDriverWait(driver, 20, poll_frequency=0.05).until(lambda now: now.execute_script(ready))
    assert driver.execute_script("return document.documentElement.dataset.ready") == "yes", complaints(driver)


def complaints(driver: Any) -> list[str]:
    """Return what the console says since the last call."""
    return [entry["message"] for entry in driver.get_log("browser")]


def screenshot(driver: Any, path: Path, *, width: int) -> None:
    """Picture the whole page, however long it is."""
    length = driver.execute_script("return document.documentElement.scrollHeight")
    view(driver, width, length)
    driver.save_screenshot(str(path))
