// One question with its answers, and what the model makes of them.
import { capital, percent, plural } from "../../lib/format.js";
import { html, useRef, useState } from "../../lib/html.js";
import { isEnter } from "../../lib/keys.js";
import { Button, Notice } from "../../ui/parts.js";
import { MOST_OPTIONS, certainty, problemOf, rivals } from "./model.js";

/** missing: null, or why nothing can be asked of the document. */
export function Question({ question, index, answer, running, missing, onChange, onAsk, onRemove }) {
  const problem = problemOf(question) ?? missing;
  const [tried, setTried] = useState(false);
  // Nothing is wrong with a question that nobody has begun.
  const begun = tried || question.question.trim() !== "";
  const change = (next) => {
    setTried(true);
    onChange(next);
  };
  const ask = (event) => {
    if (!isEnter(event)) return;
    event.preventDefault();
    setTried(true);
    if (problem === null) onAsk();
  };
  return html`<section class="question card" aria-label=${`Question ${index + 1}`} aria-busy=${running}>
    <div class="row">
      <input
        class="input question-text"
        aria-label="Question"
        placeholder="Ask a closed question"
        value=${question.question}
        onInput=${(event) => change({ ...question, question: event.currentTarget.value })}
        onKeyDown=${ask}
      />
      <${Button} label="Ask" disabled=${problem !== null} onClick=${onAsk} />
      ${onRemove && html`<${Button} kind="plain" icon="trash" label="Remove the question" bare onClick=${onRemove} />`}
    </div>
    <${Options} question=${question} onChange=${change} onKeyDown=${ask} />
    ${problem && begun && !running && html`<p class="small muted">${problem}</p>`}
    ${answer && html`<${Answer} answer=${answer} />`}
  </section>`;
}

function Options({ question, onChange, onKeyDown }) {
  const ref = useRef(null);
  const { options } = question;
  const put = (next) => onChange({ ...question, options: next });
  const add = () => {
    put([...options, ""]);
    // Once it is there.
    setTimeout(() => ref.current?.querySelector("li:nth-last-child(2) input")?.focus());
  };
  return html`<div class="row options-row">
    <ul class="options" ref=${ref} aria-label="Answers to choose from">
      ${options.map(
        (option, index) => html`<li key=${index} class="option">
          <input
            class="input"
            aria-label=${`Answer ${index + 1}`}
            placeholder="answer"
            size=${Math.max(5, Math.min(40, option.length + 1))}
            value=${option}
            onInput=${(event) => put(options.map((old, i) => (i === index ? event.currentTarget.value : old)))}
            onKeyDown=${onKeyDown}
          />
          ${
            options.length > 2 &&
            html`<${Button} kind="plain tiny" icon="close" label=${`Remove answer ${index + 1}`} bare onClick=${() => put(options.filter((_, i) => i !== index))} />`
          }
        </li>`,
      )}
      <li><${Button} kind="plain" icon="plus" label="Answer" disabled=${options.length >= MOST_OPTIONS} onClick=${add} /></li>
    </ul>
    <label class="compare small muted" title="An answer of several tokens: by the sum of their log-probabilities, which is the answer’s own probability, or by their mean">
      compare by
      <select
        class="select"
        value=${question.normalize ?? "sum"}
        onChange=${(event) => onChange({ ...question, normalize: event.currentTarget.value })}
      >
        <option value="sum">sum</option>
        <option value="mean">mean</option>
      </select>
    </label>
  </div>`;
}

function Answer({ answer }) {
  const ranked = [...answer.choices].sort((a, b) => b.p - a.p);
  const apart = rivals(answer);
  // The server says the same of them, in the words of its API.
  const warnings = apart ? answer.warnings.filter((text) => !text.includes("normalize")) : answer.warnings;
  return html`<div class="answer" role="status">
    <p class="answer-says">
      <strong>${answer.answer}</strong>
      <span class=${`badge ${apart || answer.entropy >= 0.65 ? "warn" : ""}`} title=${`entropy ${answer.entropy.toFixed(3)}: 0 is certain, 1 is all alike`}>
        ${apart ? "the ways to compare disagree" : certainty(answer.entropy)}
      </span>
      <span class="muted small num">entropy ${answer.entropy.toFixed(2)}</span>
    </p>
    ${answer.lead_in && html`<p class="muted small">${`compared in the model’s own answer, after “${answer.lead_in}”`}</p>`}
    <table class="bars">
      <thead class="sr-only"><tr><th>answer</th><th>probability</th><th>bar</th></tr></thead>
      <tbody>
        ${ranked.map(
          (choice) => html`<tr key=${choice.option} class=${choice.option === answer.answer ? "best" : ""}>
            <td class="bars-name" title=${choice.option}>${choice.option}</td>
            <td class="bars-bar"><span style=${{ width: `${choice.p * 100}%` }}></span></td>
            <td class="num" title=${`log-probability ${choice.logprob.toFixed(3)} over ${plural(choice.tokens, "token")}`}>${percent(choice.p)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    ${
      apart &&
      html`<${Notice} kind="warn">
        ${`The answers differ in length, and how they are compared decides: compare by mean says “${apart.mean}”, compare by sum “${apart.sum}”.`}
      <//>`
    }
    ${warnings.map((text) => html`<${Notice} kind="warn">${capital(text)}<//>`)}
  </div>`;
}
