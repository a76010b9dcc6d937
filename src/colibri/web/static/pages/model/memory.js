// The budget as one bar: what the plan gave to what, and what is used now.
import { bytes, percent } from "../../lib/format.js";
import { html } from "../../lib/html.js";

const COLOURS = ["--cat-8", "--cat-3", "--cat-5", "--cat-7", "--cat-4", "--cat-6", "--cat-2", "--cat-1"];

export function Memory({ plan, memory }) {
  const whole = Math.max(plan.budget_bytes, plan.peak_bytes, memory.peak_rss_bytes);
  const parts = plan.items.map((item, i) => ({ ...item, colour: `var(${COLOURS[i % COLOURS.length]})` }));
  return html`<section class="card padded" aria-label="Memory">
    <h2>Memory</h2>
    <div
      class="stacked tall"
      role="img"
      aria-label=${`Planned: ${parts.map((item) => `${item.name} ${bytes(item.bytes)}`).join(", ")}`}
    >
      ${parts.map(
        ({ name, bytes: nbytes, colour }) => html`<i
          key=${name}
          style=${{ width: `${(100 * nbytes) / whole}%`, background: colour }}
          title=${`${name}: ${bytes(nbytes)}`}
        ></i>`,
      )}
    </div>
    <div class="marks" aria-hidden="true">
      <span style=${{ width: `${(100 * memory.rss_bytes) / whole}%` }}></span>
    </div>
    <p class="small muted">
      ${`In use now ${bytes(memory.rss_bytes)}, at most so far ${bytes(memory.peak_rss_bytes)}; planned ${bytes(plan.peak_bytes)} of a budget of ${bytes(plan.budget_bytes)} (${plan.budget_reason}).`}
    </p>
    <table class="table">
      <caption class="sr-only">The plan's items</caption>
      <tbody>
        ${parts.map(
          ({ name, bytes: nbytes, reason, colour }) => html`<tr key=${name}>
            <th scope="row"><span class="phase-swatch" style=${{ background: colour }}></span>${name}</th>
            <td class="num">${bytes(nbytes)}</td>
            <td class="num muted">${percent(nbytes / plan.peak_bytes, 0)}</td>
            <td class="muted wide">${reason}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    ${plan.notes.map((note) => html`<p class="small muted">${note}</p>`)}
  </section>`;
}
