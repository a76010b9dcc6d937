// All conversations of this browser.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../lib/html.js";
import { when } from "../../lib/format.js";
import { navigate } from "../../lib/router.js";
import { Icon } from "../../ui/icons.js";
import { Button, Dialog, Notice, download } from "../../ui/parts.js";
import { MOST_BYTES, conversationsOf } from "./check.js";
import { stopIn } from "./generate.js";
import * as store from "./store.js";
import { busy, elsewhere } from "./tabs.js";
import { isIn } from "./tree.js";

/** open: it lies over the talk, where there is no room beside it. onLeave: without a choice. */
export function List({ current, open, onPick, onLeave }) {
  const ref = useRef(null);
  useLayoutEffect(() => {
    if (open) ref.current.querySelector("a").focus();
  }, [open]);
  const onKeyDown = (event) => open && deleting === null && renaming === null && event.key === "Escape" && onLeave();
  const [deleting, setDeleting] = useState(null);
  const [renaming, setRenaming] = useState(null);
  const [text, setText] = useState("");
  const found = useSearch(text);
  const heads = store.heads.value.filter((head) => found === null || found.has(head.id));
  const remove = async () => {
    const { id } = deleting;
    setDeleting(null);
    stopIn(id);
    await store.remove(id);
    if (id === current) navigate("chat", "", { replace: true });
  };
  return html`<aside class="conversations" aria-label="Conversations" ref=${ref} onKeyDown=${onKeyDown}>
    <div class="row">
      <a class="button primary new" href="#/chat" onClick=${onPick}>New conversation</a>
    </div>
    ${store.unkept.value && html`<${Notice} kind="warn" role="alert">${store.unkept.value}<//>`}
    <label class="search">
      <${Icon} name="search" /><span class="sr-only">Search conversations</span>
      <input
        type="search"
        class="input"
        placeholder="Search conversations"
        value=${text}
        onInput=${(event) => setText(event.currentTarget.value)}
      />
    </label>
    <ul class="heads">
      ${heads.map(
        (head) => html`<li key=${head.id} class=${head.id === current ? "current" : ""}>
          <a href=${`#/chat/${head.id}`} onClick=${onPick} aria-current=${head.id === current ? "true" : undefined}>
            <span class="head-title">${head.title || "Untitled"}</span>
            <${Mark} head=${head} />
          </a>
          <${Button} kind="plain tiny" icon="edit" label=${`Rename ${head.title || "Untitled"}`} bare onClick=${() => setRenaming(head)} />
          <${Button} kind="plain tiny" icon="trash" label=${`Delete ${head.title || "Untitled"}`} bare onClick=${() => setDeleting(head)} />
        </li>`,
      )}
      ${heads.length === 0 && html`<li class="muted small none"><span role="status">${found === null ? "There are no conversations yet." : `No conversation contains “${text.trim()}”.`}</span></li>`}
    </ul>
    <${Files} />
    <${Dialog} open=${deleting !== null} onClose=${() => setDeleting(null)} title="Delete this conversation?">
      <p class="muted">${deleting?.title || "Untitled"}</p>
      <div class="row end">
        <${Button} label="Keep it" onClick=${() => setDeleting(null)} />
        <${Button} kind="danger" icon="trash" label="Delete" onClick=${remove} />
      </div>
    <//>
    <${Rename} head=${renaming} onClose=${() => setRenaming(null)} />
  </aside>`;
}

function Mark({ head: { id, updated } }) {
  const there = elsewhere.value.has(id);
  if (!there && !busy.value.has(id)) return html`<span class="head-when num">${when(updated)}</span>`;
  const says = `being answered${there ? " in another tab" : ""}`;
  return html`<span class=${`beat ${there ? "there" : ""}`} title=${`${says[0].toUpperCase()}${says.slice(1)}`}></span
    ><span class="sr-only">${says}</span>`;
}

function Rename({ head, onClose }) {
  const [title, setTitle] = useState("");
  useLayoutEffect(() => setTitle(head?.title ?? ""), [head]);
  const submit = (event) => {
    event.preventDefault();
    if (!title.trim()) return;
    store.rename(head.id, title.trim());
    onClose();
  };
  return html`<${Dialog} open=${head !== null} onClose=${onClose} title="Rename this conversation">
    <form class="dialog-form" onSubmit=${submit}>
      <label class="field">
        <span class="label">Title</span>
        <input class="input" autofocus maxlength="120" value=${title} onInput=${(event) => setTitle(event.currentTarget.value)} />
      </label>
      <div class="row end">
        <${Button} label="Cancel" onClick=${onClose} />
        <button class="button primary" disabled=${!title.trim()}>Rename</button>
      </div>
    </form>
  <//>`;
}

const SEARCH_MS = 150; // after the last key

/** Ids of what was found, or null: nothing is looked for. */
function useSearch(text) {
  const [found, setFound] = useState(null);
  const wanted = text.trim();
  const list = store.heads.value;
  useEffect(() => {
    let current = true;
    if (wanted === "") {
      setFound(null);
      return undefined;
    }
    const timer = setTimeout(() => store.search(wanted).then((ids) => current && setFound(ids)), SEARCH_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [wanted, list]);
  return found;
}

function Files() {
  const input = useRef(null);
  const [said, setSaid] = useState(null);
  const take = async (event) => {
    const [file] = event.currentTarget.files;
    event.currentTarget.value = "";
    if (!file) return;
    try {
      if (file.size > MOST_BYTES) throw new Error("more than 64 MB");
      const found = conversationsOf(await file.text());
      const here = await store.everything();
      let added = 0;
      for (const one of found) {
        if (here.some((other) => isIn(one, other))) continue;
        here.push(one);
        store.add(one);
        added += 1;
      }
      await store.saveAll(); // what is said to be here outlives a reload
      const twice = found.length - added;
      setSaid({ kind: "", text: `${added} imported${twice ? `, ${twice} already here` : ""}` });
    } catch (error) {
      setSaid({ kind: "danger", text: `${file.name}: ${error.message}` });
    }
  };
  const all = async () => {
    const text = JSON.stringify({ conversations: await store.everything() });
    download("colibri-conversations.json", text);
  };
  return html`<div class="files">
    ${said && html`<${Notice} kind=${said.kind} icon=${said.kind ? "warn" : "check"} role="status">${said.text}<//>`}
    <div class="row">
      <${Button} kind="plain tiny" icon="export" label="Export all" onClick=${all} />
      <${Button} kind="plain tiny" icon="import" label="Import" onClick=${() => input.current.click()} />
      <input ref=${input} type="file" accept=".json,application/json" hidden aria-label="File to import" onChange=${take} />
    </div>
  </div>`;
}
