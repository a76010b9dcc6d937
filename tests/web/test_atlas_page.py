"""Atlas: drawn of the model's own file, turned, searched, filtered."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from server_kit import Running
from web_kit import PHONE, Watched, dressed, needs_browser, watched

from colibri.lab.atlas import affinity
from colibri.lab.atlas.file import NAME
from colibri.llm import embedded_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = needs_browser()

FILE: Any = json.loads((embedded_model() / NAME).read_text())
TOKENS = np.array([topic["tokens"] for topic in FILE["topics"]])
SELECTIONS = np.array([row for layer in FILE["layers"] for row in layer["selections"]])
SHARES = affinity.shares(SELECTIONS, TOKENS)
SPECIAL = affinity.specialists(SHARES)


@pytest.fixture
def visit(browser: Browser, live: Running) -> Iterator[Watched]:
    with watched(browser, live.url, viewport={"width": 1440, "height": 900}) as visited:
        yield visited
        visited.check()


@pytest.fixture
def atlas(visit: Watched) -> Page:
    page = visit.open("/#/atlas")
    page.get_by_role("heading", name="Topics").wait_for()
    page.wait_for_timeout(300)
    return page


def picture(page: Page) -> bytes:
    page.wait_for_timeout(150)
    return page.locator(".atlas-frame").screenshot()


def covered(page: Page) -> int:
    """How many pixels of the cloud are clearly not its ground."""
    data = base64.b64encode(picture(page)).decode()
    found = page.evaluate(
        """async data => {
            const image = new Image();
            image.src = `data:image/png;base64,${data}`;
            await image.decode();
            const copy = document.createElement('canvas');
            copy.width = image.width; copy.height = image.height;
            const pen = copy.getContext('2d');
            pen.drawImage(image, 0, 0);
            const { data: px } = pen.getImageData(0, 0, copy.width, copy.height);
            let n = 0;
            for (let i = 0; i < px.length; i += 4) {
                const far = [0, 1, 2].map(c => Math.abs(px[i + c] - px[c]));
                n += Math.max(...far) > 60;
            }
            return n;
        }""",
        data,
    )
    return int(found)


def test_figures_are_those_of_the_file(atlas: Page) -> None:
    """The page computes shares by the same formula as coli atlas show."""
    atlas.get_by_text(f"128 experts, among them {int(SPECIAL.sum())} specialists").wait_for()
    for t, topic in enumerate(FILE["topics"]):
        many = int((SPECIAL & (SHARES.argmax(axis=1) == t)).sum())
        row = atlas.get_by_role("button", name=topic["name"])
        assert f"{many} specialist" in row.inner_text()


def test_dragging_wheel_and_keys_turn_and_zoom(atlas: Page) -> None:
    box = atlas.locator(".atlas-canvas").bounding_box()
    assert box
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    seen = [picture(atlas)]

    def changes() -> None:
        now = picture(atlas)
        assert now not in seen
        seen.append(now)

    atlas.mouse.move(*middle)
    atlas.mouse.down()
    atlas.mouse.move(middle[0] + 120, middle[1] + 40, steps=4)
    atlas.mouse.up()
    changes()
    atlas.mouse.wheel(0, -300)
    changes()
    atlas.locator(".atlas-canvas").focus()
    for key in ("ArrowLeft", "ArrowUp", "+", "-"):
        atlas.keyboard.press(key)
        if key != "-":  # which takes + back
            changes()
    atlas.get_by_role("button", name="Zoom in").click()
    changes()
    atlas.get_by_role("button", name="Zoom out").click()


def test_an_expert_is_picked(atlas: Page) -> None:
    """Somewhere on a fine grid there is one."""
    box = atlas.locator(".atlas-canvas").bounding_box()
    assert box
    heading = atlas.get_by_label("Expert", exact=True).get_by_role("heading", level=2)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for dx in range(-80, 81, 8):
        atlas.mouse.move(x + dx, y)
        if heading.inner_text().startswith("Layer"):
            break
    name = heading.inner_text()
    assert name.startswith("Layer")
    atlas.mouse.down()
    atlas.mouse.up()
    atlas.mouse.move(5, 5)
    atlas.get_by_role("heading", name=name, exact=True).wait_for()
    layer, expert = (int(part.split()[-1]) for part in name.split(","))
    best = SHARES[(layer - 1) * 32 + expert].max()
    atlas.get_by_label("Expert", exact=True).get_by_text(
        f"{best:.0%}".replace("%", " %")
    ).first.wait_for()


def test_search(atlas: Page) -> None:
    field = atlas.get_by_role("searchbox")
    field.fill("sql")
    many = int((SPECIAL & (SHARES.argmax(axis=1) == 2)).sum())
    atlas.get_by_role("heading", name="Found").wait_for()
    assert int(atlas.get_by_role("heading", name="Found").inner_text().split()[1]) >= many
    heading = atlas.get_by_label("Expert", exact=True).get_by_role("heading")
    assert heading.inner_text() == "An expert"
    atlas.locator(".found button").nth(1).click()
    atlas.get_by_role("heading", name="Layer").wait_for()
    second = heading.inner_text()
    field.press("Enter")
    atlas.wait_for_function("old => !document.body.innerText.includes(old)", arg=second)
    assert heading.inner_text().startswith("Layer")


def test_the_only_hit_is_selected_by_itself(atlas: Page) -> None:
    box = atlas.locator(".atlas-canvas").bounding_box()
    assert box
    field = atlas.get_by_role("searchbox")
    field.focus()
    atlas.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)  # stays there
    atlas.keyboard.type("3/17")
    atlas.get_by_text("1 of 128 experts").wait_for()
    atlas.get_by_role("heading", name="Layer 3, expert 17").wait_for()


def test_a_search_that_finds_nothing_says_so(atlas: Page) -> None:
    field = atlas.get_by_role("searchbox")
    bad = "<img src=x onerror=alert(1)>"
    for text in ("zzz", "9/99", bad):
        field.fill(text)
        atlas.get_by_text(f"No expert for \u201c{text}\u201d.").wait_for()
        atlas.get_by_text("0 of 128 experts").wait_for()
    field.fill("")
    atlas.get_by_role("heading", name="Nothing found").wait_for(state="detached")


# Names that overlap, or lie outside the frame in part.
OUTSIDE = """() => {
    const same = (a, b) => a.x === b.x && a.y === b.y;
    const frame = document.querySelector('.atlas-frame').getBoundingClientRect();
    const names = [...document.querySelectorAll('.atlas-names span')];
    const boxes = [...names, document.querySelector('.atlas-zoom')]
        .filter(part => part.style.visibility !== 'hidden')
        .map(part => part.getBoundingClientRect());
    const apart = (a, b) => a === b || a.right <= b.left || b.right <= a.left
        || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
    if (boxes.length < 9) return ['too few names'];
    return names.filter(name => {
        if (name.style.visibility === 'hidden') return false;
        const box = name.getBoundingClientRect();
        if (!boxes.every(other => same(box, other) || apart(box, other))) return true;
        return box.left < frame.left || box.right > frame.right
            || box.top < frame.top || box.bottom > frame.bottom;
    }).map(name => name.textContent);
}"""


@pytest.mark.parametrize("width", [390, 1440])
def test_names_stay_in_the_frame_and_beside_each_other(visit: Watched, width: int) -> None:
    page = visit.open("/#/atlas")
    page.set_viewport_size({"width": width, "height": 844})
    page.get_by_role("heading", name="Topics").wait_for()
    for _ in range(4):
        page.wait_for_timeout(200)
        assert page.evaluate(OUTSIDE) == []
        page.get_by_role("button", name="Zoom in").click()


@pytest.mark.parametrize("letter", ["W", "\u6f22", "word "])
def test_the_longest_names_are_not_cut_off_on_a_phone(
    browser: Browser, live: Running, letter: str
) -> None:
    """As long as `coli atlas build --prompts` takes them."""
    long = json.loads(json.dumps(FILE))
    for t, topic in enumerate(long["topics"]):
        topic["name"] = f"{t} " + (letter * 40)[:38]
    with watched(browser, live.url, **PHONE) as visited:
        page = visited.open()
        page.route("**/v1/colibri/atlas", lambda route: route.fulfill(json=long))
        page.goto(f"{live.url}/#/atlas/2.3")
        page.get_by_role("heading", name="Topics").wait_for()
        page.wait_for_timeout(300)
        outside = page.evaluate(OUTSIDE.replace("boxes.length < 9", "boxes.length < 3"))
        assert outside == []
        wide = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) == 0
        cut = """() => [...document.querySelectorAll('.legend, .legend span, .atlas-names span')]
            .filter(part => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0)
            .map(part => part.textContent)"""
        assert page.evaluate(cut) == []
        visited.check()


def test_a_topic_or_a_layer_alone(atlas: Page) -> None:
    before = covered(atlas)
    assert before > 500
    topic = atlas.get_by_role("button", name="Chinese")
    topic.click()
    many = int((SPECIAL & (SHARES.argmax(axis=1) == 8)).sum())
    atlas.get_by_text(f"{many} of 128 experts").wait_for()
    assert topic.get_attribute("aria-pressed") == "true"
    atlas.wait_for_timeout(150)
    assert covered(atlas) < before
    topic.click()
    atlas.get_by_role("combobox").select_option("2")
    atlas.get_by_text("32 of 128 experts").wait_for()


def test_tokens_of_a_file_are_text(browser: Browser, live: Running) -> None:
    """What stands in an atlas may come from anyone."""
    bad = "<img src=x onerror=alert(1)>"
    hostile = json.loads(json.dumps(FILE))
    hostile["topics"][0]["name"] = bad
    for layer in hostile["layers"]:
        layer["tokens"] = [[bad]] * 32
    with watched(browser, live.url) as visited:
        page = visited.open()
        page.route("**/v1/colibri/atlas", lambda route: route.fulfill(json=hostile))
        page.on("dialog", lambda dialog: visited.errors.append("a script ran"))
        page.goto(f"{live.url}/#/atlas/2.3")
        page.get_by_role("heading", name="Layer 2, expert 3").wait_for()
        page.locator(".token").first.wait_for()
        assert page.locator("main img").count() == 0
        visited.check()


def test_without_webgl_the_rest_works(browser: Browser, live: Running) -> None:
    with watched(browser, live.url) as visited:
        page = visited.open()
        visited.context.add_init_script(
            "const real = HTMLCanvasElement.prototype.getContext;"
            "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
            "  return kind === 'webgl2' ? null : real.call(this, kind, ...rest); };"
        )
        page.goto("about:blank")
        page.goto(f"{live.url}/#/atlas")
        page.get_by_text("WebGL2 is not available").wait_for()
        page.get_by_role("searchbox").fill("2/7")
        page.locator(".found button").click()
        page.get_by_role("heading", name="Layer 2, expert 7").wait_for()
        visited.check()


def test_a_context_that_was_lost_comes_back(visit: Watched, atlas: Page) -> None:
    assert covered(atlas) > 500
    atlas.evaluate(
        """() => {
            const gl = document.querySelector('.atlas-canvas').getContext('webgl2');
            window.graphics = gl.getExtension('WEBGL_lose_context');
            window.graphics.loseContext();
        }"""
    )
    atlas.get_by_text("WebGL2 is not available").wait_for()
    # What would draw meanwhile finds nothing to draw on.
    dressed(atlas, "dark")
    atlas.set_viewport_size({"width": 1100, "height": 800})
    atlas.wait_for_timeout(200)
    atlas.evaluate("() => window.graphics.restoreContext()")
    atlas.locator(".atlas-canvas").wait_for()
    assert covered(atlas) > 500
    assert visit.errors == []
