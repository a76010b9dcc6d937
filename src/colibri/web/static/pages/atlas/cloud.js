// The canvas of the cloud, the topics' names over it, and how it is turned.
import { css, onColours } from "../../lib/colours.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../lib/html.js";
import { Button, Notice } from "../../ui/parts.js";
import { placed } from "./names.js";
import { palette } from "./palette.js";
import { Scene } from "./scene.js";

const POLE = 1.12; // where topics' names stand: a little outside
const TURN = 0.008; // radians a CSS pixel
const CLICK = 4; // CSS pixels that a click may wander
const KEYS = {
  ArrowLeft: (scene) => scene.rotate(-0.12, 0),
  ArrowRight: (scene) => scene.rotate(0.12, 0),
  ArrowUp: (scene) => scene.rotate(0, -0.12),
  ArrowDown: (scene) => scene.rotate(0, 0.12),
  "+": (scene) => scene.magnify(1.2),
  "=": (scene) => scene.magnify(1.2),
  "-": (scene) => scene.magnify(1 / 1.2),
};

/** Until the canvas loses its context, and again when it has it back. */
export function Cloud(props) {
  const [without, setWithout] = useState(null); // the canvas that has none: it is the one to hear of another
  if (without === null) {
    return html`<${Turning} ...${props} onLost=${setWithout} onRestored=${() => setWithout(null)} />`;
  }
  return html`<${Notice}>
    <p>
      WebGL2 is not available in this browser, so the cloud cannot be drawn. The search and the list of topics
      work without it.
    </p>
  </${Notice}>`;
}

function Turning({ atlas, lit, selected, onSelect, onHover, onLost, onRestored }) {
  const frame = useRef(null);
  const canvas = useRef(null);
  const names = useRef(null);
  const mark = useRef(null);
  const scene = useRef(null);
  const now = useRef({});
  now.current = { atlas, lit, selected };

  // A layout effect: the clean-up of the other kind comes after the elements are gone, and what runs by
  // itself would find none.
  useLayoutEffect(() => {
    const made = canvas.current;
    try {
      scene.current = new Scene(made);
    } catch {
      onLost(made);
      return undefined;
    }
    const load = () => paint(scene.current, now.current, names.current);
    scene.current.reload = load;
    const stop = onColours(load);
    const resized = new ResizeObserver(() => {
      const { clientWidth, clientHeight } = frame.current;
      scene.current.resize(clientWidth, clientHeight, devicePixelRatio || 1);
    });
    resized.observe(frame.current);
    const lost = (event) => {
      event.preventDefault(); // only then it comes back
      onLost(made);
    };
    made.addEventListener("webglcontextlost", lost);
    made.addEventListener("webglcontextrestored", onRestored);
    const wheel = (event) => {
      event.preventDefault();
      scene.current.magnify(Math.exp(-event.deltaY * 0.0012));
    };
    made.addEventListener("wheel", wheel, { passive: false });
    let handle = 0;
    const tick = () => {
      handle = requestAnimationFrame(tick);
      if (scene.current.draw()) label(scene.current, now.current, names.current, mark.current);
    };
    handle = requestAnimationFrame(tick);
    return () => {
      cancelAnimationFrame(handle);
      resized.disconnect();
      stop();
      made.removeEventListener("webglcontextlost", lost);
      scene.current.close();
    };
  }, []);
  useEffect(() => scene.current?.reload?.(), [atlas, lit, selected]);

  const drag = useRef(null);
  const place = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const onDown = (event) => {
    drag.current = { x: event.clientX, y: event.clientY, far: 0 };
    canvas.current.setPointerCapture(event.pointerId);
  };
  const onMove = (event) => {
    if (!drag.current) {
      onHover(scene.current.pick(...place(event)));
      return;
    }
    const { x, y, far } = drag.current;
    const [dx, dy] = [event.clientX - x, event.clientY - y];
    scene.current.rotate(dx * TURN, dy * TURN);
    drag.current = { x: event.clientX, y: event.clientY, far: far + Math.abs(dx) + Math.abs(dy) };
  };
  const onUp = (event) => {
    if (drag.current && drag.current.far <= CLICK) onSelect(scene.current.pick(...place(event)));
    drag.current = null;
  };
  const onKeyDown = (event) => {
    const act = KEYS[event.key];
    if (event.key === "Escape") onSelect(-1);
    else if (act && !event.altKey && !event.ctrlKey && !event.metaKey) act(scene.current);
    else return;
    event.preventDefault();
  };
  return html`<div class="atlas-frame" ref=${frame}>
    <canvas
      ref=${canvas}
      class="atlas-canvas"
      tabindex="0"
      role="application"
      aria-roledescription="cloud of experts"
      aria-label="Cloud of experts: arrow keys turn it, plus and minus zoom; the search finds experts"
      onPointerDown=${onDown}
      onPointerMove=${onMove}
      onPointerUp=${onUp}
      onPointerCancel=${() => (drag.current = null)}
      onPointerLeave=${() => onHover(-1)}
      onKeyDown=${onKeyDown}
    ></canvas>
    <div class="atlas-names" ref=${names} aria-hidden="true">
      ${atlas.topics.map((topic) => html`<span key=${topic.name}>${topic.name}</span>`)}
      <i class="atlas-mark" ref=${mark} hidden></i>
    </div>
    <div class="atlas-zoom">
      <${Button} icon="plus" label="Zoom in" bare onClick=${() => scene.current.magnify(1.25)} />
      <${Button} icon="minus" label="Zoom out" bare onClick=${() => scene.current.magnify(0.8)} />
    </div>
  </div>`;
}

