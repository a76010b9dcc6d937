// Where names stand: inside the frame, so that at its edge they still say where to, and beside each other.

const MARGIN = 3; // CSS pixels
const STEPS = 14; // half a name's height each, up and down

/** The box of a name of that size about a middle; null: there is no room for it. taken: other boxes. */
export function placed(middle, { width, height }, room, taken) {
  const within = (value, size, whole) => Math.max(MARGIN, Math.min(whole - size - MARGIN, value));
  const x = within(middle.x - width / 2, width, room.width);
  const y = within(middle.y - height / 2, height, room.height);
  for (let step = 0; step <= STEPS; step++) {
    for (const way of step ? [-1, 1] : [0]) {
      const box = { x, y: y + (way * step * height) / 2, width, height };
      const fits = box.y >= MARGIN && box.y + height <= room.height - MARGIN;
      if (fits && !taken.some((other) => overlap(box, other))) return box;
    }
  }
  return null;
}

function overlap(a, b) {
  return (
    a.x < b.x + b.width + MARGIN &&
    b.x < a.x + a.width + MARGIN &&
    a.y < b.y + b.height &&
    b.y < a.y + a.height
  );
}
