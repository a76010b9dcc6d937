// One expert of the atlas in words, and what the search found.
import { count, percent, plural, significant } from "../../lib/format.js";
import { html } from "../../lib/html.js";
import { Company, NoExpert, Topics } from "./facts.js";

const MOST_LISTED = 12;

export function Expert({ atlas, index, onSelect }) {
  if (index < 0) {
    return html`<${NoExpert} touch="Tap a dot, or search." mouse="Point at a dot, click it, or search." />`;
  }
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
    `${expert.specialist ? "A specialist" : "A generalist"}. Its topics are spread by ` +
    `${significant(expert.entropy)} (0: one topic, 1: all alike), measured on ${plural(expert.selections, "selection")}.`
  );
}

/** hits: places of the experts that the text speaks of, specialists first. */
export function Found({ atlas, text, hits, selected, onSelect }) {
  const more = hits.length - MOST_LISTED;
  return html`<section class="card padded details" aria-label="Found">
    <h2>${hits.length ? `Found ${count(hits.length)}` : "Nothing found"}</h2>
    ${
      hits.length === 0 &&
      html`<p class="small muted" role="status">
        ${`No expert for “${text}”. Look for a topic, a token that stands with an expert, or a place such as 3/17.`}
      </p>`
    }
    <ul class="found">
      ${hits.slice(0, MOST_LISTED).map((index) => {
        const { layer, expert } = atlas.experts[index];
        const [{ name, share }] = atlas.topicsOf(index, 1);
        return html`<li key=${index}>
          <button class="found-row" type="button" aria-pressed=${index === selected} onClick=${() => onSelect(index)}>
            <span>${`layer ${layer}, expert ${expert}`}</span><span class="spacer"></span>
            <span class="muted num">${`${name} ${percent(share, 0)}`}</span>
          </button>
        </li>`;
      })}
    </ul>
    ${more > 0 && html`<p class="small muted">${`and ${count(more)} more`}</p>`}
  </section>`;
}
