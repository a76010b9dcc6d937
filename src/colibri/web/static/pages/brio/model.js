// Questions, what is asked of the server, and what its numbers mean in words. Pure functions.

export const MOST_OPTIONS = 64; // of one question, and questions of one request: the server's bounds
export const KINDS = [".txt", ".md", ".json", ".csv"];
export const MOST_BYTES = 8e6;

export function emptyQuestion() {
  return { question: "", options: ["yes", "no"] };
}

/** null, or what is missing. */
export function problemOf({ question, options }) {
  const given = options.filter((option) => option !== "");
  if (question.trim() === "") return "Write a question first.";
  if (given.length < 2) return "Give at least two answers.";
  if (new Set(given).size < given.length) return "Two of the answers are the same.";
  return null;
}

export function requestOf(text, questions) {
  return {
    state: text,
    questions: questions.map(({ question, options, normalize }) => ({
      question,
      options: options.filter((option) => option !== ""),
      ...(normalize ? { normalize } : {}),
    })),
  };
}

/** [index, answer] of each question that was asked. */
export function takeAnswers(reply, indices) {
  return indices.map((index, i) => [index, reply.answers[i]]);
}

/** entropy: 0 (all on one answer) to 1 (all alike). */
export function certainty(entropy) {
  if (entropy < 0.1) return "certain";
  if (entropy < 0.35) return "fairly sure";
  if (entropy < 0.65) return "leaning";
  if (entropy < 0.9) return "unsure";
  return "undecided";
}

/** null, or the two answers {mean, sum}, where the ways to compare do not agree. */
export function rivals({ choices }) {
  const best = (score) => choices.reduce((a, b) => (score(b) > score(a) ? b : a)).option;
  const mean = best(({ logprob, tokens }) => logprob / tokens);
  const sum = best(({ logprob }) => logprob);
  return mean === sum ? null : { mean, sum };
}

/** The text of a dropped or chosen file. Throws an Error that says why it is not taken. */
export async function textOf(file) {
  const kind = /\.[^.]*$/.exec(file.name.toLowerCase())?.[0] ?? "";
  if (!KINDS.includes(kind)) {
    throw new Error(`${file.name}: only text files are read here (${KINDS.join(", ")}), not ${kind || "a file without an ending"}`);
  }
  if (file.size > MOST_BYTES) throw new Error(`${file.name}: more than ${MOST_BYTES / 1e6} MB`);
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name}: this is not text in UTF-8`);
  }
  if (text.includes("\0")) throw new Error(`${file.name}: this is not text`);
  if (text.trim() === "") throw new Error(`${file.name}: it is empty`);
  return text;
}
