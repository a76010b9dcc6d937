// The last minutes second by second: how fast tokens came, what was read for them, how much was at hand.
import { colour, css, onColours } from "../../lib/colours.js";
import { bytes, percent, rate } from "../../lib/format.js";
import { effect, html, useLayoutEffect, useRef } from "../../lib/html.js";
import { history } from "../../lib/live.js";
import uPlot from "../../vendor/uplot.js";

const HEIGHT = 180; // CSS pixels
const GAP_MS = 3_500; // there is something to say every second: longer ago the connection was lost
const LINES = [
  { label: "decode", scale: "tokens", colour: "--cat-3", of: (now) => now.decode_tokens_per_second },
  { label: "read", scale: "bytes", colour: "--cat-2", of: (now) => now.bytes_read_per_second },
  { label: "hits", scale: "share", colour: "--cat-1", of: ({ hits, misses }) => hits / (hits + misses) },
];
const TEXTS = {
  tokens: (value) => `${rate(value)} tok/s`,
  bytes: (value) => `${bytes(value)}/s`,
  share: (value) => percent(value, 0),
};

export function Recent() {
  const frame = useRef(null);
  useLayoutEffect(() => {
    let plot = null;
    const fit = () => plot?.setSize({ width: frame.current.clientWidth, height: HEIGHT });
    const draw = () => {
      plot?.destroy();
      plot = new uPlot(optionsOf(frame.current.clientWidth), dataOf(history.peek()), frame.current);
    };
    const resized = new ResizeObserver(fit);
    resized.observe(frame.current);
    draw();
    const stops = [onColours(draw), effect(() => plot.setData(dataOf(history.value)))];
    return () => {
      resized.disconnect();
      for (const stop of stops) stop();
      plot.destroy();
    };
  }, []);
  return html`<section class="card padded recent" aria-label="The last minutes">
    <h2>The last minutes</h2>
    <div ref=${frame} role="img" aria-label="Tokens a second, bytes read a second and hit rate over the last three minutes"></div>
  </section>`;
}

/** [seconds before now, a row for each line]; null where there is nothing to show. */
export function dataOf(entries) {
  const end = entries.at(-1)?.at ?? 0;
  const rows = [[], ...LINES.map(() => [])];
  const put = (at, values) => [(at - end) / 1000, ...values].forEach((value, i) => rows[i].push(value));
  entries.forEach((entry, i) => {
    if (i > 0 && entry.at - entries[i - 1].at > GAP_MS) put(entry.at - 1, LINES.map(() => null));
    put(
      entry.at,
      LINES.map((line) => line.of(entry)).map((value) => (Number.isFinite(value) ? value : null)),
    );
  });
  return rows;
}

function optionsOf(width) {
  const ink = css(colour("--text-3"));
  const axis = { stroke: ink, font: `11px ${getComputedStyle(document.body).fontFamily}`, grid: { stroke: css(colour("--line")), width: 1 }, ticks: { show: false } };
  const scaled = (scale, more) => {
    const values = (_, ticks) => ticks.map((tick) => (tick === 0 ? "0" : TEXTS[scale](tick)));
    return { ...axis, scale, size: 64, values, ...more };
  };
  return {
    width,
    height: HEIGHT,
    scales: {
      x: { time: false },
      tokens: { range: fromNought },
      bytes: { range: fromNought },
      share: { range: [0, 1.02] },
    },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((tick) => (tick === 0 ? "now" : `${tick} s`)) },
      scaled("tokens"),
      scaled("bytes", { side: 1, grid: { show: false } }),
    ],
    series: [
      { label: "at", value: (_, value) => (value === null ? "–" : `${Math.round(value)} s`) },
      ...LINES.map(({ label, scale, colour: name }) => ({
        label,
        scale,
        stroke: css(colour(name)),
        width: 2,
        points: { show: false },
        value: (_, value) => (value === null ? "–" : TEXTS[scale](value)),
      })),
    ],
  };
}

function fromNought(_, low, high) {
  return [0, Math.max(high * 1.1, 1)];
}
