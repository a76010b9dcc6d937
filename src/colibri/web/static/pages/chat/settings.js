// How answers are made: at the side of the conversation.
import { html } from "../../lib/html.js";
import { Button } from "../../ui/parts.js";
import { NUMBERS, numberProblem, reset, set, settings, toolsProblem } from "./sampling.js";

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

export function Settings({ system, onSystem, onClose }) {
  const chosen = settings.value;
  return html`<aside class="settings" aria-label="Settings">
    <header class="row">
      <h2>Settings</h2><span class="spacer"></span>
      <${Button} kind="plain tiny" icon="close" label="Close settings" bare onClick=${onClose} />
    </header>
    <label class="field">
      <span class="label">System prompt</span>
      <textarea
        class="textarea"
        rows="4"
        placeholder="Of this conversation"
        value=${system}
        onInput=${(event) => onSystem(event.currentTarget.value)}
      ></textarea>
    </label>
    <p class="muted small">What stays empty is the server's or the model's own choice. The rest is for every conversation.</p>
    <div class="settings-numbers">${NUMBERS.map((number) => html`<${NumberField} key=${number.name} number=${number} />`)}</div>
    <label class="field">
      <span class="label">Stop before <small class="muted">one text a line</small></span>
      <textarea class="textarea" rows="2" value=${chosen.stop ?? ""} onInput=${(event) => set("stop", event.currentTarget.value)}></textarea>
    </label>
    <label class="field">
      <span class="label">Thinking</span>
      <select class="select" value=${chosen.thinking ?? ""} onChange=${(event) => set("thinking", event.currentTarget.value)}>
        <option value="">as the model has it</option>
        <option value="on">on</option>
        <option value="off">off</option>
      </select>
    </label>
    <label class="field">
      <span class="label">Reasoning effort</span>
      <select class="select" value=${chosen.effort ?? ""} onChange=${(event) => set("effort", event.currentTarget.value)}>
        <option value="">as the model has it</option>
        ${EFFORTS.map((effort) => html`<option key=${effort} value=${effort}>${effort}</option>`)}
      </select>
    </label>
    <${ToolsField} />
    <label class="check">
      <input
        type="checkbox"
        checked=${chosen.probabilities !== false}
        onChange=${(event) => set("probabilities", event.currentTarget.checked)}
      />
      Ask for the probability of each token
    </label>
    <div><${Button} label="All as at first" onClick=${reset} /></div>
  </aside>`;
}

function NumberField({ number }) {
  const text = settings.value[number.name] ?? "";
  const problem = numberProblem(number, text);
  return html`<label class="field" title=${number.hint}>
    <span class="label">${number.label}</span>
    <input
      class="input num"
      inputmode="decimal"
      placeholder="default"
      value=${text}
      aria-invalid=${problem !== null}
      onInput=${(event) => set(number.name, event.currentTarget.value.trim())}
    />
    ${problem && html`<span class="problem" role="alert">${problem}</span>`}
  </label>`;
}

function ToolsField() {
  const text = settings.value.tools ?? "";
  const problem = toolsProblem(text);
  const put = (event) => set("tools", event.currentTarget.value);
  return html`<label class="field">
    <span class="label">Tools <small class="muted">JSON, as OpenAI's API takes them</small></span>
    <textarea class="textarea mono" rows="3" spellcheck="false" value=${text} aria-invalid=${problem !== null} onInput=${put}></textarea>
    ${problem && html`<span class="problem" role="alert">${problem}</span>`}
  </label>`;
}
