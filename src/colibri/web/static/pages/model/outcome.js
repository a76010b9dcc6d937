// The plan held against what happened.
import { postJson } from "../../lib/api.js";
import { bytes, percent, rate } from "../../lib/format.js";
import { html, useState } from "../../lib/html.js";
import { Button, Notice } from "../../ui/parts.js";

const SHOWN = {
  bytes: (value) => bytes(Math.round(value)),
  share: (value) => percent(value),
  "tok/s": (value) => `${rate(value)} tok/s`,
};

export function Outcome({ model, onMeasured }) {
  const [running, setRunning] = useState(false);
  const [failure, setFailure] = useState("");
  const measure = async () => {
    setRunning(true);
    setFailure("");
    try {
      await postJson("v1/colibri/rates", {});
      onMeasured();
    } catch (error) {
      setFailure(error.message);
    } finally {
      setRunning(false);
    }
  };
  return html`<section class="card padded" aria-label="The plan and what happened">
    <div class="row">
      <h2>The plan, and what happened</h2>
      <span class="spacer"></span>
      <${Button}
        kind="tiny"
        label=${running ? "Measuring" : model.rates ? "Measure again" : "Measure this machine"}
        disabled=${running}
        onClick=${measure}
      />
    </div>
    <table class="table">
      <caption class="sr-only">Planned and measured</caption>
      <thead>
        <tr>
          <th scope="col"></th>
          <th scope="col" class="num">planned</th>
          <th scope="col" class="num">measured</th>
          <th scope="col" class="num"></th>
        </tr>
      </thead>
      <tbody>
        ${model.outcome.map(
          (row) => html`<tr key=${row.name}>
            <th scope="row">${row.name}${row.note && html`<small class="muted">${row.note}</small>`}</th>
            <td class="num">${shown(row, row.planned)}</td>
            <td class="num">${shown(row, row.measured)}</td>
            <td class="num">${deviation(row)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    <p class="small muted">
      ${model.rates ? ratesText(model.rates) : "Measure this machine to see a forecast of the speed: it takes about a second, while no answer is being made."}
      ${" Hits, bytes and speed are those of decode in the last turns."}
    </p>
    ${failure && html`<${Notice} kind="danger" role="alert"><p>${failure}</p></${Notice}>`}
  </section>`;
}

function shown(row, value) {
  return value === null ? "–" : SHOWN[row.unit](value);
}

function deviation(row) {
  if (row.deviation === null) return "";
  const rounded = Math.round(row.deviation * 100);
  const text = rounded === 0 ? "as planned" : `${rounded > 0 ? "+" : "−"}${percent(Math.abs(rounded) / 100, 0)}`;
  return html`<span class=${row.worse ? "badge warn" : "muted"}>${text}</span>`;
}

function ratesText({ bytes_per_second: found }) {
  const parts = Object.entries(found).filter(([, value]) => value !== null);
  return `Measured: ${parts.map(([name, value]) => `${name} ${bytes(value)}/s`).join(", ")}.`;
}
