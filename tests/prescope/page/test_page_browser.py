"""The page in a real browser: no complaints, and everything answers to mouse, keys and size."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import browser, complaints, load, theme, view, why_not
from page_documents import HOSTILE, odd_documents, small_document

from prescope.page import render_page

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    large = small_document(steps=40)
    texts = {
        "small": render_page(small_document()),
        "hostile": render_page(small_document(name=HOSTILE)),
        "partial": render_page(large, max_bytes=0),
        "broken": render_page(small_document()).replace('"tasks":"', '"tasks":"AAAA'),
    }
    texts |= {name: render_page(document) for name, document in odd_documents().items()}
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as running:
        yield running


@pytest.fixture
def page(driver: Any, pages: dict[str, Path]) -> Any:
    view(driver, 1280, 900)
    theme(driver, dark=False)
    complaints(driver)
    load(driver, pages["small"])
    yield driver
    assert complaints(driver) == []


def find(driver: Any, selector: str) -> Any:
    from selenium.webdriver.common.by import By

    return driver.find_element(By.CSS_SELECTOR, selector)


def text(driver: Any, selector: str) -> str:
    return str(driver.execute_script("return document.querySelector(arguments[0]).textContent", selector))


def shown(driver: Any, selector: str) -> bool:
    return bool(find(driver, selector).is_displayed())


def window(driver: Any) -> tuple[float, float]:
    canvas = find(driver, "#timeline")
    return float(canvas.get_attribute("data-low")), float(canvas.get_attribute("data-high"))


def point_at(driver: Any, selector: str, share_x: float, y: float) -> Any:
    """Move the mouse over an element: a share of its width from the left, pixels from its top."""
    from selenium.webdriver.common.action_chains import ActionChains

    element = find(driver, selector)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    # The scrolling itself closes tooltips, a frame later.
    driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    )
    size = element.size
    offset = round((share_x - 0.5) * size["width"]), round(y - size["height"] / 2)
    chain = ActionChains(driver, duration=0).move_to_element_with_offset(element, *offset)
    chain.perform()
    return ActionChains(driver, duration=0)


def wait_for(check: Any) -> None:
    until = time.monotonic() + 10
    while not check():
        assert time.monotonic() < until, "waited for 10 seconds"
        time.sleep(0.02)


def keys(driver: Any, *pressed: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    for key in pressed:
        ActionChains(driver, duration=0).send_keys(key).perform()


def test_hovering_a_task_tells_all_about_it(page: Any) -> None:
    point_at(page, "#timeline", 0.85, 80)
    assert shown(page, "#tooltip")
    told = text(page, "#tooltip")
    for word in ("layer 1, expert 8", "planned", "80 ns", "100 ns", "duration", "20 ns", "slot", "tokens"):
        assert word in told
    point_at(page, "h1", 0.5, 5)
    assert not shown(page, "#tooltip")


def test_hovering_a_map_and_the_steps_tells_what_they_are(page: Any) -> None:
    point_at(page, "#map", 0.2, 24)
    wait_for(lambda: shown(page, "#tooltip"))
    assert "Layer 0, expert" in text(page, "#tooltip") and "predicted" not in text(page, "#tooltip")
    point_at(page, "#steps .catch", 0.9, 60)
    assert "executed" in text(page, "#tooltip")


def test_buttons_zoom_and_move(page: Any) -> None:
    whole = window(page)
    assert whole == (-20, 120)
    find(page, "#zoom-in").click()
    low, high = window(page)
    assert high - low == pytest.approx(100)  # as far as it goes: 100 ns
    find(page, "[aria-label=Later]").click()
    assert window(page)[0] > low
    find(page, "#zoom-all").click()
    assert window(page) == whole


def test_the_wheel_zooms_where_it_points_and_the_page_scrolls_before(page: Any) -> None:
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    whole = window(page)
    origin = ScrollOrigin.from_element(find(page, "#timeline"))
    point_at(page, "#timeline", 0.8, 30).scroll_from_origin(origin, 0, -40).perform()
    assert window(page) == whole
    point_at(page, "#timeline", 0.8, 30).click().scroll_from_origin(origin, 0, -40).perform()
    low, high = window(page)
    assert high - low < whole[1] - whole[0]


def test_dragging_moves_time(page: Any) -> None:
    find(page, "#zoom-in").click()
    before = window(page)
    point_at(page, "#timeline", 0.8, 30).click_and_hold().move_by_offset(-300, 0).release().perform()
    after = window(page)
    assert after[0] > before[0] and after[1] - after[0] == pytest.approx(before[1] - before[0])
    assert not shown(page, "#details")


def test_keys_reach_everything(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    focused = "return document.activeElement.id || document.activeElement.className"
    order = []
    for _ in range(16):
        keys(page, Keys.TAB)
        order.append(page.execute_script(focused))
    assert order[0] == "skip"
    assert order.index("theme") < order.index("step") < order.index("zoom-in") < order.index("timeline")
    page.execute_script("document.getElementById('timeline').focus()")
    keys(page, "+")
    assert window(page)[1] - window(page)[0] == pytest.approx(100)
    before = window(page)
    keys(page, Keys.ARROW_RIGHT)
    assert window(page)[0] > before[0]
    keys(page, "0")
    assert window(page) == (-20, 120)
    keys(page, "n")
    assert "Copy of layer 0, expert 5" in text(page, "#details h3")
    keys(page, "n")
    assert "Copy of layer 1, expert 7" in text(page, "#details h3")
    keys(page, "p", Keys.ARROW_DOWN)
    assert "executed" in text(page, "#details")
    keys(page, "c")
    assert "critical path" in text(page, "#details")
    keys(page, Keys.ESCAPE)
    assert not shown(page, "#details")


def test_help_opens_and_closes_and_steps_change_by_keys(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    keys(page, "?")
    assert shown(page, "#help")
    keys(page, Keys.ESCAPE)
    assert not shown(page, "#help")
    keys(page, ".")
    wait_for(lambda: "small 1" in text(page, "#step-label"))
    keys(page, ",", ",")
    wait_for(lambda: "small 0" in text(page, "#step-label"))


def test_a_click_in_the_chart_picks_the_step(page: Any) -> None:
    point_at(page, "#steps .catch", 0.9, 60).click().perform()
    wait_for(lambda: "small 2 (3 of 3)" in text(page, "#step-label"))


def test_steps_are_numbered_as_in_their_run(page: Any) -> None:
    ticks = page.execute_script(
        "return [...document.querySelectorAll('#steps .tick')].map((one) => one.textContent)"
    )
    assert ticks[-3:] == ["40", "41", "42"]


def test_a_click_selects_a_task_with_its_twin(page: Any) -> None:
    point_at(page, "#timeline", 0.85, 80).click().perform()
    assert "Copy of layer 1, expert 8" in text(page, "#details h3")
    assert "starts at the same time" in text(page, "#details")


def test_tables_sort(page: Any) -> None:
    def first() -> str:
        return text(page, "#layers tbody tr th")

    assert first() == "0"
    find(page, "#layers thead th:first-child button").click()
    assert find(page, "#layers thead th:first-child").get_attribute("aria-sort") == "ascending"
    find(page, "#layers thead th:first-child button").click()
    assert first() == "1"
    find(page, "#layers tbody tr:first-child button").click()
    assert window(page) == (20, 120)  # layer 1 lies from 60 to 120, but a window has at least 100 ns


def test_maps_and_demand_follow_their_choices(page: Any) -> None:
    from selenium.webdriver.support.ui import Select

    Select(find(page, "#map-mode")).select_by_value("layer")
    assert find(page, "#map-layer").is_enabled()
    point_at(page, "#map", 0.2, 45)
    assert "small 1" in text(page, "#tooltip")
    Select(find(page, "#map-mode")).select_by_value("share")
    before = text(page, "#demand tbody")
    Select(find(page, "#demand-scope")).select_by_value("all")
    wait_for(lambda: text(page, "#demand tbody") != before)


def test_a_click_in_the_map_selects_its_task(page: Any) -> None:
    chosen = page.execute_script("return document.querySelector('#details').hidden")
    assert chosen
    # Expert 5 of layer 0: the sixth cell, each 34 pixels wide behind a margin of 34.
    width = find(page, "#map").size["width"]
    point_at(page, "#map", (34 + 5.5 * 34) / width, 24).click().perform()
    assert "Compute layer 0, expert 5" in text(page, "#details h3")
    assert "its copy" in text(page, "#details")


def test_both_accounts_sum_to_the_time_of_the_step(page: Any) -> None:
    totals = page.execute_script(
        "return [...document.querySelectorAll('.line.total')].map((line) => line.innerText)"
    )
    assert len(totals) == 2 and all("120 ns" in total for total in totals)


def test_themes(page: Any) -> None:
    def background() -> str:
        return str(page.execute_script("return getComputedStyle(document.body).backgroundColor"))

    def drawn() -> list[str]:
        return list(
            page.execute_script(
                "return [...document.querySelectorAll('canvas')].map((one) => one.toDataURL())"
            )
        )

    light, before = background(), drawn()
    theme(page, dark=True)
    dark = background()
    assert light != dark
    wait_for(lambda: all(old != new for old, new in zip(before, drawn(), strict=True)))
    find(page, "#theme").click()  # light, whatever the system says
    assert background() == light
    assert drawn() == before
    theme(page, dark=False)
    find(page, "#theme").click()
    assert background() == dark


@pytest.mark.parametrize("name", ["small", "hostile", "partial", *odd_documents()])
@pytest.mark.parametrize("width", [375, 1280])
def test_no_page_is_wider_than_its_window_or_complains(
    driver: Any, pages: dict[str, Path], name: str, width: int
) -> None:
    view(driver, width, 700)
    load(driver, pages[name])
    size = driver.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert size[0] <= width
    for _ in range(4 if name == "uneven steps" else 0):
        keys(driver, ".")
        driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert complaints(driver) == []


def test_names_are_shown_as_they_are(driver: Any, pages: dict[str, Path]) -> None:
    view(driver, 1280, 900)
    load(driver, pages["hostile"])
    assert text(driver, "h1") == HOSTILE
    assert driver.title.startswith("<script>")
    assert driver.execute_script("return document.scripts.length") == 2


def test_missing_tasks_are_said(driver: Any, pages: dict[str, Path]) -> None:
    load(driver, pages["partial"])
    assert "not in the file" in text(driver, "#timeline-card .note")
    assert shown(driver, "#timeline-card .note") and not shown(driver, "#timeline")
    assert shown(driver, "#map")
    complaints(driver)


def test_broken_data_is_told_on_the_page(driver: Any, pages: dict[str, Path]) -> None:
    driver.get(pages["broken"].as_uri())
    wait_for(lambda: driver.execute_script("return document.querySelector('[role=alert]') !== null"))
    assert "cannot show its data" in text(driver, "[role=alert]")
    complaints(driver)
