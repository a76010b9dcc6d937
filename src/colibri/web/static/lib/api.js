// The server's APIs: JSON, streams, and what goes wrong with either.
import { signal } from "./html.js";
import { persisted } from "./prefs.js";
import { readEvents } from "./sse.js";

/** The server's root, also behind a proxy that puts it below some path. */
const ROOT = new URL("../../", import.meta.url);

/** In this tab only, and gone with it. */
export const apiKey = persisted("key", null, isKey, () => sessionStorage);

/** null, or why a key is asked for: "missing" or "wrong". */
export const keyWanted = signal(null);

function isKey(value) {
  return typeof value === "string" && value !== "";
}

/** What a server said no with. status 0: none was reached. retryAfter: seconds, or null. */
export class ApiError extends Error {
  constructor(status, message, { code = null, param = null, retryAfter = null } = {}) {
    super(message);
    this.name = "ApiError";
    Object.assign(this, { status, code, param, retryAfter });
  }
}

export async function getJson(path, { signal } = {}) {
  return (await request("GET", path, undefined, signal)).json();
}

export async function postJson(path, body, { signal } = {}) {
  return (await request("POST", path, body, signal)).json();
}

/** Those that are open: {heard (ms), broken, controller}. */
const streams = new Set();

/** Events of a stream, as readEvents gives them. A GET where there is no body. */
export async function* openStream(path, body, { signal, onBytes, onOpen } = {}) {
  const stream = { heard: Date.now(), broken: false, controller: new AbortController() };
  const leave = () => stream.controller.abort();
  signal?.addEventListener("abort", leave);
  if (signal?.aborted) leave();
  streams.add(stream);
  try {
    const response = await request(body === undefined ? "GET" : "POST", path, body, stream.controller.signal);
    onOpen?.(response);
    yield* readEvents(response.body, () => {
      stream.heard = Date.now();
      onBytes?.();
    });
  } catch (error) {
    throw stream.broken ? unreachable("the connection broke off") : asApiError(error, "the connection broke off");
  } finally {
    streams.delete(stream);
    signal?.removeEventListener("abort", leave);
  }
}

/** What the server does otherwise than asked, in words; null: nothing. */
export function noticeOf(response) {
  const escape = /\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))/g; // headers are ASCII
  const char = (_, ...codes) => codes[3] ?? String.fromCodePoint(Number.parseInt(codes[0] ?? codes[1] ?? codes[2], 16));
  return response.headers.get("x-colibri-notice")?.replace(escape, char) ?? null;
}

/** A connection may be dead and not know it: whatever was not heard of since then (ms) breaks off. */
export function breakSilent(since) {
  for (const stream of streams) {
    if (stream.heard >= since) continue;
    stream.broken = true;
    stream.controller.abort();
  }
}

async function request(method, path, body, signal) {
  const headers = { accept: "application/json, text/event-stream" };
  if (apiKey.value) headers.authorization = `Bearer ${apiKey.value}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(path.replace(/^\//, ""), ROOT), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
      credentials: "omit",
    });
  } catch (error) {
    throw asApiError(error, "the server cannot be reached");
  }
  if (response.ok) return response;
  if (response.status === 401) keyWanted.value = apiKey.value ? "wrong" : "missing";
  throw await refusal(response);
}

/** Aborts stay what they are: who aborted knows. */
function asApiError(error, message) {
  if (error?.name === "AbortError" || error instanceof ApiError) return error;
  return unreachable(message);
}

function unreachable(message) {
  return new ApiError(0, message, { code: "unreachable" });
}

/** In words for a reader of the page: the server's are for those who write programs. */
function keyProblem() {
  return apiKey.value
    ? "The key is not correct: enter the right one, then try again."
    : "This server requires a key: enter it, then try again.";
}

async function refusal(response) {
  const after = Number.parseFloat(response.headers.get("retry-after") ?? "");
  const retryAfter = Number.isFinite(after) ? after : null;
  try {
    const { error } = await response.json();
    const { message, code, param } = error;
    const said = response.status === 401 ? keyProblem() : String(message);
    return new ApiError(response.status, said, { code, param, retryAfter });
  } catch {
    return new ApiError(response.status, `the server answered ${response.status}`, { retryAfter });
  }
}
