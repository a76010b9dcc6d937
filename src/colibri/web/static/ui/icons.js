// Drawn on a grid of 24, as strokes in the colour of the text.
import { html } from "../lib/html.js";

const PATHS = {
  chat: "M4 5.500A1.5 1.5 0 0 1 5.5 4h13A1.5 1.5 0 0 1 20 5.500v9a1.5 1.5 0 0 1-1.5 1.500H10l-4.5 4v-4A1.5 1.5 0 0 1 4 14.500z",
  brio: "M5 19V10M12 19V5M19 19v-6",
  brain: "M5 5h4v4H5zM15 5h4v4h-4zM5 15h4v4H5zM15 15h4v4h-4zM9 7h6M7 9v6M17 9v6M9 17h6",
  atlas: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  profile: "M4 6h9M4 12h15M4 18h6M17 6h3M14 18h6",
  model: "M12 3l8 4.500v9L12 21l-8-4.500v-9zM4 7.500l8 4.5 8-4.500M12 12v9",
  minus: "M5 12h14",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h10v10H9zM15 9V5H5v10h4",
  check: "M5 12.500l4.5 4.500L19 7.5",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  retry: "M20 12a8 8 0 1 1-2.5-5.800M20 4v4.500h-4.5",
  trash: "M5 7h14M10 7V4.500h4V7M7 7l1 12.500h8L17 7",
  settings: "M4 8h9M19 8h1M4 16h1M11 16h9M13 8a3 3 0 1 0 6 0 3 3 0 0 0-6 0zM5 16a3 3 0 1 0 6 0 3 3 0 0 0-6 0z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.500v2M12 19.500v2M2.5 12h2M19.5 12h2M5.3 5.300l1.4 1.400M17.3 17.300l1.4 1.400M5.3 18.700l1.4-1.400M17.3 6.700l1.4-1.4",
  moon: "M20 14.500A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.500z",
  auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  key: "M14 10a4 4 0 1 0-3.5 4L13 16.500h2V19h2.500v-3.500z",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  down: "M6 10l6 6 6-6",
  play: "M8 5l11 7-11 7z",
  pause: "M8 5v14M16 5v14",
  search: "M10.5 4a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zM15.5 15.500L20 20",
  close: "M6 6l12 12M18 6L6 18",
  warn: "M12 4l9 16H3zM12 10v4M12 17v.01",
  shade: "M4 7h16M4 12h7M4 17h11M15 12h.01M19 12h.01M18 17h2",
  list: "M4 6h16M4 12h16M4 18h16",
  export: "M12 15V4M8 8l4-4 4 4M5 14v5h14v-5",
  import: "M12 4v11M8 11l4 4 4-4M5 14v5h14v-5",
  tool: "M14.5 6.500a4 4 0 0 1 5-1l-2.5 2.5 1 2 2 .5 1-1a4 4 0 0 1-5.5 4L9 20l-3-3 6.5-6.500a4 4 0 0 1 2-4z",
  think: "M9 18h6M10 21h4M8.5 15A6 6 0 1 1 15.5 15c-.7.6-1 1.3-1 3h-5c0-1.7-.3-2.4-1-3z",
  doc: "M6 3.500h8l4 4V20.500H6zM14 3.500v4h4M9 12h6M9 16h6",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
