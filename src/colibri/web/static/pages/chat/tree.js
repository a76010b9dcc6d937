// A conversation is a tree: an edited or repeated message is a sibling of the first. Pure functions;
// a conversation is never changed, but replaced.
//
// {version, id, title, created, updated, system, nodes, kids, chosen}
//   nodes: id -> {id, parent, role, content, ...}; role: user | assistant | tool
//   kids: id or ROOT -> ids, oldest first;  chosen: id or ROOT -> the kid that is shown

export const ROOT = "root";
export const VERSION = 1;

export function newId() {
  const raw = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(raw, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newConversation(system = "") {
  const now = Date.now();
  const empty = { nodes: {}, kids: {}, chosen: {} };
  return { version: VERSION, id: newId(), title: "", created: now, updated: now, system, ...empty };
}

/** The shown nodes, first to last; up to and with the node `end` where that is given. */
export function path(conversation, end = null) {
  const found = [];
  const upwards = end === null ? null : ancestors(conversation, end);
  for (let at = ROOT; ; ) {
    const kids = conversation.kids[at] ?? [];
    if (kids.length === 0 || at === end) return found;
    at = upwards?.has(at) ? upwards.get(at) : shownKid(conversation, at);
    found.push(conversation.nodes[at]);
  }
}

function shownKid(conversation, parent) {
  const kids = conversation.kids[parent];
  const chosen = conversation.chosen[parent];
  return kids.includes(chosen) ? chosen : kids[kids.length - 1];
}

/** parent -> the kid that leads to `id`. */
function ancestors(conversation, id) {
  const found = new Map();
  for (let at = id; at !== ROOT; at = conversation.nodes[at].parent) {
    found.set(conversation.nodes[at].parent, at);
  }
  return found;
}

/** With a new node below `parent`, which is the one shown from now on. */
export function withNode(conversation, parent, fields) {
  const node = { id: newId(), parent, created: Date.now(), content: "", ...fields };
  const kids = [...(conversation.kids[parent] ?? []), node.id];
  const made = {
    ...conversation,
    updated: node.created,
    nodes: { ...conversation.nodes, [node.id]: node },
    kids: { ...conversation.kids, [parent]: kids },
    chosen: { ...conversation.chosen, [parent]: node.id },
  };
  if (!made.title && fields.role === "user") made.title = titleOf(fields.content);
  return [made, node];
}

export function withChanged(conversation, id, changes) {
  if (!conversation.nodes[id]) return conversation;
  const node = { ...conversation.nodes[id], ...changes };
  return { ...conversation, updated: Date.now(), nodes: { ...conversation.nodes, [id]: node } };
}

/** {index, ids}: the node among its siblings. */
export function siblings(conversation, node) {
  const ids = conversation.kids[node.parent] ?? [node.id];
  return { index: ids.indexOf(node.id), ids };
}

export function withChosen(conversation, node, id) {
  return { ...conversation, chosen: { ...conversation.chosen, [node.parent]: id } };
}

/** Whether all that one conversation says is in the other. */
export function isIn(one, other) {
  return one.system === other.system && Object.keys(one.nodes).every((id) => Object.hasOwn(other.nodes, id));
}

function titleOf(text) {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > 60 ? `${line.slice(0, 59).trimEnd()}…` : line;
}

/** As /v1/chat/completions takes them, up to and with the node `end`. */
export function messagesOf(conversation, end) {
  const system = conversation.system.trim();
  const messages = system ? [{ role: "system", content: system }] : [];
  for (const node of path(conversation, end)) {
    const message = messageOf(node);
    if (message) messages.push(message);
  }
  return messages;
}

/** null: an answer that never came. */
function messageOf(node) {
  if (node.role === "user") return { role: "user", content: node.content };
  if (node.role === "tool") {
    return { role: "tool", tool_call_id: node.callId, content: node.content };
  }
  const calls = node.calls ?? [];
  if (!node.content && calls.length === 0) return null;
  return {
    role: "assistant",
    content: node.content || null,
    ...(node.reasoning ? { reasoning_content: node.reasoning } : {}),
    ...(calls.length ? { tool_calls: calls.map(callOf) } : {}),
  };
}

function callOf({ id, name, arguments: given }) {
  return { id, type: "function", function: { name, arguments: given } };
}

/** For people and other programs: what is shown, as markdown. */
export function asMarkdown(conversation) {
  const parts = [`# ${conversation.title || "Conversation"}`];
  if (conversation.system.trim()) parts.push(`> ${conversation.system.trim().replace(/\n/g, "\n> ")}`);
  const names = { user: "You", assistant: "Model", tool: "Tool" };
  for (const node of path(conversation)) {
    const calls = (node.calls ?? []).map((call) => `\`${call.name}(${call.arguments})\``);
    parts.push(`## ${names[node.role]}`, [node.content, ...calls].filter(Boolean).join("\n\n"));
  }
  return `${parts.join("\n\n")}\n`;
}
