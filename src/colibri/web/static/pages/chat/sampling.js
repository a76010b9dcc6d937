// What a person sets of an answer. Whatever is left empty is the server's or the model's to choose.
import { computed } from "../../lib/html.js";
import { model } from "../../lib/live.js";
import { persisted } from "../../lib/prefs.js";

/** name of the field in a request, label, bounds (the API's own), what it does. */
export const NUMBERS = [
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, hint: "0 always takes the likeliest token" },
  { name: "top_p", label: "Top p", min: 0, max: 1, step: 0.01, hint: "Choose among the likeliest tokens that together have this probability" },
  { name: "top_k", label: "Top k", min: 0, max: 2 ** 31 - 1, step: 1, hint: "Choose among the k likeliest tokens; 0 means all" },
  { name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01, hint: "Choose among tokens with at least this share of the likeliest one's probability" },
  {
    name: "repetition_penalty",
    label: "Repetition penalty",
    min: 0.01,
    max: 100,
    step: 0.01,
    hint: "Above 1, tokens that are already in the text become less likely",
  },
  { name: "max_tokens", label: "Longest answer", min: 1, max: 2 ** 31 - 1, step: 1, hint: "In tokens" },
  { name: "seed", label: "Seed", min: 0, max: 2 ** 53 - 1, step: 1, hint: "The same seed gives the same text" },
];

const EFFORTS = ["minimal", "low", "medium", "high", "xhigh", "max"];
const EMPTY = { thinking: "", effort: "", stop: "", tools: "", probabilities: true };

export const settings = persisted(
  "sampling",
  EMPTY,
  (value) => value !== null && typeof value === "object" && !Array.isArray(value),
);

/** What the model takes of them; everything, until that is known. */
export const able = computed(() => {
  const { thinking = true, reasoning_efforts: efforts = EFFORTS, tools = true } = model.value?.capabilities ?? {};
  return { thinking, efforts, tools };
});

export function set(name, value) {
  settings.value = { ...settings.value, [name]: value };
}

export function reset() {
  settings.value = EMPTY;
}

/** null, or what is wrong with the number as it was typed. */
export function numberProblem({ min, max, step }, text) {
  if (text === undefined || text === "") return null;
  const value = Number(text);
  if (!Number.isFinite(value) || value < min || value > max) return `from ${min} to ${max}`;
  return step === 1 && !Number.isInteger(value) ? "a whole number" : null;
}

/** The tools as they were pasted; throws an Error that says what is wrong. */
function toolsOf(text) {
  if (!text.trim()) return null;
  let tools;
  try {
    tools = JSON.parse(text);
  } catch {
    throw new Error("this is not valid JSON");
  }
  if (!Array.isArray(tools)) tools = [tools];
  return tools.map((tool) => {
    const made = tool?.function ? tool : { type: "function", function: tool };
    if (typeof made.function?.name !== "string") throw new Error("each tool needs a name");
    return { type: "function", function: made.function };
  });
}

/** null, or what is wrong with them. */
export function toolsProblem(text) {
  try {
    toolsOf(text);
    return null;
  } catch (error) {
    return error.message;
  }
}

/** null, or the first of the settings with which nothing can be asked, and why. */
export function settingsProblem() {
  const chosen = settings.value;
  for (const number of NUMBERS) {
    const problem = numberProblem(number, chosen[number.name]);
    if (problem) return `${number.label}: ${problem}`;
  }
  const problem = able.value.tools ? toolsProblem(chosen.tools ?? "") : null;
  return problem && `Tools: ${problem}`;
}

/** Fields of a request. Throws an Error where a setting is wrong: none is left out silently. */
export function requestFields() {
  const problem = settingsProblem();
  if (problem) throw new Error(`A setting is not valid: ${problem}. Change it in the settings.`);
  const chosen = settings.value;
  const fields = {};
  for (const number of NUMBERS) {
    const text = chosen[number.name];
    if (text !== undefined && text !== "") fields[number.name] = Number(text);
  }
  const { thinking, efforts, tools: takesTools } = able.value;
  if (thinking && chosen.thinking) fields.enable_thinking = chosen.thinking === "on";
  if (efforts.includes(chosen.effort)) fields.reasoning_effort = chosen.effort;
  const stop = (chosen.stop ?? "").split("\n").filter(Boolean);
  if (stop.length) fields.stop = stop;
  if (chosen.probabilities !== false) Object.assign(fields, { logprobs: true, top_logprobs: 5 });
  const tools = takesTools ? toolsOf(chosen.tools ?? "") : null;
  if (tools) fields.tools = tools;
  return fields;
}
