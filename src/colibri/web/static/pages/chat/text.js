// An answer's text: markdown as it grows, code to copy, and the model's doubts as shading.
import { h, html, render, useLayoutEffect, useMemo, useRef } from "../../lib/html.js";
import { colourise } from "../../lib/highlight.js";
import { blocksOf, fragmentOf } from "../../lib/markdown.js";
import { drawFormulas } from "../../lib/maths.js";
import { CopyButton } from "../../ui/parts.js";
import { hideAlternatives, showAlternatives } from "./alternatives.js";
import { aligned, doubt, startsOf, tokenAt } from "./tokens.js";

/** tokens: [] where there are none to show. */
export function Text({ content, tokens, shaded }) {
  const blocks = useMemo(() => blocksOf(content), [content]);
  const marks = shaded && tokens.length > 0 ? tokens : null;
  const starts = useMemo(() => marks && startsOf(marks), [marks, content]);
  const ref = useRef(null);
  // One token is reached by Tab, the others from there; the first of all may be markup, and not shown.
  useLayoutEffect(() => {
    if (!marks || ref.current.querySelector('[data-token][tabindex="0"]')) return;
    const first = ref.current.querySelector("[data-token]");
    if (first) first.tabIndex = 0;
  });
  return html`<div
    ref=${ref}
    class=${`prose ${marks ? "shaded" : ""}`}
    ...${marks ? listeners(marks) : {}}
    role=${marks ? "group" : undefined}
    aria-label=${marks ? "Text with probabilities" : undefined}
  >
    ${blocks.map(
      (block, index) => html`<${Block} key=${index} ...${block} marks=${marks} starts=${starts} content=${content} />`,
    )}
  </div>`;
}

/** Its inside is the sanitiser's fragment, and no business of preact's. */
function Block({ token, raw, start, marks, starts, content }) {
  const ref = useRef(null);
  // A block that did not change keeps its elements, and with them what is selected in it.
  useLayoutEffect(() => {
    const fragment = fragmentOf(token);
    fragment.querySelectorAll("table").forEach(inScroller);
    fragment.querySelectorAll("input").forEach((box) => box.setAttribute("aria-label", box.checked ? "done" : "to do"));
    if (marks) shade(fragment, marks, starts, content, start);
    fragment.querySelectorAll("pre").forEach(withHead);
    ref.current.replaceChildren(fragment);
    if (marks) return; // doubts are of the text as the model wrote it
    drawFormulas(ref.current);
    for (const code of ref.current.querySelectorAll("pre code")) colourise(code, languageOf(code));
  }, [raw, start, marks && countUpTo(starts, start + raw.length)]);
  return h("div", { ref, class: "block" });
}

function countUpTo(starts, end) {
  return tokenAt(starts, end);
}

function inScroller(table) {
  const scroller = document.createElement("div");
  scroller.className = "scroller";
  table.replaceWith(scroller);
  scroller.append(table);
}

function languageOf(code) {
  return /language-(\S+)/.exec(code.className)?.[1] ?? "";
}

function withHead(pre) {
  const code = pre.querySelector("code") ?? pre;
  const language = languageOf(code);
  const frame = document.createElement("div");
  frame.className = "code";
  const head = document.createElement("div");
  head.className = "code-head";
  pre.replaceWith(frame);
  pre.tabIndex = 0; // wide code is scrolled by keys as well
  frame.append(head, pre);
  const text = () => code.textContent.replace(/\n$/, "");
  render(html`<span>${language || "text"}</span><${CopyButton} text=${text} label="Copy code" />`, head);
}

/** Wraps every token that is found into an element that says which it is. */
function shade(fragment, tokens, starts, source, from) {
  const walker = document.createTreeWalker(fragment, NodeFilter.SHOW_TEXT);
  const nodes = [];
  while (walker.nextNode()) nodes.push(walker.currentNode);
  let at = from;
  for (const node of nodes) {
    if (!node.data.trim()) continue; // between the rows of a list or table
    const [parts, next] = aligned(node.data, source, at);
    at = next;
    node.replaceWith(...elementsOf(parts, tokens, starts));
  }
}

function elementsOf(parts, tokens, starts) {
  const made = [];
  let last = null;
  for (const { text, at } of parts) {
    for (const [piece, index] of pieces(text, at, starts)) {
      if (last !== null && last.index === index) {
        last.element.append(piece);
        continue;
      }
      const element = index === null ? document.createDocumentFragment() : tokenElement(index, tokens[index]);
      element.append(piece);
      made.push(element);
      last = index === null ? null : { index, element };
    }
  }
  return made;
}

/** A word in the parts that its tokens have of it. */
function* pieces(text, at, starts) {
  if (at === null) {
    yield [text, null];
    return;
  }
  for (let done = 0; done < text.length; ) {
    const index = tokenAt(starts, at + done);
    const end = index + 2 < starts.length ? starts[index + 1] - at : text.length;
    const cut = Math.min(text.length, Math.max(end, done + 1));
    yield [text.slice(done, cut), index];
    done = cut;
  }
}

function tokenElement(index, [, logprob]) {
  const element = document.createElement("span");
  element.className = "token";
  element.dataset.token = index;
  const unsure = doubt(logprob);
  if (unsure > 0) element.style.setProperty("--doubt", unsure.toFixed(3));
  element.tabIndex = -1;
  return element;
}

function listeners(tokens) {
  const of = (event) => event.target.closest?.("[data-token]");
  const show = (event) => {
    const element = of(event);
    if (element) showAlternatives(element, tokens[Number(element.dataset.token)]);
  };
  const walk = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const element = of(event);
    if (event.key === "Escape") hideAlternatives();
    if (!step || !element) return;
    const all = [...event.currentTarget.querySelectorAll("[data-token]")];
    const next = all[all.indexOf(element) + step];
    if (next) {
      event.preventDefault();
      element.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }
  };
  return {
    onPointerOver: show,
    onPointerLeave: hideAlternatives,
    onFocusIn: show,
    onFocusOut: hideAlternatives,
    onClick: show,
    onKeyDown: walk,
  };
}
