// Draws the expert map: a pixel an expert on a small canvas, which the browser enlarges without
// smoothing, so that a frame costs little however many experts there are. Lines, pins and the cursor
// lie on another canvas over it, which is drawn only when one of them changes.
import { css } from "../../lib/colours.js";

const SMALLEST = 4; // CSS pixels a cell is wide before a layer goes on in another line
const LARGEST = 56;
const WORTH_A_LINE = 1.15; // so much larger have cells to be
const FLASH_MS = [70, 420]; // in which a flash fades to a third: at least and at most
const DIM = 0.18; // strength of the colour of an expert that was never used
const FAINT = 0.34; // of the one that was used least
const SPREAD = 24; // heat's bytes between that one and the strongest at least: a factor of four

/** How the map lies in so much room: lines a layer takes, cells a line has, and a cell's size. A layer
 * has one line, or as many as make cells larger: a small model's are large enough for a finger. */
export function layout(layers, width, height) {
  const most = Math.max(1, ...layers.map((layer) => layer.experts));
  let best = inLines(1, most, layers.length, width, height);
  for (let lines = 2; lines <= most; lines++) {
    const found = inLines(lines, most, layers.length, width, height);
    const larger = most % lines === 0 && found.size > WORTH_A_LINE * best.size;
    if (larger || best.cell < SMALLEST) best = found;
  }
  return best;
}

function inLines(lines, most, layers, width, height) {
  const columns = Math.ceil(most / lines);
  const rows = Math.max(1, layers * lines);
  // Quarters of a pixel: of many small cells whole ones would leave a wide margin.
  const cell = Math.max(1, Math.min(Math.floor((4 * width) / columns) / 4, LARGEST));
  const fitting = Math.floor(height / rows);
  const tall = Math.max(SMALLEST, Math.min(fitting, Math.round(cell * 1.6), LARGEST));
  const size = Math.min(cell, tall);
  return { lines, columns, rows, cell, tall, size, width: columns * cell, height: rows * tall };
}

export class Grid {
  /** cells: the small canvas; over: the one that covers it. */
  constructor(cells, over, state, colours) {
    this.cells = cells;
    this.over = over;
    this.state = state;
    // Not in step with the rest of the page: where that is drawn without a GPU, twice the frames.
    this.small = cells.getContext("2d", { alpha: false, desynchronized: true });
    this.pen = over.getContext("2d");
    this.pins = [];
    this.marked = "";
    this.cursor = -1;
    this.hover = -1;
    this.flash = new Float32Array(0);
    this.flashMs = FLASH_MS[1];
    this.frozen = false; // flashes stay as they are: a paused turn
    this.lit = false;
    this.drawn = -1;
    this.then = 0;
    this.retheme(colours);
  }

  retheme(colours) {
    this.colours = colours;
    this.heat = null;
    this.drawn = -1;
    this.size = null;
  }

