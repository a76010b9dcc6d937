// What the screen and the hand of whoever looks are like.
import { useEffect, useState } from "./html.js";

/** Whether a media query holds, now and whenever that changes. */
export function useMedia(query) {
  const [holds, setHolds] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const changed = () => setHolds(media.matches);
    changed();
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, [query]);
  return holds;
}

/** Whether fingers are what points here: there is no wheel then, and nothing to point at without a press. */
export function useTouch() {
  return useMedia("(pointer: coarse)");
}
