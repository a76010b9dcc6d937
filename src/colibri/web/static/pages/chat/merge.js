// Two tabs may change one conversation: what either did stays. A pure function.

/** `theirs` with what was done to `mine` since both were `base`. Conversations are as in tree.js: what
 * was not changed is the same object in `base` and `mine`. */
export function merged(base, mine, theirs) {
  const made = { ...theirs };
  for (const key of Object.keys(mine)) if (mine[key] !== base[key]) made[key] = mine[key];
  made.nodes = entries(base.nodes, mine.nodes, theirs.nodes);
  made.chosen = entries(base.chosen, mine.chosen, theirs.chosen);
  made.kids = entries(base.kids, mine.kids, theirs.kids, (ours, others) => [
    ...others,
    ...ours.filter((id) => !others.includes(id)),
  ]);
  made.updated = Math.max(mine.updated, theirs.updated);
  return made;
}

function entries(base, mine, theirs, both = (ours) => ours) {
  const changed = Object.entries(mine).filter(([key, value]) => value !== base[key]);
  const made = changed.map(([key, value]) => [key, Object.hasOwn(theirs, key) ? both(value, theirs[key]) : value]);
  return Object.fromEntries([...Object.entries(theirs), ...made]);
}