/** Points: a specialist has its topic's colour, a generalist is grey; what was not asked for fades. */
function paint(scene, { atlas, lit }, names) {
  const colours = palette(atlas.topics);
  const n = atlas.experts.length;
  const places = new Float32Array(n * 3);
  const tints = new Float32Array(n * 4);
  const sizes = new Float32Array(n);
  const most = Math.max(1, ...atlas.experts.map((expert) => expert.selections));
  const crowd = Math.max(0.55, Math.min(1.6, Math.sqrt(900 / n)));
  atlas.experts.forEach((expert, i) => {
    places.set(expert.place, i * 3);
    const [r, g, b] = colours[expert.top];
    const out = lit === null || lit.has(i);
    const alpha = out ? (expert.specialist ? 0.95 : 0.5) : 0.07;
    tints.set([r / 255, g / 255, b / 255, alpha], i * 4);
    sizes[i] = crowd * ((expert.specialist ? 9 : 5) + 9 * Math.sqrt(expert.selections / most));
  });
  scene.load(places, tints, sizes);
  [...names.querySelectorAll("span")].forEach((span, t) => {
    span.style.color = `color-mix(in srgb, ${css(colours[t])} 60%, var(--text))`;
  });
}

function label(scene, { atlas, selected }, names, mark) {
  const room = { width: names.clientWidth, height: names.clientHeight };
  const zoom = names.nextElementSibling;
  const taken = [{ x: zoom.offsetLeft, y: zoom.offsetTop, width: zoom.offsetWidth, height: zoom.offsetHeight }];
  const spans = [...names.querySelectorAll("span")].map((span, t) => {
    return { span, seen: scene.project(...atlas.topics[t].pole.map((value) => value * POLE)) };
  });
  // The nearest first: it stands where it belongs, the others make way.
  spans.sort((a, b) => b.seen.z - a.seen.z);
  for (const { span, seen } of spans) {
    const size = { width: span.offsetWidth, height: span.offsetHeight };
    const place = placed(seen, size, room, taken);
    span.style.visibility = place ? "" : "hidden";
    if (!place) continue;
    taken.push(place);
    span.style.transform = `translate(${place.x}px, ${place.y}px)`;
    span.style.opacity = String(Math.max(0.6, Math.min(1, 0.8 + 0.3 * seen.z)));
  }
  mark.hidden = selected < 0;
  if (selected >= 0) {
    const seen = scene.project(...atlas.experts[selected].place);
    mark.style.transform = `translate(${seen.x}px, ${seen.y}px) translate(-50%, -50%)`;
  }
}
