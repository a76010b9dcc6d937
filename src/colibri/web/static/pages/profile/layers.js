// A turn's time layer by layer.
import { percent, plural, seconds } from "../../lib/format.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { getJson } from "../../lib/api.js";
import { StackedBar } from "./phases.js";

const KINDS = ["decode", "prefill"];

/** stamp: changes when the turn's figures may have. */
export function Layers({ turn, stamp }) {
  const [layers, setLayers] = useState(null);
  const [failure, setFailure] = useState("");
  const [wanted, setKind] = useState("decode");
  const there = KINDS.filter((each) => turn[each].rows > 0);
  const kind = there.includes(wanted) ? wanted : there[0];
  useEffect(() => {
    const controller = new AbortController();
    getJson(`v1/colibri/profile?turn=${turn.turn}`, controller).then(
      (found) => {
        setLayers(found.layers);
        setFailure("");
      },
      (error) => error.name !== "AbortError" && setFailure(error.message),
    );
    return () => controller.abort();
  }, [turn.turn, stamp]);
  const rows = (layers ?? []).filter((layer) => layer[kind]);
  const sums = rows.map((row) => Object.values(row[kind].phases).reduce((a, b) => a + b, 0));
  const whole = Math.max(...sums, 1e-9);
  return html`<section class="card padded layers" aria-label="By layer">
    <div class="row">
      <h2>By layer</h2>
      <span class="spacer"></span>
      <label class="row small">
        <span class="sr-only">Steps</span>
        <select class="select" value=${kind} onChange=${(event) => setKind(event.target.value)}>
          ${there.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
        </select>
      </label>
    </div>
    ${failure && html`<p class="small muted" role="status">${failure}</p>`}
    <div class="layer-rows" role="list">
      ${rows.map((row, i) => {
        const { hits, misses, phases } = row[kind];
        const name = row.layer < 0 ? "outside" : `layer ${row.layer}`;
        return html`<div class="layer-row" role="listitem" key=${row.layer}>
          <span class="small num">${row.layer < 0 ? "outside" : row.layer}</span>
          <${StackedBar} phases=${phases} whole=${whole} label=${name} />
          <span class="small num">${seconds(sums[i])}</span>
          <span class="small num muted" title=${`${plural(hits, "hit")}, ${plural(misses, "miss", "misses")}`}>
            ${hits + misses ? `${percent(hits / (hits + misses), 0)} hits` : ""}
          </span>
        </div>`;
      })}
    </div>
  </section>`;
}
