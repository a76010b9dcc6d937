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

export function Tiers({ state }) {
  const { tiers, pinned } = state.counts();
  return html`<section class="card padded tiers" aria-label="Experts by tier">
    <h2>Where they lie</h2>
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
    <p class="small muted">
      ${pinned ? `${count(pinned)} pinned (outlined). ` : ""}Strong colour: used often. A flash: selected
      just now. Beside the map: how evenly a layer uses its experts, 0 to 1.
    </p>
  </section>`;
}
