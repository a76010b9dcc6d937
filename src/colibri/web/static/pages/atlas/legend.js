// The topics, their colours and how many specialists each has; a click shows those alone.
import { css, onColours } from "../../lib/colours.js";
import { plural } from "../../lib/format.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { palette } from "./palette.js";

export function Legend({ atlas, topic, onTopic }) {
  const [colours, setColours] = useState(() => palette(atlas.topics));
  useEffect(() => onColours(() => setColours(palette(atlas.topics))), [atlas]);
  const special = atlas.topics.map(
    (_, t) => atlas.experts.filter((expert) => expert.specialist && expert.top === t).length,
  );
  return html`<section class="card padded legend" aria-label="Topics">
    <h2>Topics</h2>
    ${atlas.topics.map(
      ({ name, tokens }, t) => html`<button
        key=${name}
        type="button"
        class="legend-row"
        aria-pressed=${topic === t}
        title=${`${plural(tokens, "token")} read`}
        onClick=${() => onTopic(topic === t ? -1 : t)}
      >
        <span class="dot-swatch" style=${{ background: css(colours[t]) }}></span>
        <span>${name}</span>
        <span class="spacer"></span>
        <span class="num muted small">${plural(special[t], "specialist")}</span>
      </button>`,
    )}
  </section>`;
}
