// A model's text as markup. Whatever it wrote, what comes out is inert: a short list of elements
// and attributes, links that lead away without a trace, no image that would be fetched.
import DOMPurify from "../vendor/purify.js";
import { lexer, parser } from "../vendor/marked.js";

const TAGS =
  "p br hr h1 h2 h3 h4 h5 h6 strong em del s sub sup code pre blockquote ul ol li table thead tbody tr th td a kbd input";
const RULES = {
  ALLOWED_TAGS: TAGS.split(" "),
  ALLOWED_ATTR: ["href", "title", "start", "align", "class", "type", "checked", "disabled"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  RETURN_DOM_FRAGMENT: true,
};
const OPTIONS = { gfm: true, breaks: true };

/** Top-level blocks: {token, raw, start}; start: where in the text it begins. */
export function blocksOf(text) {
  let at = 0;
  const blocks = [];
  for (const token of lexer(text, OPTIONS)) {
    if (token.type !== "space" && token.type !== "def") {
      blocks.push({ token, raw: token.raw, start: at });
    }
    at += token.raw.length;
  }
  return blocks;
}

/** A block as a fragment, to be put into the page as it is. */
export function fragmentOf(token) {
  return DOMPurify.sanitize(parser([withoutImages(token)], OPTIONS), RULES);
}

/** An image becomes a link to it: nothing is fetched unless somebody wants to. */
function withoutImages(token) {
  if (Array.isArray(token)) return token.map(withoutImages);
  if (token === null || typeof token !== "object") return token;
  if (token.type === "image") {
    const text = token.text || "image";
    const tokens = [{ type: "text", raw: text, text, escaped: false }];
    return { type: "link", raw: token.raw, href: token.href, title: token.title, text, tokens };
  }
  return Object.fromEntries(
    Object.entries(token).map(([name, value]) => [name, nested(name) ? withoutImages(value) : value]),
  );
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
