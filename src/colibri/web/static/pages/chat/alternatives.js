// A small table beside a token: what else could have stood there, and how likely that was.
import { html, signal, useLayoutEffect, useRef } from "../../lib/html.js";
import { percent, visible } from "../../lib/format.js";

const ID = "alternatives";
const shown = signal(null); // {element, box, token}

export function showAlternatives(element, token) {
  hideAlternatives();
  if (!token) return;
  element.setAttribute("aria-describedby", ID);
  shown.value = { element, box: element.getBoundingClientRect(), token };
}

export function hideAlternatives() {
  shown.value?.element.removeAttribute("aria-describedby");
  shown.value = null;
}

addEventListener("scroll", hideAlternatives, { capture: true, passive: true });

export function Alternatives() {
  const ref = useRef(null);
  const value = shown.value;
  useLayoutEffect(() => {
    if (value) place(ref.current, value.box);
  }, [value]);
  if (!value) return null;
  const [text, logprob, others] = value.token;
  const rows = others.some(([other]) => other === text) ? others : [[text, logprob], ...others];
  return html`<div class="alternatives" id=${ID} role="tooltip" ref=${ref}>
    <table>
      <thead class="sr-only"><tr><th>token</th><th>probability</th></tr></thead>
      <tbody>
        ${rows.map(
          ([other, value]) => html`<tr class=${other === text ? "taken" : ""}>
            <td><code>${other === "" ? "(part of a character)" : visible(other)}</code></td>
            <td class="num">${percent(Math.exp(value))}</td>
            <td class="bar"><span style=${{ width: `${Math.exp(value) * 100}%` }}></span></td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function place(card, box) {
  const { width, height } = card.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left, innerWidth - width - 8));
  const below = box.bottom + 6;
  const top = below + height > innerHeight - 8 ? box.top - height - 6 : below;
  card.style.left = `${left}px`;
  card.style.top = `${Math.max(8, top)}px`;
}
