// The one event stream of this page: what the server does, and whether it is there at all.
import { ApiError, apiKey, breakSilent, getJson, keyWanted, openStream } from "./api.js";
import { batch, computed, effect, signal } from "./html.js";

const SLOW_MS = 4_000; // the server has something to say every second
const LOST_MS = 15_000;
const RETRY_MS = [500, 1_000, 2_000, 4_000, 8_000];
const HIDDEN_MS = 20_000; // a browser has few connections to a server: none for tabs nobody sees
const KEPT = 180;

/** connecting | loading | live | slow | lost | stopping | key | refused */
export const state = signal("connecting");
/** When the next attempt is due (ms of Date.now), while there is no connection. */
export const retryAt = signal(null);
/** Why, where state is "refused". */
export const reason = signal("");
/** The last "status" event, or null. */
export const status = signal(null);
/** The last status events, oldest first, each with `at` (ms). */
export const history = signal([]);
/** Grows with every new connection: what was fetched before may be another model's. */
export const epoch = signal(0);
/** {id, ...} of the served model, or null. */
export const model = signal(null);
export const online = computed(() => state.value === "live" || state.value === "slow");

const listeners = new Map();
let wake = () => {};
let current = null;

/** Call back for each event of this name; returns what ends that. */
export function onEvent(name, callback) {
  const there = listeners.get(name) ?? new Set();
  listeners.set(name, there.add(callback));
  return () => there.delete(callback);
}

/** Do not wait for the next attempt. */
export function retryNow() {
  wake();
}

export function start() {
  keepConnected();
  setInterval(watch, 1_000);
  addEventListener("online", retryNow);
  document.addEventListener("visibilitychange", onVisibility);
  let before = apiKey.value;
  effect(() => {
    if (apiKey.value !== before) {
      before = apiKey.value;
      current?.abort();
      retryNow();
    }
  });
}

async function keepConnected() {
  for (let failures = 0; ; ) {
    if (document.hidden && hiddenLong()) await sleep(null);
    const began = epoch.value;
    let wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
    try {
      await listen();
      failures = 0;
    } catch (error) {
      failures = epoch.value > began ? 0 : failures + 1;
      if (error instanceof ApiError) {
        wait = put(error, wait);
      } else if (error?.name !== "AbortError") {
        throw error;
      } else if (state.value !== "stopping") {
        state.value = "lost";
      }
    }
    await sleep(wait);
  }
}

/** The state after a refusal; how long to wait (ms), null: until something changes. */
function put(error, wait) {
  if (error.status === 401) {
    state.value = "key";
    return null;
  }
  if (error.status === 503) {
    state.value = error.code === "loading" ? "loading" : "stopping";
    return 1_000;
  }
  if (error.status >= 400) {
    reason.value = error.message;
    state.value = "refused";
    return 8_000;
  }
  state.value = state.value === "stopping" ? "stopping" : "lost";
  return wait;
}

let heard = 0;
let since = 0; // when this connection was made

async function listen() {
  current = new AbortController();
  heard = Date.now();
  const options = {
    signal: current.signal,
    onBytes: () => {
      heard = Date.now();
      if (state.value === "slow") state.value = "live";
    },
    onOpen: connected,
  };
  for await (const { event, data } of openStream("v1/colibri/events", undefined, options)) {
    if (data === undefined) continue;
    let value;
    try {
      value = JSON.parse(data);
    } catch {
      continue;
    }
    if (event === "status") keep(value);
    if (event === "end") state.value = "stopping";
    for (const callback of listeners.get(event) ?? []) callback(value);
  }
  if (state.value !== "stopping") state.value = "lost";
}

function connected() {
  since = Date.now();
  batch(() => {
    state.value = "live";
    retryAt.value = null;
    keyWanted.value = null;
    epoch.value += 1;
  });
  getJson("v1/models").then(
    ({ data }) => (model.value = data[0] ?? null),
    () => {},
  );
}

function keep(value) {
  const entry = { ...value, at: Date.now() };
  batch(() => {
    status.value = entry;
    history.value = [...history.value.slice(1 - KEPT), entry];
  });
}

function watch() {
  if (document.hidden && hiddenLong()) {
    if (online.value) current?.abort();
    return;
  }
  const now = Date.now();
  if (now - heard > LOST_MS) current?.abort(); // also an attempt that nobody answers
  else if (online.value && now - heard > SLOW_MS) state.value = "slow";
  // Other streams may have outlived a connection that was lost; those that did not go on, did not.
  if (online.value && now - since > LOST_MS) breakSilent(since);
}

let hiddenSince = document.hidden ? Date.now() : null;

function hiddenLong() {
  return hiddenSince !== null && Date.now() - hiddenSince > HIDDEN_MS;
}

function onVisibility() {
  hiddenSince = document.hidden ? Date.now() : null;
  if (!document.hidden && !online.value) retryNow();
}

/** ms null: until someone wakes us. */
function sleep(ms) {
  return new Promise((resolve) => {
    const timer = ms === null ? null : setTimeout(() => wake(), ms);
    retryAt.value = ms === null ? null : Date.now() + ms;
    wake = () => {
      clearTimeout(timer);
      wake = () => {};
      resolve();
    };
  });
}
