// Brio: closed questions about one document, which is read once. The model says how likely each of the
// given answers is, where the answer that it begins itself would name one.
import { postJson } from "../lib/api.js";
import { count } from "../lib/format.js";
import { html, useState } from "../lib/html.js";
import { persisted } from "../lib/prefs.js";
import { Mute, mute } from "../ui/mute.js";
import { Button, Notice } from "../ui/parts.js";
import { Document } from "./brio/document.js";
import { Question } from "./brio/question.js";
import { emptyQuestion, problemOf, requestOf, takeAnswers } from "./brio/model.js";

function isQuestion(value) {
  const { question, options } = value ?? {};
  return typeof question === "string" && Array.isArray(options) && options.every((each) => typeof each === "string");
}

const kept = persisted("brio", { questions: [emptyQuestion()] }, isKept);
/** {text, name}; of this tab. */
const paper = persisted("document", { text: "", name: null }, isPaper, () => sessionStorage);

function isPaper(value) {
  return typeof value?.text === "string" && (value.name === null || typeof value.name === "string");
}

function isKept(value) {
  return Array.isArray(value?.questions) && value.questions.length > 0 && value.questions.every(isQuestion);
}

export default function BrioPage() {
  const { text, name } = paper.value;
  const [answers, setAnswers] = useState(new Map()); // index of a question -> its answer
  const [usage, setUsage] = useState(null);
  const [running, setRunning] = useState(null);
  const [failure, setFailure] = useState(null);
  const questions = kept.value.questions;

  const put = (list) => (kept.value = { ...kept.value, questions: list });
  const change = (index, question) => {
    put(questions.map((old, i) => (i === index ? question : old)));
    forget((key) => key === index);
  };
  /** Answers to what was asked before. */
  const forget = (which) => setAnswers((old) => new Map([...old].filter(([key]) => !which(key))));
  const setDocument = (next, from = null) => {
    paper.value = { text: next, name: from };
    setAnswers(new Map());
    setUsage(null);
    setFailure(null);
  };
  const remove = (index) => {
    put(questions.filter((_, i) => i !== index));
    setAnswers((old) => new Map([...old].flatMap(([key, value]) => (key === index ? [] : [[key > index ? key - 1 : key, value]]))));
  };

  const ask = async (indices) => {
    const controller = new AbortController();
    setRunning({ controller, indices });
    setFailure(null);
    try {
      const reply = await postJson("v1/score", requestOf(text, indices.map((i) => questions[i])), controller);
      setAnswers((old) => new Map([...old, ...takeAnswers(reply, indices)]));
      setUsage(reply.usage);
    } catch (error) {
      if (error.name !== "AbortError") setFailure(error.message);
    } finally {
      setRunning(null);
    }
  };
  const ready = questions.map((question, index) => (problemOf(question) === null ? index : -1)).filter((i) => i >= 0);
  const missing = obstacle(running, text);

  return html`<div class="page brio">
    <div class="page-head">
      <h1>Brio</h1>
      <p class="muted">Closed questions about a document. ${how()}</p>
    </div>
    ${mute.value === "tokenizer" && html`<${Mute} />`}
    <div class="brio-columns">
      <${Document} ...${{ text, name, onChange: setDocument }} />
      <section class="questions" aria-label="Questions">
        ${questions.map(
          (question, index) => html`<${Question}
            key=${index}
            ...${{ question, index, answer: answers.get(index) ?? null }}
            running=${running?.indices.includes(index) ?? false}
            missing=${missing}
            onChange=${(next) => change(index, next)}
            onAsk=${() => ask([index])}
            onRemove=${questions.length > 1 ? () => remove(index) : null}
          />`,
        )}
        ${failure && html`<${Notice} kind="danger" role="alert">${failure}<//>`}
        <div class="row">
          <${Button} icon="plus" label="Add a question" onClick=${() => put([...questions, emptyQuestion()])} />
          <span class="spacer"></span>
          ${
            running
              ? html`<${Button} icon="stop" label="Stop" onClick=${() => running.controller.abort()} />`
              : html`<${Button} kind="primary" label=${ready.length > 1 ? `Ask all ${ready.length}` : "Ask"} disabled=${missing !== null || ready.length === 0} onClick=${() => ask(ready)} />`
          }
        </div>
        <${Usage} usage=${usage} running=${running !== null} />
      </section>
    </div>
  </div>`;
}

/** Without a chat template the answers go on right behind the question. */
function how() {
  return mute.value === null
    ? "The model begins an answer of its own, and says how likely each of yours is in its place."
    : "The model says how likely each answer is.";
}

/** Why nothing can be asked; null: it can. */
function obstacle(running, text) {
  if (mute.value === "tokenizer") return "This model does not read text.";
  if (running) return "Another question is being asked.";
  return text.trim() === "" ? "Add a document first." : null;
}

const FIGURES = [
  ["prompt tokens", "prompt_tokens", "document and question, counted for each question"],
  ["tokens written", "completion_tokens", "of the answers that the model began, to hold yours against"],
  ["tokens computed", "read_tokens", "all of these, and of your answers, that were not known from before"],
];

/** What that took. */
function Usage({ usage, running }) {
  if (running) return html`<p class="muted small" role="status">Reading…</p>`;
  if (!usage) return null;
  return html`<dl class="usage card num" aria-label="What it took">
    ${FIGURES.map(
      ([name, field, says]) => html`<div key=${field}><dt>${name}</dt><dd>${count(usage[field])}</dd><dd class="says">${says}</dd></div>`,
    )}
  </dl>`;
}
