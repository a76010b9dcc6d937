// An answer on its way: asked for, waited for, streamed into its node.
import { ApiError, noticeOf, openStream } from "../../lib/api.js";
import { effect, signal } from "../../lib/html.js";
import { requestFields } from "./sampling.js";
import * as store from "./store.js";
import { busy, elsewhere, onTold, tell } from "./tabs.js";
import { TokenReader } from "./tokens.js";
import { messagesOf, withChanged, withNode } from "./tree.js";

const SHOW_MS = 50;
const SHOW_SHARE = 1 / 3; // of the page's time, at most, goes into showing an answer that grows
const MOST_REST_MS = 1_000;
const KEEP_MS = 2_000;
const SAVE_MS = 1_000; // a browser may be slow to keep things, nobody waits longer for it
const RETRY_SECONDS = [1, 2, 4, 8];

/** node id -> signal of an Answer's `shown`. */
const running = new Map();

/** The state of an answer being written: {phase, progress, content, reasoning, calls, tokens,
 * generated, seconds, retryAt, why}; null: none is. phase: asking | waiting | prefill | decoding |
 * retrying */
export function liveOf(id) {
  return running.get(id)?.shown ?? null;
}

export function stop(id) {
  running.get(id)?.controller.abort();
}

/** The answer to a conversation, here or in another tab. */
export function stopIn(conversationId) {
  if (elsewhere.peek().has(conversationId)) tell({ id: conversationId, stop: true });
  stop(runningIn(conversationId));
}

onTold((told) => told.stop && stop(runningIn(told.id)));

effect(() => {
  const { value: deleted } = store.deleted;
  if (deleted) stop(runningIn(deleted.id));
});

/** The answer that is being written to a conversation, or null. */
export function runningIn(conversationId) {
  for (const [id, answer] of running) if (answer.conversation === conversationId) return id;
  return null;
}

/** Writes an answer below the node `parent`; resolves when it has ended, however. */
export async function generate(conversationId, parent) {
  let node;
  store.update(conversationId, (conversation) => {
    const [made, added] = withNode(conversation, parent, { role: "assistant" });
    node = added;
    return made;
  });
  const answer = new Answer(conversationId, node.id);
  running.set(node.id, answer);
  busy.value = new Set(busy.value).add(conversationId);
  try {
    await answer.run(parent);
  } finally {
    answer.keep(true);
    // What looks whole is kept: a reload in the next moment loses nothing.
    await Promise.race([store.saveNow(conversationId), new Promise((done) => setTimeout(done, SAVE_MS))]);
    running.delete(node.id);
    const left = new Set(busy.value);
    left.delete(conversationId);
    busy.value = left;
  }
}

class Answer {
  constructor(conversation, id) {
    this.conversation = conversation;
    this.id = id;
    this.controller = new AbortController();
    this.shown = signal({ phase: "asking" });
    this.content = "";
    this.reasoning = "";
    this.calls = [];
    this.reader = new TokenReader();
    this.generated = 0;
    this.fields = {};
    this.first = this.last = null;
    this.reads = this.firstRead = this.atFirst = 0;
    this.showing = null;
    this.restMs = 0; // after what is shown, until the next is
    this.kept = 0;
  }

  async run(parent) {
    try {
      const messages = messagesOf(store.peek(this.conversation), parent);
      const body = { messages, stream: true, stream_options: { include_usage: true }, ...requestFields() };
      await this.insist(body);
    } catch (error) {
      if (error?.name === "AbortError") this.fields.finish = "stopped";
      else Object.assign(this.fields, { finish: "error", error: error.message || String(error), code: error.code ?? null });
    }
  }

  /** Again, as long as nobody has begun to answer: nothing is computed twice. */
  async insist(body) {
    for (let tries = 0; ; tries++) {
      try {
        return await this.listen(body);
      } catch (error) {
        const later = error instanceof ApiError && [0, 429, 503].includes(error.status);
        if (!later || this.began) throw error;
        const seconds = error.retryAfter ?? RETRY_SECONDS[Math.min(tries, RETRY_SECONDS.length - 1)];
        this.show({ phase: "retrying", why: error.message, retryAt: Date.now() + seconds * 1_000 });
        await this.pause(Math.min(seconds, 30) * 1_000);
      }
    }
  }

  async listen(body) {
    this.asked = performance.now();
    this.show({ phase: "asking" });
    const onOpen = (response) => (this.fields.notice = noticeOf(response));
    const options = { signal: this.controller.signal, onBytes: () => (this.reads += 1), onOpen };
    for await (const { data, comment } of openStream("v1/chat/completions", body, options)) {
      if (comment !== undefined) this.comment(comment);
      else if (data === "[DONE]") return;
      else this.chunk(JSON.parse(data));
    }
    throw new ApiError(0, "the connection broke off before the answer was whole");
  }

