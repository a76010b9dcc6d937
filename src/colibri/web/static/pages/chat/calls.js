// Tool calls that a model made, and the results a person gives it.
import { html, useState } from "../../lib/html.js";
import { Icon } from "../../ui/icons.js";
import { Button, CopyButton } from "../../ui/parts.js";

/** open: results are asked for. onAnswer(results): texts, one a call. */
export function Calls({ calls, open, onAnswer, busy }) {
  const [results, setResults] = useState(() => calls.map(() => ""));
  const put = (index, text) => setResults(results.map((old, i) => (i === index ? text : old)));
  return html`<div class="calls">
    ${calls.map(
      (call, index) => html`<section class="call" key=${call.id} aria-label=${`Tool call: ${call.name}`}>
        <header>
          <${Icon} name="tool" /><code>${call.name}</code><span class="spacer"></span>
          <${CopyButton} text=${call.arguments} label="Copy arguments" />
        </header>
        <pre tabindex="0">${pretty(call.arguments)}</pre>
        ${
          open &&
          html`<label class="field">
            <span class="label">Result</span>
            <textarea
              class="textarea"
              rows="2"
              placeholder="The result of the tool, for the model to continue with"
              value=${results[index] ?? ""}
              onInput=${(event) => put(index, event.currentTarget.value)}
            ></textarea>
          </label>`
        }
      </section>`,
    )}
    ${
      open &&
      html`<div class="row end">
        <${Button} kind="primary" label="Send results" disabled=${busy} onClick=${() => onAnswer(calls.map((_, i) => results[i] ?? ""))} />
      </div>`
    }
  </div>`;
}

export function Result({ node }) {
  return html`<article class="message tool" aria-label="Tool result">
    <section class="call">
      <header><${Icon} name="tool" /><span>Result</span></header>
      <pre tabindex="0">${pretty(node.content)}</pre>
    </section>
  </article>`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
