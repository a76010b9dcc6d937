// Conversations in this browser's IndexedDB: short heads for the list, bodies by id.

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

/** undefined: there is none. */
export function loadBody(id) {
  return transact("readonly", (_, bodies) => bodies.get(id));
}

export function loadBodies() {
  return transact("readonly", (_, bodies) => bodies.getAll());
}

/** known: it was kept before. Whether it is kept now: what is known and not there any more was
 * deleted elsewhere, and stays so. */
export async function save(conversation, known) {
  let kept = true;
  await transact("readwrite", (heads, bodies) => {
    const put = () => {
      heads.put(headOf(conversation));
      bodies.put(conversation);
    };
    if (!known) {
      put();
      return;
    }
    heads.count(conversation.id).onsuccess = ({ target }) => {
      kept = target.result > 0;
      if (kept) put();
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
