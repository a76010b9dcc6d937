// One message of a conversation, with what can be done to it.
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { count, plural, rate, seconds } from "../../lib/format.js";
import { isComposing, isEnter } from "../../lib/keys.js";
import { Icon } from "../../ui/icons.js";
import { mute } from "../../ui/mute.js";
import { Button, CopyButton, Notice } from "../../ui/parts.js";
import { liveOf } from "./generate.js";
import { Progress } from "./progress.js";
import { Text } from "./text.js";
import { Calls, Result } from "./calls.js";
import { siblings } from "./tree.js";

/** act: {edit(node, text), again(node), choose(node, id), answer(node, results)}. there: another tab
 * answers this conversation. */
export function Message({ node, conversation, act, shaded, busy, there, last }) {
  if (node.role === "tool") return html`<${Result} node=${node} />`;
  if (node.role === "user") return html`<${User} ...${{ node, conversation, act, busy }} />`;
  return html`<${Assistant} ...${{ node, conversation, act, shaded, busy, written: there && last, last }} />`;
}

function User({ node, conversation, act, busy }) {
  const [editing, setEditing] = useState(false);
  return html`<article class="message user" aria-label="You">
    ${
      editing
        ? html`<${Editor}
            text=${node.content}
            onCancel=${() => setEditing(false)}
            onSend=${(text) => {
              setEditing(false);
              act.edit(node, text);
            }}
            busy=${busy || mute.value !== null}
          />`
        : html`<div class="bubble">${node.content}</div>`
    }
    ${
      !editing &&
      html`<div class="actions">
        <${Branches} ...${{ node, conversation, act, busy }} />
        <${CopyButton} text=${node.content} />
        <${Button} kind="plain tiny" icon="edit" label="Edit" bare onClick=${() => setEditing(true)} />
      </div>`
    }
  </article>`;
}

function Editor({ text, onCancel, onSend, busy }) {
  const ref = useRef(null);
  useEffect(() => {
    ref.current.focus();
    ref.current.setSelectionRange(text.length, text.length);
  }, []);
  const send = () => ref.current.value.trim() && onSend(ref.current.value);
  const onKeyDown = (event) => {
    if (event.key === "Escape" && !isComposing(event)) onCancel();
    if (isEnter(event)) {
      event.preventDefault();
      if (!busy) send();
    }
  };
  return html`<div class="editor">
    <textarea
      class="textarea"
      rows=${Math.min(12, text.split("\n").length + 1)}
      aria-label="Edit the message"
      ref=${ref}
      defaultValue=${text}
      onKeyDown=${onKeyDown}
    ></textarea>
    <div class="row end">
      <span class="muted small">The first version is kept as a branch.</span><span class="spacer"></span>
      <${Button} label="Cancel" onClick=${onCancel} />
      <${Button} kind="primary" label="Send" disabled=${busy} onClick=${send} />
    </div>
  </div>`;
}

/** written: in another tab, just now; what is here of it was kept on the way. */
function Assistant({ node, conversation, act, shaded, busy, written, last }) {
  const live = liveOf(node.id)?.value ?? null;
  const whole = live === null && !written;
  const shown = live ?? node;
  const content = shown.content ?? "";
  const calls = shown.calls ?? [];
  const still = busy || mute.value !== null; // nothing can be asked now
  return html`<article class="message assistant" aria-label="Model" aria-busy=${!whole}>
    ${shown.reasoning && html`<${Thinking} text=${shown.reasoning} going=${live !== null && !content} />`}
    ${content && html`<${Text} content=${content} tokens=${shown.tokens ?? []} shaded=${shaded} />`}
    ${
      calls.length > 0 &&
      html`<${Calls} calls=${calls} open=${whole && last} onAnswer=${(results) => act.answer(node, results)} busy=${still} />`
    }
    ${live && html`<${Progress} live=${live} />`}
    ${
      written &&
      html`<p class="progress" role="status"><span class="beat" aria-hidden="true"></span>Being written in another tab</p>`
    }
    ${whole && html`<${Ending} node=${node} act=${act} busy=${still} />`}
    ${whole && node.notice && html`<p class="told muted small">Note: ${node.notice}</p>`}
    ${
      whole &&
      html`<div class="actions">
        <${Branches} ...${{ node, conversation, act, busy }} />
        <${CopyButton} text=${content} />
        <${Button} kind="plain tiny" icon="retry" label="Answer again" bare disabled=${still} onClick=${() => act.again(node)} />
        <${Stats} stats=${node.stats} />
      </div>`
    }
  </article>`;
}

function Thinking({ text, going }) {
  const words = text.trim().split(/\s+/).length;
  return html`<details class="thinking">
    <summary>
      <${Icon} name="think" />
      <span>${going ? "Thinking" : "Thought"}</span><span class="muted num">${plural(words, "word")}</span>
    </summary>
    <div class="thinking-text">${text.trim()}</div>
  </details>`;
}

const TOO_LONG = "context_length_exceeded"; // the API's code

const ENDINGS = {
  length: ["warn", "Truncated", "The answer reached the maximum length, which can be raised in the settings."],
  stopped: ["", "Stopped", "The answer was stopped before it was finished."],
};

function Ending({ node, act, busy }) {
  if (node.finish === "error" && node.code === TOO_LONG) {
    // The same again would end the same.
    return html`<${Notice} kind="danger" role="alert">
      <span title=${node.error}>The conversation is longer than the model's context. Edit a message to shorten it, or </span>
      <a href="#/chat">start a new conversation</a>.
    <//>`;
  }
  if (node.finish === "error") {
    return html`<${Notice} kind="danger" role="alert">
      ${node.error || "The answer failed."}${" "}
      ${mute.value === null && html`<${Button} kind="tiny" label="Try again" disabled=${busy} onClick=${() => act.again(node)} />`}
    <//>`;
  }
  const [kind, label, says] = ENDINGS[node.finish] ?? [];
  if (!label) return null;
  return html`<span class=${`badge ${kind}`} title=${says}>${label}</span><span class="sr-only">${says}</span>`;
}

function Stats({ stats }) {
  if (!stats || stats.ttft === undefined) return null;
  const parts = [];
  if (stats.rate !== undefined) parts.push(`${rate(stats.rate)} tok/s`);
  else if (stats.overall !== undefined) parts.push(`${rate(stats.overall)} tok/s overall`);
  parts.push(`first token ${seconds(stats.ttft)}`);
  if (stats.completion !== undefined) parts.push(plural(stats.completion, "token"));
  const prompt =
    stats.prompt === undefined ? "" : `prompt: ${plural(stats.prompt, "token")}, ${count(stats.cached)} of them from the cache`;
  return html`<span class="stats num" title=${prompt}>
    ${parts.map((part, index) => html`${index > 0 && html`<span aria-hidden="true"> · </span>`}<span>${part}</span>`)}
  </span>`;
}

function Branches({ node, conversation, act, busy }) {
  const { index, ids } = siblings(conversation, node);
  if (ids.length < 2) return null;
  const to = (next) => () => act.choose(node, ids[next]);
  return html`<span class="branches" role="group" aria-label="Versions">
    <${Button} kind="plain tiny" icon="left" label="Earlier version" bare disabled=${busy || index === 0} onClick=${to(index - 1)} />
    <span class="num small">${index + 1} / ${ids.length}</span>
    <${Button} kind="plain tiny" icon="right" label="Later version" bare disabled=${busy || index === ids.length - 1} onClick=${to(index + 1)} />
  </span>`;
}
