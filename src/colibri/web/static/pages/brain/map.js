// The canvas with the map, what stands beside its rows, and how one moves about in it.
import { colour, css, onColours } from "../../lib/colours.js";
import { html, useLayoutEffect, useRef } from "../../lib/html.js";
import { Grid } from "./grid.js";
import { Player } from "./player.js";
import { TIERS } from "./state.js";

const GUTTER = 36; // CSS pixels for the layers' numbers
const AXIS = 18; // below the map, for what its directions mean
/** For how evenly a layer uses its experts: the column's width, where its scale begins, and marks on that. */
const STRIP = { room: 64, left: 12, marks: [[0, "0"], [0.5, "even"], [1, "1"]] };
const SLIM = { room: 40, left: 8, marks: [[0, "0"], [1, "1"]] }; // on a phone
const HEIGHT_SHARE = 0.72; // of the window
const NARROW = 520;
const NARROW_SHARE = 0.46; // on a phone the map leaves room for what it says of an expert
const ARROWS = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
  Home: [-1e6, 0],
  End: [1e6, 0],
  PageUp: [0, -8],
  PageDown: [0, 8],
};

/** view: a ref that gets {grid, player, fit}. */
export function ExpertMap({ state, view, onSelect, onHover }) {
  const frame = useRef(null);
  const cells = useRef(null);
  const canvas = useRef(null);
  const rows = useRef(null);
  const strip = useRef(null);
  const axis = useRef(null);

  // A layout effect: the clean-up of the other kind comes after the elements are gone, and what runs by
  // itself would find none.
  useLayoutEffect(() => {
    const grid = new Grid(cells.current, canvas.current, state, colours());
    const player = new Player(state, grid);
    let drawnBeside = -1;
    let strips = STRIP;
    const fit = () => {
      const narrow = frame.current.clientWidth <= NARROW;
      strips = narrow ? SLIM : STRIP;
      const width = frame.current.clientWidth - GUTTER - strips.room;
      if (width > 0) grid.resize(width, innerHeight * (narrow ? NARROW_SHARE : HEIGHT_SHARE), devicePixelRatio || 1);
      drawnBeside = -1;
    };
    view.current = { grid, player, fit };
    const resized = new ResizeObserver(fit);
    resized.observe(frame.current);
    const stop = onColours(() => {
      grid.retheme(colours());
      fit();
    });
    let handle = 0;
    const tick = (now) => {
      handle = requestAnimationFrame(tick);
      player.tick(now);
      grid.draw(now);
      if (drawnBeside !== state.version && grid.size) {
        drawRows(rows.current, state, grid);
        nameColumns(axis.current, grid);
        drawStrip(strip.current, state, grid, strips);
        drawnBeside = state.version;
      }
    };
    handle = requestAnimationFrame(tick);
    return () => {
      cancelAnimationFrame(handle);
      resized.disconnect();
      stop();
      view.current = null;
    };
  }, []);

  const pointed = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return view.current.grid.at(event.clientX - box.left, event.clientY - box.top);
  };
  const onKeyDown = (event) => {
    const { grid } = view.current;
    const arrow = ARROWS[event.key];
    if (event.key === "Escape") onSelect(-1);
    else if (arrow && !event.altKey && !event.ctrlKey && !event.metaKey) {
      onSelect(grid.beside(grid.cursor, ...arrow));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="brain-frame" ref=${frame}>
    <canvas ref=${rows} class="brain-rows" aria-hidden="true"></canvas>
    <div class="brain-map">
      <canvas ref=${cells} class="brain-cells" aria-hidden="true"></canvas>
      <canvas
        ref=${canvas}
        class="brain-canvas"
        tabindex="0"
        role="application"
        aria-roledescription="expert map"
        aria-label="Expert map: arrow keys move from expert to expert, p pauses, comma and full stop step"
        onPointerMove=${(event) => onHover(pointed(event))}
        onPointerLeave=${() => onHover(-1)}
        onPointerDown=${(event) => onSelect(pointed(event), false)}
        onKeyDown=${onKeyDown}
      ></canvas>
      <p class="brain-axis num" ref=${axis} aria-hidden="true"><span></span><span></span></p>
    </div>
    <canvas
      ref=${strip}
      class="brain-strip"
      role="img"
      aria-label="How evenly each layer uses its experts, from 0, one does all, to 1, all alike"
    ></canvas>
  </div>`;
}

function colours() {
  return {
    tiers: TIERS.map((tier) => colour(`--tier-${tier}`)),
    ground: colour("--surface"),
    flash: colour("--brain-flash"),
    pin: colour("--cat-5"),
    cursor: colour("--focus"),
  };
}

function prepared(canvas, width, height, ratio) {
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.clearRect(0, 0, width, height);
  pen.textBaseline = "middle";
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return pen;
}

/** The layers' numbers, as many as have room. */
function drawRows(canvas, state, grid) {
  const { lines, tall, height, ratio } = grid.size;
  const pen = prepared(canvas, GUTTER, height + AXIS, ratio);
  pen.fillStyle = css(colour("--text-3"));
  pen.textAlign = "right";
  const step = Math.max(1, Math.ceil(14 / (lines * tall)));
  state.layers.forEach(({ layer }, row) => {
    if (row % step === 0) pen.fillText(String(layer), GUTTER - 8, (row + 0.5) * lines * tall);
  });
  pen.fillText("layer", GUTTER - 8, height + AXIS / 2);
}

/** The first expert and the last of a line; of several lines a layer the first says how they go on. */
function nameColumns(axis, grid) {
  const { lines, columns } = grid.size;
  const [first, last] = axis.children;
  first.textContent = lines > 1 ? `expert 0, ${lines} rows per layer` : "expert 0";
  last.textContent = columns > 1 ? String(columns - 1) : "";
}

/** A bar a layer on a scale from 0 to 1. */
function drawStrip(canvas, state, grid, { room, left, marks }) {
  const { lines, tall, height, ratio } = grid.size;
  const pen = prepared(canvas, room, height + AXIS, ratio);
  const width = room - left - 2;
  pen.fillStyle = css(colour("--surface-3"));
  for (const [mark] of STRIP.marks) pen.fillRect(left + mark * width - 0.5, 0, 1, height);
  pen.fillStyle = css(colour("--text-3"));
  pen.textAlign = "center";
  for (const [mark, text] of marks) pen.fillText(text, Math.min(left + mark * width, room - 4), height + AXIS / 2);
  pen.fillStyle = css(colour("--accent"));
  state.evenness().forEach((value, row) => {
    if (value === null) return;
    const thick = Math.max(1, Math.min(6, lines * tall - 2));
    pen.fillRect(left, (row + 0.5) * lines * tall - thick / 2, value * width, thick);
  });
}
