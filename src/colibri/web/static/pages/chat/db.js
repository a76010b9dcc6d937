// Conversations in this browser's IndexedDB: short heads for the list, bodies by id.
import { merged } from "./merge.js";
import { newId } from "./tree.js";

const NAME = "colibri";
const STORES = ["heads", "bodies"];

let opening = null;

function database() {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => {
      for (const store of STORES) request.result.createObjectStore(store, { keyPath: "id" });
    };
    request.onsuccess = () => {
      // Another tab with a later version of this page wants to change the form.
      request.result.onversionchange = () => request.result.close();
      resolve(request.result);
    };
    request.onerror = () => reject(request.error);
  });
  opening.catch(() => {
    opening = null;
  });
  return opening;
}

async function transact(mode, work) {
  const db = await database();
  return new Promise((resolve, reject) => {
    const transaction = db.transaction(STORES, mode);
    const result = work(...STORES.map((store) => transaction.objectStore(store)));
    transaction.oncomplete = () => resolve(result?.result);
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });
}

export function loadHeads() {
  return transact("readonly", (heads) => heads.getAll());
}

/** {body, rev}: a conversation, and which of its states this is; undefined: there is none. */
export async function load(id) {
  let [head, body] = [];
  await transact("readonly", (heads, bodies) => {
    heads.get(id).onsuccess = ({ target }) => (head = target.result);
    bodies.get(id).onsuccess = ({ target }) => (body = target.result);
  });
  return body && { body, rev: head?.rev };
}

export function loadBodies() {
  return transact("readonly", (_, bodies) => bodies.getAll());
}

/** base: {body, rev} as it was loaded or saved last, undefined: it never was. What another tab saved
 * since then is not lost. {body, rev} as it is kept now; null: it was deleted elsewhere, and stays so. */
export async function save(conversation, base) {
  let kept = null;
  await transact("readwrite", (heads, bodies) => {
    const put = (body) => {
      kept = { body, rev: newId() };
      heads.put({ ...headOf(body), rev: kept.rev });
      bodies.put(body);
    };
    if (base === undefined) {
      put(conversation);
      return;
    }
    heads.get(conversation.id).onsuccess = ({ target: { result: head } }) => {
      if (head === undefined) return;
      if (head.rev === base.rev) {
        put(conversation);
        return;
      }
      bodies.get(conversation.id).onsuccess = ({ target }) => put(merged(base.body, conversation, target.result));
    };
  });
  return kept;
}

export function remove(id) {
  return transact("readwrite", (heads, bodies) => {
    heads.delete(id);
    bodies.delete(id);
  });
}

export function headOf({ id, title, updated }) {
  return { id, title, updated };
}
