// The tabs of this browser that show the page, told of each other: which conversations others answer.
import { effect, signal } from "../../lib/html.js";

const ASK_MS = 3_000;

/** Ids of conversations an answer is being written to here. */
export const busy = signal(new Set());
/** The same of all other tabs. */
export const elsewhere = signal(new Set());

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("colibri.chat") : null;
let confirmed = new Set(); // since it was asked last

/** What of: {id}: saved; {id, removed}; {id, answering}: true or false; {id, stop}; {ask}: who answers. */
export function tell(what) {
  channel?.postMessage(what);
}

/** Call back for what other tabs tell. */
export function onTold(callback) {
  channel?.addEventListener("message", ({ data }) => callback(data));
}

let told = new Set();
effect(() => {
  const now = busy.value;
  for (const id of now) if (!told.has(id)) tell({ id, answering: true });
  for (const id of told) if (!now.has(id)) tell({ id, answering: false });
  told = now;
});

onTold(({ ask, id, answering, removed }) => {
  if (ask) for (const each of busy.peek()) tell({ id: each, answering: true });
  if (answering) confirmed.add(id);
  if (answering && !elsewhere.peek().has(id)) elsewhere.value = new Set(elsewhere.peek()).add(id);
  if (answering === false || removed) forget((each) => each === id);
});

function forget(which) {
  const left = [...elsewhere.peek()].filter((id) => !which(id));
  if (left.length < elsewhere.peek().size) elsewhere.value = new Set(left);
}

// A tab that crashed ends nothing: it does not answer when it is asked.
setInterval(() => {
  if (elsewhere.peek().size === 0) return;
  forget((id) => !confirmed.has(id));
  confirmed = new Set();
  tell({ ask: true });
}, ASK_MS);
tell({ ask: true });
addEventListener("pagehide", () => {
  for (const id of busy.peek()) tell({ id, answering: false });
});
