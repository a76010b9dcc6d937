// The phases of a step: names, colours, and bars made of them.
import { percent, seconds } from "../../lib/format.js";
import { html } from "../../lib/html.js";

/** In the order in which they are drawn: what waits first. */
export const PHASES = [
  { id: "expert_wait", name: "read wait", colour: "--cat-2" },
  { id: "expert_matmul", name: "expert matmul", colour: "--cat-1" },
  { id: "shared_expert", name: "shared expert", colour: "--cat-6" },
  { id: "attention", name: "attention", colour: "--cat-3" },
  { id: "dense", name: "dense", colour: "--cat-7" },
  { id: "route", name: "routing", colour: "--cat-4" },
  { id: "head", name: "head", colour: "--cat-5" },
  { id: "sampling", name: "sampling", colour: "--cat-8" },
  { id: "python", name: "Python", colour: "--line-strong" },
  { id: "between", name: "between steps", colour: "--surface-3" },
];

export const COLOUR = new Map(PHASES.map(({ id, colour }) => [id, `var(${colour})`]));
COLOUR.set("experts", COLOUR.get("expert_matmul"));
COLOUR.set("other", COLOUR.get("python"));

/** phases: seconds by id; whole: what the full width is. */
export function StackedBar({ phases, whole, label }) {
  const text = PHASES.filter(({ id }) => phases[id] > 0)
    .map(({ id, name }) => `${name} ${seconds(phases[id])}`)
    .join(", ");
  return html`<span class="stacked" role="img" aria-label=${`${label}: ${text || "nothing"}`}>
    ${PHASES.map(({ id, name }) => {
      const share = whole > 0 ? (phases[id] ?? 0) / whole : 0;
      return share > 0.0005
        ? html`<i
            key=${id}
            style=${{ width: `${share * 100}%`, background: COLOUR.get(id) }}
            title=${`${name}: ${seconds(phases[id])}`}
          ></i>`
        : null;
    })}
  </span>`;
}

export function PhaseLegend() {
  return html`<ul class="phase-legend" aria-label="Phases">
    ${PHASES.map(
      ({ id, name }) => html`<li key=${id}>
        <span class="phase-swatch" style=${{ background: COLOUR.get(id) }}></span>${name}
      </li>`,
    )}
  </ul>`;
}

/** phases of prefill and decode beside each other. */
export function PhaseTable({ turn }) {
  const kinds = ["prefill", "decode"];
  return html`<table class="table">
    <caption class="sr-only">Seconds by phase</caption>
    <thead>
      <tr>
        <th scope="col">phase</th>
        ${kinds.map((kind) => html`<th scope="col" class="num" colspan="2">${kind}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${PHASES.filter(({ id }) => id !== "between").map(
        ({ id, name }) => html`<tr key=${id}>
          <th scope="row">
            <span class="phase-swatch" style=${{ background: COLOUR.get(id) }}></span>${name}
          </th>
          ${kinds.map((kind) => {
            const { phases, seconds: whole } = turn[kind];
            return html`<td class="num">${whole ? seconds(phases[id]) : "–"}</td>
              <td class="num muted">${whole ? percent(phases[id] / whole, 0) : ""}</td>`;
          })}
        </tr>`,
      )}
      <tr class="total">
        <th scope="row">steps in all</th>
        ${kinds.map((kind) => html`<td class="num">${turn[kind].seconds ? seconds(turn[kind].seconds) : "–"}</td><td></td>`)}
      </tr>
    </tbody>
  </table>`;
}
