// What a key means, also where an input method is at work.

const OF_THE_METHOD = 229; // Safari's Enter that ends a composition says this, and isComposing no more

/** The key belongs to the text that is being composed, and to nobody else. */
export function isComposing(event) {
  return event.isComposing || event.keyCode === OF_THE_METHOD;
}

/** An Enter that sends something. */
export function isEnter(event) {
  return event.key === "Enter" && !event.shiftKey && !isComposing(event);
}
