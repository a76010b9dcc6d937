// What an atlas says of an expert, for the pages that show one.
import { percent, visible } from "../../lib/format.js";
import { html } from "../../lib/html.js";
import { useTouch } from "../../lib/media.js";
import { Meter } from "../../ui/parts.js";

/** Where no expert is chosen: how one is, with a finger or with a mouse. */
export function NoExpert({ touch, mouse }) {
  return html`<section class="card padded details" aria-label="Expert">
    <h2>An expert</h2>
    <p class="small muted">${useTouch() ? touch : mouse}</p>
  </section>`;
}

/** topics: [{name, share}]. */
export function Topics({ topics }) {
  return topics.map(
    ({ name, share }) => html`<div class="topic" key=${name}>
      <div class="row small">
        <span>${name}</span><span class="spacer"></span><span class="num">${percent(share, 0)}</span>
      </div>
      <${Meter} share=${share} label=${`${name}: ${percent(share, 0)}`} />
    </div>`,
  );
}

/** Its strongest tokens, and the experts of its layer that are selected with it; onSelect: of one of those. */
export function Company({ expert, onSelect }) {
  const { tokens, neighbours } = expert;
  return html`${
    tokens.length
      ? html`<p class="small">
          strongest tokens ${tokens.map((token) => html`<code class="token">${visible(token)}</code> `)}
        </p>`
      : null
  }
  ${
    neighbours.length
      ? html`<p class="small">
          often selected with
          ${neighbours.map(
            (other) => html` <button class="button tiny" type="button" onClick=${() => onSelect(other)}>
                expert ${other}
              </button>`,
          )}
        </p>`
      : null
  }`;
}
