// Plays steps that come in bunches as if they came one by one; or stands still at one of them.

const AHEAD_MS = 240; // over which a bunch is spread: a little more than lies between two
const MOST_WAITING = 2000;
const CALM = { strength: 0.5, fadeMs: 1500 }; // for those who want no flicker: half as bright, and slow

export class Player {
  constructor(state, grid) {
    this.state = state;
    this.grid = grid;
    this.waiting = []; // {at, step}
    this.paused = false;
    this.at = -1; // in state.steps, while paused
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
  }

  add(steps, now) {
    if (this.paused) return;
    const start = Math.max(now, this.waiting.length ? this.waiting[this.waiting.length - 1].at : 0);
    const room = Math.max(now + AHEAD_MS - start, 0);
    this.#pace(steps);
    steps.forEach((step, i) => {
      this.waiting.push({ at: start + (room * i) / steps.length, step });
    });
    if (this.waiting.length > MOST_WAITING) this.waiting.splice(0, this.waiting.length - MOST_WAITING);
  }

  #pace(steps) {
    const decoded = steps.filter((step) => !step.prefill);
    if (!decoded.length) return;
    const seconds = decoded.reduce((sum, step) => sum + step.seconds, 0) / decoded.length;
    const fired = decoded.reduce((sum, step) => sum + step.fired.length, 0) / decoded.length;
    if (this.calm.matches) this.grid.flashMs = CALM.fadeMs;
    else this.grid.pace(seconds * 1000, fired / this.state.size);
  }

  /** Fires what is due. */
  tick(now) {
    let due = 0;
    while (due < this.waiting.length && this.waiting[due].at <= now) {
      this.grid.fire(this.waiting[due].step.fired, this.calm.matches ? CALM.strength : 1);
      due++;
    }
    if (due) this.waiting.splice(0, due);
    return due > 0;
  }

  pause() {
    this.paused = true;
    this.waiting = [];
    this.show(this.state.steps.length - 1);
  }

  resume() {
    this.paused = false;
    this.at = -1;
    this.grid.frozen = false;
    this.grid.unlight();
  }

  /** Stands at a kept step, by its place; null: there is none. */
  show(at) {
    const { steps } = this.state;
    this.grid.frozen = true;
    this.grid.unlight();
    if (!steps.length) return null;
    this.at = Math.max(0, Math.min(steps.length - 1, at));
    this.grid.fire(steps[this.at].fired);
    return steps[this.at];
  }
}
