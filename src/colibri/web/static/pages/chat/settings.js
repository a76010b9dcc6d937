// How answers are made: at the side of the conversation.
import { html } from "../../lib/html.js";
import { Button } from "../../ui/parts.js";
import { Drawer } from "../../ui/drawer.js";
import { NUMBERS, able, numberProblem, reset, set, settings, toolsProblem } from "./sampling.js";

/** over: it lies over the talk, and nothing else can be used until it is closed. */
export function Settings({ system, onSystem, onClose, over }) {
  const chosen = settings.value;
  const { thinking, efforts, tools } = able.value;
  return html`<${Drawer} label="Settings" name="settings" over=${over} onClose=${onClose}>
    <header class="row">
      <h2>Settings</h2><span class="spacer"></span>
      <${Button} kind="plain tiny" icon="close" label="Close settings" bare onClick=${onClose} />
    </header>
    <label class="field">
      <span class="label">System prompt</span>
      <textarea
        class="textarea"
        rows="4"
        placeholder="Instructions for the model in this conversation"
        value=${system}
        onInput=${(event) => onSystem(event.currentTarget.value)}
      ></textarea>
    </label>
    <p class="muted small">The settings below apply to every conversation. Leave one empty to use the default.</p>
    <div class="settings-numbers">${NUMBERS.map((number) => html`<${NumberField} key=${number.name} number=${number} />`)}</div>
    <label class="field">
      <span class="label">Stop sequences <small class="muted">one per line</small></span>
      <textarea class="textarea" rows="2" value=${chosen.stop ?? ""} onInput=${(event) => set("stop", event.currentTarget.value)}></textarea>
    </label>
    ${thinking && html`<${Choice} label="Thinking" name="thinking" options=${["on", "off"]} />`}
    ${efforts.length > 0 && html`<${Choice} label="Reasoning effort" name="effort" options=${efforts} />`}
    ${tools && html`<${ToolsField} />`}
    <label class="check">
      <input
        type="checkbox"
        checked=${chosen.probabilities !== false}
        onChange=${(event) => set("probabilities", event.currentTarget.checked)}
      />
      Request the probability of each token
    </label>
    <${Lacking} ...${able.value} />
    <div><${Button} label="Reset all settings" onClick=${reset} /></div>
  <//>`;
}

function Choice({ label, name, options }) {
  const value = options.includes(settings.value[name]) ? settings.value[name] : "";
  return html`<label class="field">
    <span class="label">${label}</span>
    <select class="select" value=${value} onChange=${(event) => set(name, event.currentTarget.value)}>
      <option value="">model default</option>
      ${options.map((option) => html`<option key=${option} value=${option}>${option}</option>`)}
    </select>
  </label>`;
}

/** What somebody may look for in vain. */
function Lacking({ thinking, efforts, tools }) {
  const missing = [!thinking && "switch for thinking", !efforts.length && "levels of reasoning effort", !tools && "tools"].filter(Boolean);
  if (!missing.length) return null;
  const last = missing.pop();
  return html`<p class="muted small">${`This model has no ${missing.length ? `${missing.join(", ")} or ` : ""}${last}.`}</p>`;
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
    <span class="label">Tools <small class="muted">JSON in OpenAI's format</small></span>
    <textarea class="textarea mono" rows="3" spellcheck="false" value=${text} aria-invalid=${problem !== null} onInput=${put}></textarea>
    ${problem && html`<span class="problem" role="alert">${problem}</span>`}
  </label>`;
}
