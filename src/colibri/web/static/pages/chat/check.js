// Whether a file that somebody wants to import holds conversations; nothing of it is trusted.
import { ROOT, VERSION, newId } from "./tree.js";

const ROLES = ["user", "assistant", "tool"];
const FINISHES = ["stop", "length", "tool_calls", "stopped", "error"];
export const MOST_BYTES = 64e6;

/** The conversations of a file's text, under new ids. Throws an Error that says what is wrong. */
export function conversationsOf(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("this is not valid JSON");
  }
  const list = value?.conversations ?? (value?.nodes ? [value] : null);
  if (!Array.isArray(list)) throw new Error("this is not an export of conversations");
  return list.map((each, index) => {
    try {
      return conversation(each);
    } catch (error) {
      throw new Error(`conversation ${index + 1}: ${error.message}`);
    }
  });
}

function conversation(value) {
  if (!isObject(value)) throw new Error("not an object");
  if (value.version !== VERSION) throw new Error(`version ${String(value.version).slice(0, 20)} is not known`);
  const nodes = {};
  for (const raw of Object.values(object(value, "nodes"))) {
    const made = node(raw);
    nodes[made.id] = made;
  }
  const kids = {};
  for (const made of Object.values(nodes)) {
    if (made.parent !== ROOT && !Object.hasOwn(nodes, made.parent)) throw new Error("a message without a parent");
    (kids[made.parent] ??= []).push(made.id);
  }
  reachable(nodes, kids);
  for (const ids of Object.values(kids)) ids.sort((a, b) => nodes[a].created - nodes[b].created);
  const chosen = {};
  for (const [parent, id] of Object.entries(value.chosen ?? {})) {
    if (Object.hasOwn(kids, parent) && kids[parent].includes(id)) chosen[parent] = id;
  }
  return {
    version: VERSION,
    id: newId(),
    title: string(value, "title"),
    created: time(value.created),
    updated: time(value.updated),
    system: string(value, "system"),
    nodes,
    kids,
    chosen,
  };
}

/** No message is its own ancestor. */
function reachable(nodes, kids) {
  const seen = new Set();
  const open = [ROOT];
  while (open.length) {
    for (const id of kids[open.pop()] ?? []) {
      seen.add(id);
      open.push(id);
    }
  }
  if (seen.size !== Object.keys(nodes).length) throw new Error("messages that lead nowhere");
}

function node(raw) {
  if (!isObject(raw)) throw new Error("a message that is none");
  const { id, role } = raw;
  if (typeof id !== "string" || !/^[0-9a-f]{1,40}$/.test(id)) throw new Error("a message without an id");
  if (!ROLES.includes(role)) throw new Error("a message with a role that is not known");
  const made = { id, parent: string(raw, "parent"), role, content: string(raw, "content") };
  made.created = time(raw.created);
  for (const name of ["reasoning", "error", "code", "model", "callId", "notice"]) {
    if (raw[name] !== undefined && raw[name] !== null) made[name] = string(raw, name);
  }
  if (FINISHES.includes(raw.finish)) made.finish = raw.finish;
  if (Array.isArray(raw.calls)) made.calls = raw.calls.map(call);
  if (Array.isArray(raw.tokens)) made.tokens = raw.tokens.map(token);
  if (isObject(raw.stats)) {
    const numbers = Object.entries(raw.stats).filter(([, value]) => Number.isFinite(value));
    made.stats = Object.fromEntries(numbers);
  }
  return made;
}

function call(raw) {
  if (!isObject(raw)) throw new Error("a tool call that is none");
  return { id: string(raw, "id"), name: string(raw, "name"), arguments: string(raw, "arguments") };
}

/** [text, logprob, [[text, logprob], ...]] */
function token(raw) {
  const [text, logprob, others] = Array.isArray(raw) ? raw : [];
  const fine = (pair) => Array.isArray(pair) && typeof pair[0] === "string" && Number.isFinite(pair[1]);
  if (typeof text !== "string" || !Number.isFinite(logprob) || !Array.isArray(others) || !others.every(fine)) {
    throw new Error("a token that is none");
  }
  return [text, logprob, others.map(([other, value]) => [other, value])];
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function object(value, name) {
  if (!isObject(value[name])) throw new Error(`${name} is missing`);
  return value[name];
}

function string(value, name) {
  if (typeof value[name] !== "string") throw new Error(`${name} is no text`);
  return value[name];
}

function time(value) {
  return Number.isFinite(value) && value > 0 ? value : Date.now();
}
