// Formulas: $...$ and \\(...\\) in a line, $$...$$ and \\[...\\] between lines. They are found here as code that names
// itself a formula, and drawn as MathML, which needs no styles. The library comes with the first of them.
import DOMPurify from "../vendor/purify.js";
import { lazily } from "./lazily.js";

const MOST = 10_000; // characters of a formula
const library = lazily(() => import("../vendor/temml.js"));
const PATTERNS = [
  [/^\$\$([^$]+?)\$\$/, true],
  [/^\\\[([\s\S]+?)\\\]/, true],
  [/^\\\(([\s\S]+?)\\\)/, false],
  // A price is no formula: no blank within the signs, and no digit behind them.
  [/^\$(?!\s)((?:\\.|[^$\\\n])+?)(?<!\s)\$(?!\d)/, false],
];

/** For marked: a formula in a text. */
export const formula = {
  name: "formula",
  level: "inline",
  start: (source) => {
    const at = source.search(/\$|\\[([]/);
    return at < 0 ? undefined : at;
  },
  tokenizer: (source) => {
    for (const [pattern, display] of PATTERNS) {
      const found = pattern.exec(source);
      if (found) return { type: "formula", raw: found[0], text: found[1].trim(), display };
    }
    return undefined;
  },
  renderer: ({ text, display }) => {
    const escaped = text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
    return `<code class="language-formula-${display ? "block" : "line"}">${escaped}</code>`;
  },
};

/** Draws the formulas within an element; one that is none stays as it was written. */
export function drawFormulas(element) {
  for (const code of element.querySelectorAll('code[class^="language-formula-"]')) {
    const source = code.textContent;
    if (code.closest("pre") || source.length > MOST) continue;
    library((temml) => code.isConnected && code.replaceWith(...drawn(temml, source, code.className.endsWith("block"))));
  }
}

function drawn(temml, source, displayMode) {
  try {
    const markup = temml.renderToString(source, { displayMode, throwOnError: true, trust: false, maxExpand: 200 });
    // The policy allows no styles, and a parser that meets one complains. Quotes within a text are escaped.
    const fragment = DOMPurify.sanitize(markup.replaceAll(/ style="[^"]*"/g, ""), {
      USE_PROFILES: { mathMl: true },
      FORBID_ATTR: ["style", "id", "href"],
      RETURN_DOM_FRAGMENT: true,
    });
    const frame = document.createElement("span");
    frame.className = displayMode ? "formula block-formula" : "formula";
    frame.append(fragment);
    return [frame];
  } catch (error) {
    if (error?.name !== "ParseError" && !(error instanceof temml.ParseError)) throw error;
    const code = document.createElement("code");
    code.textContent = source;
    return [code];
  }
}
