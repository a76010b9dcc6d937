// What is known of all experts, fed by the events of /v1/colibri/routing (docs/watching.md).
// Experts stand layer after layer in flat arrays; nothing here touches the page.

export const TIERS = ["disk", "ram", "vram", "remote"];
const KEPT_STEPS = 4096;
const NEVER = -1;

export function bytes(base64) {
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
  return found;
}

/** Indices of the bits that are set; bit i % 8 of byte i / 8 is expert i's. */
export function indices(bits) {
  const found = [];
  for (let at = 0; at < bits.length; at++) {
    for (let byte = bits[at]; byte; byte &= byte - 1) {
      found.push(at * 8 + (31 - Math.clz32(byte & -byte)));
    }
  }
  return found;
}

export class BrainState {
  constructor() {
    this.clear();
  }

  clear() {
    this.run = "";
    this.layers = []; // {layer, experts, slots, slot_bytes, start}
    this.size = 0;
    this.tier = new Uint8Array(0);
    this.pinned = new Uint8Array(0);
    this.heat = new Uint8Array(0); // round(heatSteps * log2(1 + heat))
    this.ago = new Int32Array(0); // tokens since the last selection when told; -1: never
    this.heatSteps = 12;
    this.seen = new Int32Array(0); // the step in which an expert fired last, as far as watched
    this.steps = []; // the last ones, oldest first: {step, turn, prefill, rows, seconds, bits}
    this.skipped = 0;
    this.evictions = 0;
    this.expertsPerToken = 0;
    this.version = 0; // changes with what the map shows
  }

  /** Takes an event in; the steps that are new. */
  apply(name, data) {
    if (name === "experts") this.#begin(data);
    if (name !== "experts" && name !== "steps") return [];
    if (!this.size && name === "steps") return [];
    if (data.resident !== undefined) this.#place("ram", data.resident);
    if (data.vram !== undefined) this.#place("vram", data.vram);
    if (data.remote !== undefined) this.#place("remote", data.remote);
    if (data.pinned !== undefined) this.#mark(data.pinned);
    if (data.heat !== undefined) this.heat = bytes(data.heat);
    if (data.ago !== undefined) {
      const raw = bytes(data.ago);
      this.ago = new Int32Array(raw.buffer, 0, raw.length >> 2);
    }
    if (data.evictions !== undefined) this.evictions = data.evictions;
    this.skipped += data.skipped || 0;
    this.version++;
    return this.#keep(data.steps || []);
  }

  #begin(data) {
    const goesOn = data.run === this.run && this.size > 0;
    const steps = goesOn ? this.steps : [];
    const seen = this.seen;
    if (!goesOn) this.clear();
    this.run = data.run;
    this.layers = [];
    this.size = 0;
    for (const layer of data.layers) {
      this.layers.push({ ...layer, start: this.size });
      this.size += layer.experts;
    }
    this.steps = steps;
    this.seen = goesOn && seen.length === this.size ? seen : new Int32Array(this.size).fill(NEVER);
    this.tier = new Uint8Array(this.size);
    this.pinned = new Uint8Array(this.size);
    this.heat = new Uint8Array(this.size);
    this.ago = new Int32Array(this.size).fill(NEVER);
    this.heatSteps = data.heat_steps || 12;
    this.expertsPerToken = data.experts_per_token || 0;
  }

  #place(tier, base64) {
    const code = TIERS.indexOf(tier);
    for (let i = 0; i < this.size; i++) if (this.tier[i] === code) this.tier[i] = 0;
    for (const i of indices(bytes(base64))) if (i < this.size) this.tier[i] = code;
  }

  #mark(base64) {
    this.pinned.fill(0);
    for (const i of indices(bytes(base64))) if (i < this.size) this.pinned[i] = 1;
  }

  #keep(told) {
    const last = this.steps.length ? this.steps[this.steps.length - 1].step : -1;
    const found = [];
    for (const { fired, ...facts } of told) {
      if (facts.step <= last) continue;
      const step = { ...facts, fired: indices(bytes(fired)).filter((i) => i < this.size) };
      for (const i of step.fired) this.seen[i] = step.step;
      found.push(step);
    }
    this.steps.push(...found);
    if (this.steps.length > KEPT_STEPS) this.steps.splice(0, this.steps.length - KEPT_STEPS);
    return found;
  }

  /** {layer, expert} of a place in the flat arrays. */
  locate(index) {
    let low = 0;
    let high = this.layers.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.layers[middle].start <= index) low = middle;
      else high = middle - 1;
    }
    const found = this.layers[low];
    return { row: low, layer: found.layer, expert: index - found.start };
  }

  /** About how often it was selected, late selections counting more. */
  heatOf(index) {
    return 2 ** (this.heat[index] / this.heatSteps) - 1;
  }

  tierOf(index) {
    return TIERS[this.tier[index]];
  }

  /** [{tier, experts, bytes}] of those that hold any, and how many are pinned. */
  counts() {
    const experts = TIERS.map(() => 0);
    const nbytes = TIERS.map(() => 0);
    let pinned = 0;
    for (const layer of this.layers) {
      for (let i = layer.start; i < layer.start + layer.experts; i++) {
        experts[this.tier[i]]++;
        nbytes[this.tier[i]] += layer.slot_bytes;
        pinned += this.pinned[i];
      }
    }
    const tiers = TIERS.map((tier, t) => ({ tier, experts: experts[t], bytes: nbytes[t] }));
    return { tiers: tiers.filter((t) => t.experts || t.tier === "disk" || t.tier === "ram"), pinned };
  }

  /** Of each layer from 0 (one expert does all) to 1 (all are used alike): entropy of the heat. */
  evenness() {
    return this.layers.map(({ start, experts }) => {
      let total = 0;
      for (let i = start; i < start + experts; i++) total += this.heatOf(i);
      if (!total || experts < 2) return null;
      let sum = 0;
      for (let i = start; i < start + experts; i++) {
        const share = this.heatOf(i) / total;
        if (share > 0) sum -= share * Math.log(share);
      }
      return sum / Math.log(experts);
    });
  }

  /** The kept steps of the turn that a kept step belongs to: [first, last] in `steps`. */
  turnAround(at) {
    const turn = this.steps[at].turn;
    let first = at;
    let last = at;
    while (first > 0 && this.steps[first - 1].turn === turn) first--;
    while (last + 1 < this.steps.length && this.steps[last + 1].turn === turn) last++;
    return [first, last];
  }
}
