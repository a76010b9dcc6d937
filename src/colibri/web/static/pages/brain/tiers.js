// How many experts lie where.
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

export function Tiers({ state }) {
  const { tiers } = state.counts();
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
  </section>`;
}
