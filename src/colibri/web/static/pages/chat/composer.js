// Where a message is written.
import { html, useEffect, useLayoutEffect, useRef } from "../../lib/html.js";
import { count, plural } from "../../lib/format.js";
import { isComposing, isEnter } from "../../lib/keys.js";
import { Button } from "../../ui/parts.js";
import { settingsProblem } from "./sampling.js";
import { drafts, setDraft } from "./store.js";

/** place: the conversation's id, "" of a new one. used, context: tokens, or null. */
export function Composer({ place, busy, onSend, onStop, used, context }) {
  const ref = useRef(null);
  const text = drafts.value[place] ?? "";
  const problem = settingsProblem();
  const setText = (next) => setDraft(place, next);
  useEffect(() => {
    if (matchMedia("(pointer: fine)").matches) ref.current.focus({ preventScroll: true });
  }, [place]);
  useLayoutEffect(() => {
    const area = ref.current;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight * 0.4)}px`;
  }, [text]);
  const send = () => {
    if (busy || problem || !text.trim()) return;
    setText("");
    onSend(text);
  };
  const onKeyDown = (event) => {
    if (isEnter(event)) {
      event.preventDefault();
      send();
    }
    if (event.key === "Escape" && busy && !isComposing(event)) onStop();
  };
  return html`<div class="composer">
    <div class="composer-box">
      <textarea
        ref=${ref}
        rows="1"
        aria-label="Message"
        placeholder="Write a message"
        value=${text}
        onInput=${(event) => setText(event.currentTarget.value)}
        onKeyDown=${onKeyDown}
      ></textarea>
      ${
        busy
          ? html`<${Button} kind="primary" icon="stop" label="Stop" bare onClick=${onStop} />`
          : html`<${Button} kind="primary" icon="send" label="Send" bare disabled=${problem !== null || !text.trim()} onClick=${send} />`
      }
    </div>
    ${problem && html`<p class="problem" role="alert">${`This cannot be sent because a setting is not valid. ${problem}.`}</p>`}
    <p class="composer-foot">
      <span class="keys"><kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> starts a new line</span><span class="spacer"></span>
      ${used !== null && context !== null && html`<span class="num">${count(used)} of ${plural(context, "token")} of context</span>`}
    </p>
  </div>`;
}
