// A colour for each topic. Eight are told apart by the colour-blind too; beyond them hues go round.
import { colour, isDark } from "../../lib/colours.js";

const NAMED = 8;

export function palette(topics) {
  return topics.map((_, t) => (t < NAMED ? colour(`--cat-${t + 1}`) : hue((t - NAMED) * 137.5 + 20)));
}

function hue(degrees) {
  const light = isDark() ? 0.68 : 0.42;
  const reach = 0.6 * Math.min(light, 1 - light);
  const channel = (n) => {
    const k = (n + degrees / 30) % 12;
    return Math.round(255 * (light - reach * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [channel(0), channel(8), channel(4)];
}
