// Chat: conversations with the model, kept in this browser.
import { getJson } from "../lib/api.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/html.js";
import { epoch, online } from "../lib/live.js";
import { useMedia } from "../lib/media.js";
import { persisted } from "../lib/prefs.js";
import { navigate } from "../lib/router.js";
import { Icon } from "../ui/icons.js";
import { Mute, mute } from "../ui/mute.js";
import { Button, Notice, download } from "../ui/parts.js";
import { Alternatives } from "./chat/alternatives.js";
import { Composer } from "./chat/composer.js";
import { generate, stopIn } from "./chat/generate.js";
import { List } from "./chat/list.js";
import { Message } from "./chat/message.js";
import { Settings } from "./chat/settings.js";
import * as store from "./chat/store.js";
import { busy as busyHere, elsewhere } from "./chat/tabs.js";
import { ROOT, asMarkdown, newConversation, path, withChosen, withNode } from "./chat/tree.js";
import { Welcome } from "./chat/welcome.js";

const shaded = persisted("shaded", false, (value) => typeof value === "boolean");
const settingsOpen = persisted("settings", false, (value) => typeof value === "boolean");

/** As in chat.css: lists and settings come over the talk. */
const NARROW = "(max-width: 860px)";

export default function ChatPage({ rest }) {
  const [kept, setKept] = useState(null); // a signal of the conversation
  const [listOpen, setListOpen] = useState(false);
  const opener = useRef(null); // of the list, where that comes over the talk
  const context = useContextSize();
  const narrow = useMedia(NARROW);
  const [drawn, setDrawn] = useState(false); // the settings, where they come over the talk
  const settingsShown = narrow ? drawn : settingsOpen.value;
  const showSettings = (wanted) => {
    if (!narrow) settingsOpen.value = wanted;
    setDrawn(wanted);
    setListOpen(false);
  };
  useEffect(() => void store.loadList(), []);
  useEffect(() => {
    let current = true;
    setKept(null);
    if (rest) {
      store.open(rest).then((found) => {
        if (!current) return;
        if (found) setKept(found);
        else navigate("chat", "", { replace: true });
      });
    }
    return () => {
      current = false;
    };
  }, [rest]);
  const conversation = rest && kept ? kept.value : null;
  const id = conversation?.id ?? null;
  const there = id !== null && elsewhere.value.has(id);
  const busy = there || (id !== null && busyHere.value.has(id));
  const nodes = conversation ? path(conversation) : [];

  const send = (text) => {
    let at = id;
    let parent = nodes.length ? nodes[nodes.length - 1].id : ROOT;
    if (at === null) {
      const made = newConversation(store.draftSystem.value);
      store.add(made);
      [at, parent] = [made.id, ROOT];
      store.draftSystem.value = "";
    }
    ask(at, parent, text);
    navigate("chat", at);
  };
  const act = {
    edit: (node, text) => ask(id, node.parent, text),
    again: (node) => generate(id, node.parent),
    choose: (node, kid) => store.update(id, (old) => withChosen(old, node, kid)),
    answer: (node, results) => {
      let parent = node.id;
      results.forEach((content, index) => {
        parent = addNode(id, parent, { role: "tool", callId: node.calls[index].id, content });
      });
      generate(id, parent);
    },
  };
  const { value: deleted } = store.deleted;
  useEffect(() => {
    if (deleted && deleted.id === rest) navigate("chat", "", { replace: true });
  }, [deleted]);
  const returns = useRef(false);
  const leaveList = () => {
    returns.current = true;
    setListOpen(false);
  };
  useEffect(() => {
    // Not before: what lies under the list takes no focus.
    if (!listOpen && returns.current) opener.current?.focus();
    returns.current = false;
  }, [listOpen]);
  const setSystem = (system) =>
    id === null ? (store.draftSystem.value = system) : store.update(id, (old) => ({ ...old, system }));
  const last = nodes.findLast((node) => node.stats?.prompt !== undefined);

  return html`<div class=${`chat ${settingsShown ? "with-settings" : ""} ${listOpen ? "with-list" : ""}`}>
    <${List} current=${id} open=${listOpen} onPick=${() => setListOpen(false)} onLeave=${leaveList} />
    <div class="curtain" onClick=${() => setListOpen(false)}></div>
    <section class="talk" aria-label="Conversation" inert=${narrow && listOpen}>
      <${Head}
        conversation=${conversation}
        onList=${(event) => {
          opener.current = event.currentTarget;
          setListOpen(!listOpen);
        }}
        listOpen=${listOpen}
        settingsShown=${settingsShown}
        onSettings=${() => showSettings(!settingsShown)}
      />
      ${
        deleted &&
        html`<${Notice} kind="warn" role="alert">
          ${`“${deleted.title || "Untitled"}” was deleted in another tab. `}
          <${Button} kind="tiny" label="OK" onClick=${() => (store.deleted.value = null)} />
        <//>`
      }
      <${Thread} key=${id} nodes=${nodes} conversation=${conversation} act=${act} busy=${busy} there=${there} />
      ${
        mute.value
          ? html`<div class="composer"><${Mute} /></div>`
          : html`<${Composer}
              place=${rest}
              busy=${busy}
              onSend=${send}
              onStop=${() => stopIn(id)}
              used=${last ? last.stats.prompt + (last.stats.completion ?? 0) : null}
              context=${context}
            />`
      }
    </section>
    ${
      settingsShown &&
      html`<${Settings}
        system=${conversation?.system ?? store.draftSystem.value}
        onSystem=${setSystem}
        over=${narrow}
        onClose=${() => showSettings(false)}
      />`
    }
    <${Alternatives} />
    <p class="sr-only" role="status">${id === null ? "" : busy ? "The model is answering." : "The model has answered."}</p>
  </div>`;
}

function addNode(id, parent, fields) {
  let made;
  store.update(id, (old) => {
    const [next, node] = withNode(old, parent, fields);
    made = node.id;
    return next;
  });
  return made;
}

function ask(id, parent, content) {
  generate(id, addNode(id, parent, { role: "user", content }));
}

/** Tokens; null until it is known. */
function useContextSize() {
  const [context, setContext] = useState(null);
  const connection = epoch.value;
  useEffect(() => {
    if (!online.peek()) return;
    getJson("v1/colibri/plan").then(
      (plan) => setContext(plan.context),
      () => setContext(null),
    );
  }, [connection]);
  return context;
}

function Head({ conversation, onList, listOpen, settingsShown, onSettings }) {
  const words = (conversation?.title ?? "").match(/[\p{L}\p{N}]+/gu) ?? ["conversation"];
  const name = words.join("-").slice(0, 40).replace(/-$/, "");
  return html`<header class="talk-head">
    <${Button} kind="plain list-toggle" icon="list" label="Conversations" bare aria-expanded=${listOpen} onClick=${onList} />
    <h1>${conversation?.title || "New conversation"}</h1>
    <span class="spacer"></span>
    <${Button}
      kind="plain shade-toggle"
      icon="shade"
      label="Shade doubt"
      title="Shade the tokens that the model was unsure of; point at one to see the alternatives"
      aria-pressed=${shaded.value}
      onClick=${() => (shaded.value = !shaded.value)}
    />
    ${conversation && html`<${ExportMenu} conversation=${conversation} name=${name} />`}
    <${Button}
      kind="plain"
      icon="settings"
      label="Settings"
      bare
      aria-expanded=${settingsShown}
      onClick=${onSettings}
    />
  </header>`;
}

function ExportMenu({ conversation, name }) {
  const ref = useRef(null);
  const close = () => ref.current?.removeAttribute("open");
  const leave = (event) => !ref.current?.contains(event.relatedTarget) && close();
  const save = (kind, text, type) => () => {
    close();
    download(`${name}.${kind}`, text(), type);
  };
  return html`<details class="menu" ref=${ref} onFocusOut=${leave} onKeyDown=${(event) => event.key === "Escape" && close()}>
    <summary class="button plain square" aria-label="Export" title="Export"><${Icon} name="export" /></summary>
    <div class="menu-items">
      <${Button} kind="plain" label="JSON, which can be imported again" onClick=${save("json", () => JSON.stringify(conversation), "application/json")} />
      <${Button} kind="plain" label="Markdown of what is shown" onClick=${save("md", () => asMarkdown(conversation), "text/markdown")} />
    </div>
  </details>`;
}

/** Stays at its end as that grows, unless somebody went up to read. */
function Thread({ nodes, conversation, act, busy, there }) {
  const ref = useRef(null);
  const inner = useRef(null);
  const follows = useRef(true);
  const [away, setAway] = useState(false);
  const before = useRef(0);
  const toEnd = () => {
    if (!follows.current) return;
    const scroller = ref.current;
    scroller.scrollTop = scroller.scrollHeight;
    before.current = scroller.scrollTop;
  };
  useLayoutEffect(() => {
    const observer = new ResizeObserver(toEnd);
    observer.observe(inner.current);
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  // The button has gone, and the end with it is higher up: nobody went there.
  useLayoutEffect(toEnd, [away]);
  // Of the event, since one may come after the element has left the page.
  const onScroll = ({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
    // What grew meanwhile is not somebody who went up.
    if (scrollHeight - scrollTop - clientHeight < 40) follows.current = true;
    else if (scrollTop < before.current) follows.current = false;
    before.current = scrollTop;
    setAway(!follows.current);
  };
  const goToEnd = () => {
    follows.current = true;
    toEnd();
  };
  useEffect(() => {
    if (busy) goToEnd();
  }, [nodes.length]);
  return html`<div class="thread" ref=${ref} onScroll=${onScroll} tabindex="0" role="region" aria-label="Messages">
    <div class="thread-inner" ref=${inner}>
      ${nodes.map(
        (node, index) =>
          html`<${Message}
            key=${node.id}
            ...${{ node, conversation, act, busy, there, shaded: shaded.value, last: index === nodes.length - 1 }}
          />`,
      )}
      ${nodes.length === 0 && html`<${Welcome} place=${conversation?.id ?? ""} />`}
    </div>
    ${away && html`<${Button} kind="to-end" icon="down" label="To the end" bare onClick=${goToEnd} />`}
  </div>`;
}
