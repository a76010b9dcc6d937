// The conversations that are open, the list of all, and what is done to them.
import { batch, signal } from "../../lib/html.js";
import { persisted } from "../../lib/prefs.js";
import * as db from "./db.js";
import { merged } from "./merge.js";
import { onTold, tell } from "./tabs.js";

const SAVE_MS = 100;

/** [{id, title, updated}], the latest first. */
export const heads = signal([]);
/** Why conversations are not kept, or null. */
export const unkept = signal(null);

/** place -> what was written and not sent; of this tab. */
export const drafts = persisted("drafts", {}, isTexts, () => sessionStorage);
/** The system prompt of a conversation that has not begun. */
export const draftSystem = signal("");

/** {id, title} of the conversation that was deleted elsewhere last, while it was open here; or null. */
export const deleted = signal(null);

const opened = new Map(); // id -> signal of a conversation
const known = new Set(); // ids of those that this browser keeps, as far as seen here
const timers = new Map();
const saving = new Map(); // id -> promise of db.save()
const bases = new Map(); // id -> {body, rev}: as it was loaded or saved last

function isTexts(value) {
  return value !== null && typeof value === "object" && Object.values(value).every((text) => typeof text === "string");
}

export function setDraft(place, text) {
  const { [place]: _, ...others } = drafts.value;
  drafts.value = text ? { ...others, [place]: text } : others;
}

export async function loadList() {
  try {
    const stored = await db.loadHeads();
    for (const head of stored) known.add(head.id);
    const here = new Set(stored.map((head) => head.id));
    // Not those that were kept and are no more; a save may have begun since this was read.
    const unsaved = heads.value.filter((head) => !here.has(head.id) && !known.has(head.id));
    heads.value = sorted([...stored, ...unsaved]);
  } catch (error) {
    tellUnkept(error);
  }
}

/** A signal of the conversation; null: it is not there. */
export async function open(id) {
  if (!opened.has(id)) {
    let found;
    try {
      found = await db.load(id);
    } catch (error) {
      tellUnkept(error);
    }
    if (!found) return null;
    known.add(id);
    if (!opened.has(id)) take(id, found);
  }
  return opened.get(id);
}

/** What is kept, with what was done to it here and is not kept yet. */
function take(id, found) {
  const base = bases.get(id);
  bases.set(id, found);
  const here = opened.get(id);
  if (here && base?.body === found.body) return; // all of it is from here
  if (here) here.value = base ? merged(base.body, here.peek(), found.body) : found.body;
  else opened.set(id, signal(found.body));
}

export function add(conversation) {
  opened.set(conversation.id, signal(conversation));
  put(conversation);
  return opened.get(conversation.id);
}

/** change: conversation -> conversation. */
export function update(id, change) {
  const kept = opened.get(id);
  if (!kept) return;
  const made = change(kept.peek());
  if (made === kept.peek()) return;
  kept.value = made;
  put(made);
}

export function peek(id) {
  return opened.get(id)?.peek() ?? null;
}

export async function rename(id, title) {
  await open(id);
  update(id, (old) => ({ ...old, title, updated: Date.now() }));
}

/** Ids of the conversations whose title or messages hold this text. */
export async function search(text) {
  const wanted = text.toLowerCase();
  const holds = (part) => (part ?? "").toLowerCase().includes(wanted);
  const found = (await everything()).filter(
    ({ title, nodes }) => holds(title) || Object.values(nodes).some(({ content }) => holds(content)),
  );
  return new Set(found.map(({ id }) => id));
}

export async function remove(id) {
  forget(id);
  await db.remove(id).catch(tellUnkept);
  heads.value = heads.value.filter((head) => head.id !== id);
  tell({ id, removed: true });
}

function forget(id) {
  clearTimeout(timers.get(id));
  timers.delete(id);
  opened.delete(id);
  bases.delete(id);
  known.delete(id);
  setDraft(id, "");
}

/** Deleted in another tab: nothing here brings it back. What was being written is not lost. */
function removedElsewhere(id) {
  const conversation = peek(id);
  const draft = drafts.peek()[id];
  forget(id);
  if (draft && !drafts.peek()[""]) setDraft("", draft);
  heads.value = heads.value.filter((head) => head.id !== id);
  if (conversation !== null) deleted.value = { id, title: conversation.title };
}

/** All that are kept, for an export. */
export async function everything() {
  await saveAll();
  try {
    return await db.loadBodies();
  } catch {
    return [...opened.values()].map((kept) => kept.peek());
  }
}

function put(conversation) {
  const head = db.headOf(conversation);
  batch(() => {
    const others = heads.value.filter((other) => other.id !== head.id);
    heads.value = sorted([head, ...others]);
  });
  if (!timers.has(head.id)) timers.set(head.id, setTimeout(() => saveNow(head.id), SAVE_MS));
}

export async function saveNow(id) {
  clearTimeout(timers.get(id));
  timers.delete(id);
  const conversation = peek(id);
  if (conversation === null) return;
  try {
    const saved = db.save(conversation, bases.get(id));
    saving.set(id, saved);
    const kept = await saved.finally(() => saving.get(id) === saved && saving.delete(id));
    if (kept === null) {
      removedElsewhere(id);
      return;
    }
    if (opened.has(id)) {
      known.add(id);
      bases.set(id, { body: conversation });
      take(id, kept);
    }
    unkept.value = null;
    tell({ id });
  } catch (error) {
    tellUnkept(error);
  }
}

/** Another tab saved it. */
async function renew(id) {
  let found;
  do {
    await saving.get(id)?.catch(() => {}); // brings both together
    found = await db.load(id).catch(() => undefined);
  } while (saving.has(id));
  if (found && opened.has(id) && found.rev !== bases.get(id)?.rev) take(id, found);
}

export function saveAll() {
  return Promise.all([...timers.keys()].map(saveNow));
}

function tellUnkept(error) {
  const full = error?.name === "QuotaExceededError";
  unkept.value = full
    ? "This browser's storage is full: delete conversations, or export them."
    : "This browser does not let the page keep anything: conversations are lost when the tab is closed.";
}

function sorted(list) {
  return list.sort((a, b) => b.updated - a.updated);
}

onTold(async ({ id, removed, answering, stop }) => {
  if (id === undefined || answering !== undefined || stop) return;
  if (removed) removedElsewhere(id);
  await loadList();
  if (opened.has(id)) await renew(id);
});

addEventListener("pagehide", saveAll);
document.addEventListener("visibilitychange", () => document.hidden && saveAll());
