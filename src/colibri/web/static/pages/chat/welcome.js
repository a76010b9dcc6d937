// A conversation in which nothing was said yet.
import { html } from "../../lib/html.js";
import { model } from "../../lib/live.js";
import { mute } from "../../ui/mute.js";
import * as store from "./store.js";

const EXAMPLES = [
  "Tell me a story about a fox.",
  "What is 17 times 24? Show each step.",
  "Write a Python function that reverses a string.",
  "Explain in three sentences why the sky is blue.",
];

/** For the embedded model, which was taught little: it answers these. */
const ITS_OWN = [
  "Tell me a story about a fox.",
  "What is the capital of France?",
  "Why is the sky blue?",
  "Write a JavaScript function that adds two numbers.",
];

export function Welcome({ place }) {
  const served = model.value;
  const able = served !== null && mute.value === null;
  return html`<div class="welcome">
    <img src=${new URL("../../icon.svg", import.meta.url).href} alt="" onError=${(event) => (event.currentTarget.hidden = true)} />
    <p class="welcome-title">${able ? `Talk with ${served.id}` : (served?.id ?? "colibri")}</p>
    <p class="muted">The model runs on this server and nowhere else. Conversations stay in this browser.</p>
    ${able && html`<${Examples} texts=${served.embedded ? ITS_OWN : EXAMPLES} place=${place} />`}
  </div>`;
}

function Examples({ texts, place }) {
  const take = (text) => {
    store.setDraft(place, text);
    document.querySelector(".composer textarea")?.focus();
  };
  return html`<ul class="examples" aria-label="Example prompts">
    ${texts.map(
      (text) => html`<li key=${text}><button type="button" class="button" onClick=${() => take(text)}>${text}</button></li>`,
    )}
  </ul>`;
}
