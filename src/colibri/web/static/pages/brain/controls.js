// Pause, and step through what was kept.
import { count, plural, seconds } from "../../lib/format.js";
import { html } from "../../lib/html.js";
import { Button } from "../../ui/parts.js";

export function Controls({ state, paused, at, onToggle, onShow }) {
  const { steps } = state;
  const step = paused && at >= 0 ? steps[Math.min(at, steps.length - 1)] : null;
  const [first, last] = step ? state.turnAround(Math.min(at, steps.length - 1)) : [0, 0];
  return html`<div class="brain-controls" role="group" aria-label="Time">
    <${Button}
      icon=${paused ? "play" : "pause"}
      label=${paused ? "Live" : "Pause"}
      aria-pressed=${paused}
      onClick=${onToggle}
    />
    <${Button}
      icon="left"
      label="Step back"
      bare
      disabled=${!paused || at <= 0}
      onClick=${() => onShow(at - 1)}
    />
    <${Button}
      icon="right"
      label="Step forward"
      bare
      disabled=${!paused || at >= steps.length - 1}
      onClick=${() => onShow(at + 1)}
    />
    ${
      step
        ? html`<input
              type="range"
              class="brain-slider"
              aria-label="Step of this turn"
              aria-valuetext=${stepText(step, at - first, last - first)}
              min=${first}
              max=${last}
              value=${at}
              onInput=${(event) => onShow(Number(event.target.value))}
            />
            <span class="small muted num">${stepText(step, at - first, last - first)}</span>`
        : html`<span class="small muted num">${paused ? pausedText(steps) : liveText(state)}</span>`
    }
  </div>`;
}

function stepText(step, place, last) {
  const kind = step.prefill ? `reads ${plural(step.rows, "token")}` : `token ${count(place)}`;
  return (
    `turn ${step.turn}, step ${place + 1} of ${last + 1}: ${kind}, ` +
    `${plural(step.fired.length, "expert")}, ${seconds(step.seconds)}`
  );
}

/** Paused before anything was kept. */
function pausedText(steps) {
  return steps.length ? `Paused. ${plural(steps.length, "step")} since then.` : "Paused. Nothing has happened yet.";
}

function liveText(state) {
  const { steps } = state;
  if (!steps.length) return "Live. Experts light up when the model reads or writes.";
  const last = steps[steps.length - 1];
  const turn = steps.filter((step) => step.turn === last.turn);
  const missed = state.skipped ? `, ${plural(state.skipped, "step")} came too fast to be shown` : "";
  return `Live: turn ${last.turn}, ${plural(turn.length, "step")}, ${plural(state.evictions, "eviction")}${missed}`;
}
