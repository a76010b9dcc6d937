// A library that is fetched when it is first needed.

/** fetch: () -> promise of a module. Returns a function that hands its default export to a callback: at once
 * where it is there. Where it cannot be had nothing happens, and the next one asks again. */
export function lazily(fetch) {
  let found = null;
  let asked = null;
  return (use) => {
    if (found !== null) {
      use(found);
      return;
    }
    asked ??= fetch().then((module) => (found = module.default));
    asked.then(use, () => (asked = null));
  };
}
