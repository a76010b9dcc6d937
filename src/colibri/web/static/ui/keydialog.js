// Asks for the API key of a server that wants one.
import { apiKey, keyWanted } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import { Dialog, Notice } from "./parts.js";

export function KeyDialog() {
  const [text, setText] = useState("");
  const wanted = keyWanted.value;
  const submit = (event) => {
    event.preventDefault();
    if (!text.trim()) return;
    keyWanted.value = null;
    // The same key again shall be tried again.
    apiKey.value = null;
    apiKey.value = text.trim();
    setText("");
  };
  return html`<${Dialog} open=${wanted !== null} onClose=${() => (keyWanted.value = null)} title="API key">
    <p class="muted small">
      This server requires the key that it was started with (--api-key or COLI_API_KEY). The key stays in
      this tab and is forgotten when the tab is closed.
    </p>
    <form class="dialog-form" onSubmit=${submit}>
      ${wanted === "wrong" && html`<${Notice} kind="danger" role="alert">That key is not correct.<//>`}
      <label class="field">
        <span class="label">Key</span>
        <input
          class="input"
          type="password"
          autocomplete="off"
          autofocus
          value=${text}
          onInput=${(event) => setText(event.currentTarget.value)}
        />
      </label>
      <div class="row end"><button class="button primary">Connect</button></div>
    </form>
  <//>`;
}
