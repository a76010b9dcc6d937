// A model's text as markup. Whatever it wrote, what comes out is inert: its HTML is shown as text, an
// image is a link, links lead away without a trace. The sanitiser behind that should find nothing.
import DOMPurify from "../vendor/purify.js";
import { Marked } from "../vendor/marked.js";
import { formula } from "./maths.js";

const TAGS =
  "p br hr h1 h2 h3 h4 h5 h6 strong em b i u s del sub sup kbd code pre blockquote ul ol li table thead tbody tr th td a input";
const RULES = {
  ALLOWED_TAGS: TAGS.split(" "),
  ALLOWED_ATTR: ["href", "title", "start", "align", "class", "type", "checked", "disabled"],
  ADD_URI_SAFE_ATTR: ["start", "align", "type"], // words and numbers, which the rule for links would drop
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  RETURN_DOM_FRAGMENT: true,
};
const marked = new Marked({ gfm: true, breaks: true, extensions: [formula] });

/** Top-level blocks: {token, raw, start}; start: where in the text it begins. */
export function blocksOf(text) {
  let at = 0;
  const blocks = [];
  for (const token of marked.lexer(text)) {
    if (token.type !== "space" && token.type !== "def") {
      blocks.push({ token, raw: token.raw, start: at });
    }
    at += token.raw.length;
  }
  return blocks;
}

/** A block as a fragment, to be put into the page as it is. */
export function fragmentOf(token) {
  return DOMPurify.sanitize(marked.parser([tamed(token)]), RULES);
}

const BARE_TAG = /^<\/?(?:br|sub|sup|kbd|b|i|u|s|em|strong|del)\s*\/?>$/i;

function tamed(token) {
  if (Array.isArray(token)) return token.map(tamed);
  if (token === null || typeof token !== "object") return token;
  if (token.type === "html" && !BARE_TAG.test(token.raw.trim())) return asText(token);
  if (token.type === "image") return asLink(token);
  return Object.fromEntries(
    Object.entries(token).map(([name, value]) => [name, nested(name) ? tamed(value) : value]),
  );
}

function asText({ raw, block }) {
  const text = { type: "text", raw, text: raw, escaped: false };
  return block ? { type: "paragraph", raw, text: raw, tokens: [text] } : text;
}

/** Nothing is fetched unless somebody wants to. */
function asLink({ raw, text, href, title }) {
  const name = text || "image";
  const tokens = [{ type: "text", raw: name, text: name, escaped: false }];
  return { type: "link", raw, href, title, text: name, tokens };
}

function nested(name) {
  return name === "tokens" || name === "items" || name === "header" || name === "rows";
}

DOMPurify.addHook("uponSanitizeElement", (node) => {
  // Of inputs only the boxes of task lists.
  if (node.nodeName === "INPUT" && node.getAttribute("type") !== "checkbox") node.remove();
});

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  if (node.nodeName === "INPUT") node.setAttribute("disabled", "");
  const language = /^language-[\w+#.-]{1,30}$/.exec(node.getAttribute("class") ?? "");
  if (language === null || node.nodeName !== "CODE") node.removeAttribute("class");
});
