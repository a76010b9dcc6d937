// Numbers for people. Sizes as everywhere in colibri: GB = 10^9 bytes.

const UNITS = ["B", "kB", "MB", "GB", "TB"];

/** 1234567 -> "1.23 MB" */
export function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  let unit = 0;
  let scaled = value;
  while (Math.abs(scaled) >= 999.5 && unit < UNITS.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? scaled : significant(scaled)} ${UNITS[unit]}`;
}

/** Three digits that matter: 0.123, 1.23, 12.3, 123 */
export function significant(value) {
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

/** 12345 -> "12,345" */
export function count(value) {
  return Number.isFinite(value) ? Math.round(value).toLocaleString("en-US") : "–";
}

/** (1, "step") -> "1 step", (1234, "step") -> "1,234 steps", (2, "miss", "misses") -> "2 misses" */
export function plural(value, noun, several = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : several}`;
}

/** 0.1234 -> "12.3 %" */
export function percent(share, digits = 1) {
  return Number.isFinite(share) ? `${(share * 100).toFixed(digits)} %` : "–";
}

/** 0.0123 -> "12 ms"; 83 -> "1 min 23 s" */
export function seconds(value) {
  if (!Number.isFinite(value)) return "–";
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** Seconds that something will take, which nobody knows to a hundredth. */
export function remaining(value) {
  return value < 60 ? `${Math.max(1, Math.round(value))} s` : seconds(value);
}

/** Tokens a second. */
export function rate(value) {
  return Number.isFinite(value) ? significant(value) : "–";
}

/** When, as briefly as can be. */
export function when(ms, now = Date.now()) {
  const date = new Date(ms);
  const sameDay = new Date(now).toDateString() === date.toDateString();
  return sameDay
    ? date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
    : date.toLocaleDateString([], { month: "short", day: "numeric" });
}

/** The server's sentences begin small, as programs have them. */
export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A token's text: spaces and line ends are tokens too, and have to be seen. */
export function visible(text) {
  return text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");
}
