// What runs and what waits, live.
import { count, percent, plural, rate, seconds } from "../../lib/format.js";
import { html } from "../../lib/html.js";
import { status } from "../../lib/live.js";
import { Meter } from "../../ui/parts.js";

export function Requests() {
  const now = status.value;
  if (!now) return null;
  const { running, waiting, kept_tokens: kept, context } = now;
  const held = running.reduce((sum, each) => sum + each.prompt_tokens + each.new_tokens, 0);
  return html`<section class="card padded" aria-label="Requests">
    <div class="row">
      <h2>Requests</h2>
      <span class="spacer"></span>
      <span class="badge">${count(running.length)} running</span>
      <span class=${`badge ${waiting ? "warn" : ""}`}>${count(waiting)} in the queue</span>
    </div>
    ${running.map(
      (each, i) => html`<div class="request" key=${i}>
        <div class="row small num">
          <span>${stage(each)}</span><span class="spacer"></span><span class="muted">${seconds(each.seconds)}</span>
        </div>
        <${Meter} share=${each.read_tokens / Math.max(each.prompt_tokens, 1)} label="prompt read" />
      </div>`,
    )}
    ${running.length === 0 && html`<p class="small muted">No request is running.</p>`}
    <div class="row small"><span>context taken</span><span class="spacer"></span>
      <span class="num">${`${count(held + kept)} of ${plural(context, "token")}`}</span>
    </div>
    <${Meter} share=${(held + kept) / context} label=${`context: ${percent((held + kept) / context, 0)}`} />
    ${kept > 0 && html`<p class="small muted">${`${count(held)} by running requests, ${count(kept)} kept for prompts that begin the same way`}</p>`}
  </section>`;
}

function stage(each) {
  if (each.read_tokens < each.prompt_tokens) {
    return `reads ${count(each.read_tokens)} of ${plural(each.prompt_tokens, "token")}`;
  }
  return `${plural(each.new_tokens, "token")} written, ${rate(each.new_tokens / each.seconds)} tok/s including the prompt`;
}
