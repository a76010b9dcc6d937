// Colours of the style sheet as numbers, for canvases.
import { effect } from "./html.js";
import { theme } from "./prefs.js";

/** "--accent" -> [r, g, b] */
export function colour(name) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const hex = Number.parseInt(pen.fillStyle.slice(1, 7), 16);
  return [(hex >> 16) & 255, (hex >> 8) & 255, hex & 255];
}

export function css([r, g, b], alpha = 1) {
  return `rgb(${r} ${g} ${b} / ${alpha})`;
}

export function isDark() {
  return getComputedStyle(document.documentElement).colorScheme.trim() === "dark";
}

/** Now and whenever the colours change; returns what ends that. */
export function onColours(callback) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", callback);
  let wanted = true;
  const stop = effect(() => {
    theme.value;
    queueMicrotask(() => wanted && callback());
  });
  return () => {
    wanted = false;
    stop();
    system.removeEventListener("change", callback);
  };
}
