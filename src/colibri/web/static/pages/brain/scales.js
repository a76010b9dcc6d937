// What the colours and marks of the map mean.
import { count } from "../../lib/format.js";
import { html } from "../../lib/html.js";

export function Scales({ state }) {
  const { pinned } = state.counts();
  return html`<dl class="scales small" aria-label="Scales of the map">
    <div><dt><span class="scale-heat"></span></dt><dd>never to most used</dd></div>
    <div><dt><span class="swatch flash"></span></dt><dd>flash: just selected</dd></div>
    ${pinned > 0 && html`<div><dt><span class="swatch pin"></span></dt><dd>${`${count(pinned)} pinned (outlined)`}</dd></div>`}
    <div title="0: one expert does all, 1: all alike">
      <dt><span class="scale-evenness"></span></dt><dd>bar: how evenly a layer uses its experts</dd>
    </div>
  </dl>`;
}
