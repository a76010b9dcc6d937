// One step, phase after phase, as it went.
import { plural, seconds } from "../../lib/format.js";
import { html } from "../../lib/html.js";
import { COLOUR, PHASES } from "./phases.js";

const NAMES = new Map(PHASES.map(({ id, name }) => [id, name]));

export function StepTimeline({ step }) {
  if (!step) return null;
  const scale = 1000 / step.seconds;
  return html`<section class="card padded" aria-label="The last sampled step">
    <h2>One step of decode</h2>
    <svg
      class="timeline"
      viewBox="0 0 1000 40"
      preserveAspectRatio="none"
      role="img"
      aria-label=${`A step of ${seconds(step.seconds)} in ${plural(step.spans.length, "phase")}; in red: waiting for the disk`}
    >
      ${step.spans.map(([phase, layer, begin, wall, , wait], i) => {
        const x = begin * scale;
        return html`<g key=${i}>
          <rect x=${x} y="0" width=${wall * scale} height="28" style=${{ fill: COLOUR.get(phase) ?? COLOUR.get("python") }}>
            <title>${`${layer < 0 ? "" : `layer ${layer}, `}${NAMES.get(phase) ?? phase}: ${seconds(wall)}`}</title>
          </rect>
          ${wait > 0 && html`<rect x=${x} y="30" width=${wait * scale} height="10" style=${{ fill: COLOUR.get("expert_wait") }} />`}
        </g>`;
      })}
    </svg>
    <p class="small muted">It took ${seconds(step.seconds)}. The lower bar shows where it waited for the disk.</p>
  </section>`;
}
