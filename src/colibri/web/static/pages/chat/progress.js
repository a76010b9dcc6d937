// What an answer is waiting for, or how fast it comes.
import { count, percent, plural, rate, remaining } from "../../lib/format.js";
import { html, useEffect, useState } from "../../lib/html.js";
import { Meter } from "../../ui/parts.js";

export function Progress({ live }) {
  const { phase, progress, stats } = live;
  if (phase === "prefill") return html`<${Prefill} ...${progress} />`;
  if (phase === "decoding") {
    const speed = stats.rate === undefined ? "" : `${rate(stats.rate)} tok/s`;
    return html`<p class="progress num"><span class="beat" aria-hidden="true"></span>${plural(live.generated, "token")} ${speed}</p>`;
  }
  if (phase === "retrying") return html`<${Retrying} ...${live} />`;
  const says = phase === "waiting" ? "Waiting in the queue" : "Sending";
  return html`<p class="progress" role="status"><span class="beat" aria-hidden="true"></span>${says}</p>`;
}

function Prefill({ tokens_done: done, tokens_total: total, eta_seconds: eta }) {
  const left = Number.isFinite(eta) ? `, about ${remaining(eta)} left` : "";
  return html`<div class="progress prefill" role="status">
    <span class="num">Reading the prompt: ${count(done)} of ${plural(total, "token")} (${percent(done / total, 0)})${left}</span>
    <${Meter} share=${done / total} label="Prompt read" />
  </div>`;
}

function Retrying({ why, retryAt }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, []);
  const left = Math.max(0, Math.ceil((retryAt - Date.now()) / 1_000));
  return html`<p class="progress" role="status">
    <span class="beat" aria-hidden="true"></span>${why}; <span aria-hidden="true">trying again in ${left} s</span>
  </p>`;
}
