// An answer's tokens with their probabilities, and where in the shown text each of them is.

/** Collects [text, logprob, [[text, logprob], ...]] from a response's log-probabilities. A character
 * whose bytes come in several tokens belongs to the last of them. */
export class TokenReader {
  constructor() {
    this.tokens = [];
    this.decoder = new TextDecoder();
  }

  add(entries) {
    for (const { token, bytes, logprob, top_logprobs: others } of entries) {
      const text = bytes ? this.decoder.decode(new Uint8Array(bytes), { stream: true }) : token;
      this.tokens.push([text, logprob, others.map((other) => [other.token, other.logprob])]);
    }
  }
}

/** Where each token begins in the text they make, and at last where that ends. */
export function startsOf(tokens) {
  const starts = [0];
  for (const [text] of tokens) starts.push(starts[starts.length - 1] + text.length);
  return starts;
}

/** Of the token that the text's character `at` belongs to. */
export function tokenAt(starts, at) {
  let low = 0;
  let high = starts.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

const WORD = /[\p{L}\p{N}]+|[^\p{L}\p{N}]/gu;
const FAR = 400; // characters of markup between two words that are shown side by side
const NEAR = 12; // the same of single characters, which are everywhere

/** Parts of a shown text with the place of each in its source, whose markup is not shown: {text, at};
 * at null: it is not found. Words are looked for in their order. Also where to look from then on. */
export function aligned(shown, source, from) {
  const parts = [];
  let at = from;
  for (const [word] of shown.matchAll(WORD)) {
    const found = /\s/.test(word) ? blankAt(source, at) : wordAt(word, source, at);
    parts.push({ text: word, at: found });
    if (found !== null) at = found + word.length;
  }
  return [parts, at];
}

function wordAt(word, source, from) {
  const at = source.indexOf(word, from);
  return at >= 0 && at - from < (word.length > 1 ? FAR : NEAR) ? at : null;
}

/** Behind the end of some emphasis at most. */
function blankAt(source, from) {
  const found = /^[^\p{L}\p{N}\s]*(?=\s)/u.exec(source.slice(from, from + NEAR));
  return found && from + found[0].length;
}

/** How unsure a model was, 0 to 1, of a token with this probability; sure enough is 0. */
export function doubt(logprob) {
  const p = Math.exp(logprob);
  return p >= 0.9 ? 0 : (0.9 - p) / 0.9;
}