  /** The colour of each tier and heat: from the least used expert of this model to the most used. */
  #scale(heat) {
    const { tiers, ground } = this.colours;
    const used = heat.filter((value) => value > 0);
    const high = used.reduce((a, b) => Math.max(a, b), 0);
    const low = Math.min(
      used.reduce((a, b) => Math.min(a, b), 255),
      high - SPREAD,
    );
    this.table = new Uint32Array(tiers.length * 256);
    tiers.forEach((colour, tier) => {
      for (let value = 0; value < 256; value++) {
        const place = Math.max(0, Math.min(1, (value - low) / (high - low)));
        const strength = value ? FAINT + (1 - FAINT) * place : DIM;
        this.table[tier * 256 + value] = packed(mixed(ground, colour, strength));
      }
    });
    this.heat = heat;
  }

  /** For so many CSS pixels of room. */
  resize(width, height, ratio) {
    const { state } = this;
    const size = layout(state.layers, width, height);
    this.size = { ...size, ratio };
    this.places = new Int32Array(state.size); // of each expert in the small image
    this.experts = new Int32Array(size.columns * size.rows).fill(-1);
    state.layers.forEach((layer, row) => {
      for (let e = 0; e < layer.experts; e++) {
        const y = row * size.lines + Math.floor(e / size.columns);
        const at = y * size.columns + (e % size.columns);
        this.places[layer.start + e] = at;
        this.experts[at] = layer.start + e;
      }
    });
    this.cells.width = size.columns;
    this.cells.height = size.rows;
    this.pixels = this.small.createImageData(size.columns, size.rows);
    this.words = new Uint32Array(this.pixels.data.buffer);
    this.words.fill(packed(this.colours.ground));
    if (this.flash.length !== state.size) this.flash = new Float32Array(state.size);
    this.over.width = Math.round(size.width * ratio);
    this.over.height = Math.round(size.height * ratio);
    for (const { style } of [this.cells, this.over]) {
      style.width = `${size.width}px`;
      style.height = `${size.height}px`;
    }
    this.drawn = -1;
    this.marked = "";
  }

  /** These experts fired. */
  fire(indices, strength = 1) {
    for (const i of indices) this.flash[i] = strength;
    this.lit = true;
  }

  /** Steps come so fast: flashes of a fast model are short, or all would be alight all the time. */
  pace(stepMs, share) {
    const wanted = (0.3 * stepMs) / Math.max(share, 1e-3);
    this.flashMs = Math.max(FLASH_MS[0], Math.min(FLASH_MS[1], wanted));
  }

  unlight() {
    this.flash.fill(0);
    this.lit = true;
  }

  /** One frame; now in milliseconds. Whether anything was drawn. */
  draw(now) {
    if (!this.size || !this.state.size) return false;
    const fade = this.frozen ? 1 : Math.exp(-Math.max(0, now - this.then) / this.flashMs);
    this.then = now;
    this.#mark();
    if (!this.lit && this.drawn === this.state.version) return false;
    this.#colour(fade);
    this.small.putImageData(this.pixels, 0, 0);
    this.drawn = this.state.version;
    return true;
  }

  /** Lines, pins and cursor, if they are other than before. */
  #mark() {
    if (this.drawn !== this.state.version) this.#listPins();
    const marked = `${this.hover} ${this.cursor} ${this.pins.join()}`;
    if (marked === this.marked) return;
    this.marked = marked;
    this.pen.clearRect(0, 0, this.over.width, this.over.height);
    this.#drawLines();
    for (const i of this.pins) this.#outline(i, this.colours.pin, 1);
    if (this.hover >= 0) this.#outline(this.hover, this.colours.cursor, 1);
    if (this.cursor >= 0) this.#outline(this.cursor, this.colours.cursor, 2);
  }

  #colour(fade) {
    const { tier, heat, size } = this.state;
    if (heat !== this.heat) this.#scale(heat);
    const { table, words, places, flash } = this;
    const [fr, fg, fb] = this.colours.flash;
    let lit = false;
    for (let i = 0; i < size; i++) {
      let colour = table[(tier[i] << 8) | heat[i]];
      let f = flash[i];
      if (f > 0) {
        const r = colour & 255;
        const g = (colour >> 8) & 255;
        const b = (colour >> 16) & 255;
        colour =
          (0xff000000 |
            ((b + (fb - b) * f) << 16) |
            ((g + (fg - g) * f) << 8) |
            (r + (fr - r) * f)) >>>
          0;
        f *= fade;
        flash[i] = f < 0.02 ? 0 : f;
        lit = lit || flash[i] > 0;
      }
      words[places[i]] = colour;
    }
    this.lit = lit && !this.frozen;
  }

  #drawLines() {
    const { columns, rows, lines, cell, tall, ratio } = this.size;
    const { pen } = this;
    pen.fillStyle = css(this.colours.ground);
    if (cell >= 3) {
      for (let x = 1; x <= columns; x++) pen.fillRect(Math.round(x * cell * ratio) - 1, 0, 1, 1e5);
    }
    for (let y = 1; y <= rows; y++) {
      const thick = y % lines === 0 && lines > 1 && y < rows ? Math.max(2, Math.round(tall * ratio * 0.16)) : 1;
      if (tall >= 3) pen.fillRect(0, Math.round(y * tall * ratio) - thick, 1e5, thick);
    }
  }

  #listPins() {
    this.pins = [];
    for (let i = 0; i < this.state.size; i++) if (this.state.pinned[i]) this.pins.push(i);
  }

  #outline(index, colour, thick) {
    const { columns, cell, tall, ratio } = this.size;
    const x = (this.places[index] % columns) * cell * ratio;
    const y = Math.floor(this.places[index] / columns) * tall * ratio;
    this.pen.strokeStyle = css(colour);
    this.pen.lineWidth = thick * ratio;
    const inset = (thick * ratio) / 2;
    const grow = thick > 1 ? thick * ratio : 0;
    this.pen.strokeRect(
      x + inset - grow,
      y + inset - grow,
      cell * ratio - 2 * inset + 2 * grow,
      tall * ratio - 2 * inset + 2 * grow,
    );
  }

  /** The expert at CSS pixels of the canvas, or -1. */
  at(x, y) {
    if (!this.size) return -1;
    const { columns, rows, cell, tall } = this.size;
    const column = Math.floor(x / cell);
    const row = Math.floor(y / tall);
    if (column < 0 || row < 0 || column >= columns || row >= rows) return -1;
    return this.experts[row * columns + column];
  }

  /** The expert that an arrow leads to: sideways through its layer, up and down from line to line. */
  beside(index, dx, dy) {
    if (!this.size || !this.state.size) return -1;
    if (index < 0) return 0;
    if (dy === 0) {
      const { start, experts } = this.state.layers[this.state.locate(index).row];
      return Math.max(start, Math.min(start + experts - 1, index + dx));
    }
    const { columns, rows } = this.size;
    const at = this.places[index];
    let x = at % columns;
    const y = Math.max(0, Math.min(rows - 1, Math.floor(at / columns) + dy));
    while (x > 0 && this.experts[y * columns + x] < 0) x--;
    return this.experts[y * columns + x];
  }
}

function mixed(from, to, share) {
  return from.map((value, i) => Math.round(value + (to[i] - value) * share));
}

function packed([r, g, b]) {
  return (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
}
