// Colours for code. The library comes with the first code that names its language.
import { lazily } from "./lazily.js";

const MOST = 40_000; // characters: longer code stays as it is, colours would hold up the page
const library = lazily(() => import("../vendor/highlight.js"));

/** code: an element whose text is in that language; unknown ones stay as they are. */
export function colourise(code, language) {
  if (!language || code.textContent.length > MOST) return;
  library((hljs) => {
    if (!code.isConnected || !hljs.getLanguage(language)) return;
    // What the library gives is the text, escaped, in spans with classes of its own.
    code.innerHTML = hljs.highlight(code.textContent, { language, ignoreIllegals: true }).value;
  });
}
