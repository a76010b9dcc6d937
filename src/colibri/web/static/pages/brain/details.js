// One expert in words.
import { plural, significant } from "../../lib/format.js";
import { html } from "../../lib/html.js";
import { Company, NoExpert, Topics } from "../atlas/facts.js";
import { tierName } from "./tiers.js";

export function Details({ state, atlas, index, onSelect }) {
  if (index < 0 || index >= state.size) return html`<${NoExpert} touch="Tap a cell." mouse="Point at a cell, click it, or move with the arrow keys." />`;
  const { layer, expert } = state.locate(index);
  const known = atlas?.index(layer, expert) ?? -1;
  return html`<section class="card padded details" aria-label="Expert">
    <h2>Layer ${layer}, expert ${expert}</h2>
    <dl class="facts">
      <dt>location</dt>
      <dd><span class=${`swatch ${state.tierOf(index)}`}></span> ${tierText(state, index)}</dd>
      <dt>heat</dt>
      <dd>${heatText(state, index)}</dd>
      <dt>last used</dt>
      <dd>${lastText(state, index)}</dd>
    </dl>
    ${known >= 0 ? html`<${InAtlas} ...${{ atlas, known, state, onSelect }} />` : null}
    ${
      known < 0
        ? html`<p class="small muted">
            ${!atlas && html`Its topics are not known because this model has no atlas yet: see <a href="#/atlas">Atlas</a>.`}
          </p>`
        : null
    }
  </section>`;
}

function InAtlas({ atlas, known, state, onSelect }) {
  const facts = atlas.experts[known];
  const go = (other) => {
    const found = state.layers.find((each) => each.layer === facts.layer);
    onSelect(found.start + other);
  };
  return html`<h3>${facts.specialist ? `Specialist: ${atlas.topics[facts.top].name}` : "Generalist"}</h3>
    <${Topics} topics=${atlas.topicsOf(known)} />
    <p class="small muted">
      Its topics are spread by ${significant(facts.entropy)} (0: one topic, 1: all alike), measured on ${plural(facts.selections, "selection")}.
    </p>
    <${Company} expert=${facts} onSelect=${go} />
    <p class="small"><a href=${`#/atlas/${facts.layer}.${facts.expert}`}>Show it in the atlas</a></p>`;
}

/** For a screen reader. */
export function describe(state, atlas, index) {
  const { layer, expert } = state.locate(index);
  const known = atlas?.index(layer, expert) ?? -1;
  const topic = known >= 0 ? `, most for ${atlas.topicsOf(known, 1)[0].name}` : "";
  return (
    `Layer ${layer}, expert ${expert}: ${tierText(state, index)}, heat ${heatText(state, index)}, ` +
    `last used ${lastText(state, index)}${topic}`
  );
}

function tierText(state, index) {
  const name = tierName(state.tierOf(index));
  return state.pinned[index] ? `${name}, pinned` : name;
}

function heatText(state, index) {
  return state.heat[index] ? `${significant(state.heatOf(index))} selections` : "none";
}

function lastText(state, index) {
  const { steps, seen, ago } = state;
  if (seen[index] >= 0 && steps.length) {
    const past = steps[steps.length - 1].step - seen[index];
    return past === 0 ? "in the last step" : `${plural(past, "step")} ago`;
  }
  if (ago[index] < 0) return "not since the model was loaded";
  return ago[index] === 0 ? "by the last token" : `${plural(ago[index], "token")} ago`;
}