  comment(text) {
    let progress;
    try {
      progress = JSON.parse(text);
    } catch {
      return;
    }
    if (progress.state === "prefill") {
      this.began = true;
      this.show({ phase: "prefill", progress });
    } else if (progress.state === "waiting") this.show({ phase: "waiting" });
  }

  chunk(chunk) {
    if (chunk.error) throw new ApiError(500, chunk.error.message, { code: chunk.error.code });
    if (chunk.model) Object.assign(this.fields, { model: chunk.model, fingerprint: chunk.system_fingerprint });
    if (chunk.usage) this.usage = chunk.usage;
    for (const { delta, logprobs, finish_reason: finish } of chunk.choices) {
      this.add(delta, logprobs?.content ?? []);
      if (finish) this.fields.finish = finish;
    }
  }

  add(delta, tokens) {
    const calls = delta.tool_calls ?? [];
    if (!delta.content && !delta.reasoning_content && !calls.length && !tokens.length) return;
    this.began = true;
    this.last = performance.now();
    this.generated += tokens.length || 1; // without log-probabilities a piece is a token, nearly always
    if (this.first === null) [this.first, this.firstRead] = [this.last, this.reads];
    // A page that was busy finds several tokens at once: they say nothing of the speed.
    if (this.reads === this.firstRead) this.atFirst = this.generated;
    this.reasoning += delta.reasoning_content ?? "";
    if (delta.content) this.reader.add(tokens);
    this.content += delta.content ?? "";
    for (const call of calls) {
      this.calls.push({ id: call.id, name: call.function.name, arguments: call.function.arguments });
    }
    this.show({ phase: "decoding" }, SHOW_MS);
  }

  /** At once, or with what comes in the next moment. */
  show(state, after = 0) {
    this.state = state;
    if (after === 0) this.showNow();
    else this.showing ??= setTimeout(() => this.showNow(), Math.max(after, this.restMs));
  }

  showNow() {
    clearTimeout(this.showing);
    this.showing = null;
    timeTaken(
      () => (this.shown.value = { ...this.state, ...this.written(), generated: this.generated, stats: this.stats() }),
      // A long paragraph is made anew each time: the longer it takes, the rarer.
      (ms) => (this.restMs = Math.min(ms * (1 / SHOW_SHARE - 1), MOST_REST_MS)),
    );
    if (Date.now() - this.kept > KEEP_MS) this.keep(false);
  }

  written() {
    const { content, reasoning, calls } = this;
    return { content, reasoning, calls: [...calls], tokens: this.reader.tokens.slice() };
  }

  stats() {
    const stats = {};
    if (this.first !== null) {
      stats.ttft = (this.first - this.asked) / 1_000;
      stats.seconds = (this.last - this.first) / 1_000;
    }
    const later = this.generated - this.atFirst;
    if (later > 0 && stats.seconds > 0) stats.rate = later / stats.seconds;
    // All at once: only how long it took with the reading of the prompt is known.
    else if (this.first !== null) stats.overall = (1_000 * this.generated) / Math.max(1, this.last - this.asked);
    if (this.usage) {
      stats.prompt = this.usage.prompt_tokens;
      stats.cached = this.usage.prompt_tokens_details?.cached_tokens ?? 0;
      stats.completion = this.usage.completion_tokens;
    }
    return stats;
  }

  /** Into the conversation, so that a reload loses nothing; `whole`: it has ended. */
  keep(whole) {
    this.kept = Date.now();
    const fields = whole ? { finish: "error", error: "", ...this.fields } : { ...this.fields, finish: "stopped" };
    const made = { ...this.written(), ...fields, stats: this.stats() };
    store.update(this.conversation, (conversation) => withChanged(conversation, this.id, made));
  }

  /** Until it is time, the connection is back, or nobody wants to wait any more. */
  pause(ms) {
    const { signal: aborted } = this.controller;
    return new Promise((resolve, reject) => {
      const end = (settle) => {
        clearTimeout(timer);
        aborted.removeEventListener("abort", leave);
        settle();
      };
      const leave = () => end(() => reject(new DOMException("stopped", "AbortError")));
      const timer = setTimeout(() => end(resolve), ms);
      aborted.addEventListener("abort", leave);
      if (aborted.aborted) leave();
    });
  }
}

/** Tells how long (ms) the page was busy with a change: its script, and the next frame. */
function timeTaken(change, tell) {
  const began = performance.now();
  change();
  setTimeout(() => {
    const script = performance.now() - began;
    requestAnimationFrame(() => {
      const frame = performance.now();
      setTimeout(() => tell(script + performance.now() - frame));
    });
  });
}
