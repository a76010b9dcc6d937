// One expert of the atlas in words; or what the search found.
import { count, percent, significant } from "../../lib/format.js";
import { html } from "../../lib/html.js";
import { Company, Topics } from "./facts.js";

const MOST_LISTED = 12;

export function Expert({ atlas, index, found, onSelect }) {
  if (index < 0) return html`<${Found} ...${{ atlas, found, onSelect }} />`;
  const expert = atlas.experts[index];
  return html`<section class="card padded details" aria-label="Expert">
    <h2>Layer ${expert.layer}, expert ${expert.expert}</h2>
    <p class="small muted">
      ${kind(expert)}
    </p>
    <${Topics} topics=${atlas.topicsOf(index, atlas.topics.length)} />
    <${Company} expert=${expert} onSelect=${(other) => onSelect(atlas.index(expert.layer, other))} />
    <p class="small"><a href=${`#/brain/${expert.layer}.${expert.expert}`}>Show it in Brain</a></p>
  </section>`;
}

function kind(expert) {
  return (
    `${expert.specialist ? "A specialist" : "A generalist"}: spread over topics ` +
    `${significant(expert.entropy)} of 1, from ${count(expert.selections)} selections`
  );
}

function Found({ atlas, found, onSelect }) {
  return html`<section class="card padded details" aria-label="Expert">
    <h2>${found.length ? `Found ${count(found.length)}` : "An expert"}</h2>
    ${
      found.length
        ? html`<ul class="found">
            ${found.slice(0, MOST_LISTED).map((index) => {
              const { layer, expert } = atlas.experts[index];
              const [{ name, share }] = atlas.topicsOf(index, 1);
              return html`<li key=${index}>
                <button class="button tiny" type="button" onClick=${() => onSelect(index)}>
                  layer ${layer}, expert ${expert}: ${name} ${percent(share, 0)}
                </button>
              </li>`;
            })}
          </ul>`
        : html`<p class="small muted">Point at a dot, click it, or search.</p>`
    }
  </section>`;
}
