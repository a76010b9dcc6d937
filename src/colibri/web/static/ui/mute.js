// A model that can hold no conversation: why, and what it can do instead.
import { computed, html } from "../lib/html.js";
import { model } from "../lib/live.js";
import { Notice } from "./parts.js";

/** null, as long as nothing is known to be missing; else what is: "tokenizer" or "template". */
export const mute = computed(() => {
  const { text = true, chat = true } = model.value?.capabilities ?? {};
  if (!text) return "tokenizer";
  return chat ? null : "template";
});

export function Mute() {
  if (mute.value === "tokenizer") {
    return html`<${Notice} kind="warn" role="status">
      This model has no tokenizer (tokenizer.json), so text can be neither read nor written. With token ids it works:
      ${" "}<code>coli run --model PATH --ids "1 2 3"</code>, where PATH is the model’s directory.
    <//>`;
  }
  return html`<${Notice} kind="warn" role="status">
    This model has no chat template (chat_template.jinja), so it takes no conversation. It can go on with a
    text: <code>coli run --model PATH "text"</code>, where PATH is the model’s directory.
  <//>`;
}
