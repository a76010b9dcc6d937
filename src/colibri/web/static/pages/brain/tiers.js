// How many experts lie where; also the map's legend.
import { bytes, count, percent } from "../../lib/format.js";
import { html } from "../../lib/html.js";
import { Meter } from "../../ui/parts.js";

const NAMES = {
  disk: "on disk",
  ram: "in memory",
  vram: "on the GPU",
  remote: "on other machines",
};

export function tierName(tier) {
  return NAMES[tier];
}

/** What colours and marks of the map mean. */
function Scales({ pinned }) {
  return html`<dl class="scales small" aria-label="Scales of the map">
    <dt><span class="scale-heat"></span></dt>
    <dd class="row"><span>never used</span><span class="spacer"></span><span>used most</span></dd>
    <dt><span class="swatch flash"></span></dt>
    <dd>flash: selected just now</dd>
    ${pinned > 0 && html`<dt><span class="swatch pin"></span></dt><dd>${`${count(pinned)} pinned (outlined)`}</dd>`}
    <dt class="scale-bars"><span class="scale-evenness"></span></dt>
    <dd class="scale-bars">bar beside a layer: how evenly it uses its experts; 0: one does all, 1: all alike</dd>
  </dl>`;
}

export function Tiers({ state }) {
  const { tiers, pinned } = state.counts();
  return html`<section class="card padded tiers" aria-label="Experts by tier">
    <h2>Where the experts are</h2>
    ${tiers.map(
      ({ tier, experts, bytes: nbytes }) => html`<div class="tier" key=${tier}>
        <div class="row">
          <span class=${`swatch ${tier}`}></span>
          <span>${NAMES[tier]}</span>
          <span class="spacer"></span>
          <span class="num">${count(experts)}</span>
          <span class="num muted">${bytes(nbytes)}</span>
        </div>
        <${Meter}
          share=${state.size ? experts / state.size : 0}
          color=${`var(--tier-${tier})`}
          label=${`${NAMES[tier]}: ${percent(state.size ? experts / state.size : 0, 0)} of the experts`}
        />
      </div>`,
    )}
    <${Scales} pinned=${pinned} />
  </section>`;
}
