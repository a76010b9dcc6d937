// What a person chose, kept in this browser.
import { effect, signal } from "./html.js";

const PREFIX = "colibri.";

/** A signal that outlives a reload. valid: whether a stored value is still one; older versions wrote
 * what they liked. */
export function persisted(name, initial, valid = () => true, storage = () => localStorage) {
  const kept = signal(read(name, initial, valid, storage));
  let first = true;
  effect(() => {
    const value = kept.value;
    if (first) first = false;
    else write(name, value, storage);
  });
  return kept;
}

function read(name, initial, valid, storage) {
  try {
    const text = storage().getItem(PREFIX + name);
    if (text === null) return initial;
    const value = JSON.parse(text);
    return valid(value) ? value : initial;
  } catch {
    return initial;
  }
}

function write(name, value, storage) {
  try {
    if (value === null || value === undefined) storage().removeItem(PREFIX + name);
    else storage().setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Full or forbidden: the choice lasts until the page is left.
  }
}

/** null: as the system has it. */
export const theme = persisted("theme", null, (value) => value === "light" || value === "dark");

const system = matchMedia("(prefers-color-scheme: dark)");
const dress = () => (document.documentElement.dataset.theme = theme.value ?? (system.matches ? "dark" : "light"));
system.addEventListener("change", dress);
effect(dress);
