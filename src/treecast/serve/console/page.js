// Small things that all sections use: elements, texts that strangers wrote, numbers and times.
//
// Nothing here makes elements out of text. What comes from documents, ids and queries only ever becomes a text node,
// and `visible` shows characters that would be invisible or would turn the direction of writing.

export const find = (id) => document.getElementById(id);

// An element with attributes and children. `on…` are listeners; null, undefined and false are left out.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Controls, except tabs and line feeds, and everything that Unicode counts as formatting or as a separator of lines:
// soft hyphens, zero-width characters, marks and overrides of direction, tags. Joiners and the like in honest text are
// shown as well; the rest of it is readable.
const HIDDEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

const codePoint = (char) => `⟨U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

// A text of several lines, such as a document.
export function visible(text) {
  return text.replace(/\r\n?/g, "\n").replace(HIDDEN, codePoint);
}

// A text in one line, such as an id, cut where it is too long.
export function line(text, charsMax = 120) {
  const chars = Array.from(text.slice(0, 4 * charsMax));
  const cut = chars.length > charsMax || text.length > 4 * charsMax;
  const shown = visible(chars.slice(0, charsMax).join("").replace(/\s+/g, " "));
  return cut ? `${shown}…` : shown;
}

// An id in an element of its own, so that its direction of writing concerns nothing beside it.
export const name = (text, charsMax) => make("bdi", { class: "name" }, line(text, charsMax));

const whole = new Intl.NumberFormat("en");
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const number = (value) => whole.format(value);
export const rate = (value) => (value < 10 ? tenths.format(value) : whole.format(Math.round(value)));
export const plural = (value, one, many) => `${number(value)} ${value === 1 ? one : many}`;

export function bytes(value) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let place = 0;
  while (value >= 1000 && place < units.length - 1) {
    value /= 1000;
    place += 1;
  }
  return `${place && value < 10 ? tenths.format(value) : whole.format(Math.round(value))} ${units[place]}`;
}

export function duration(ms) {
  if (ms < 1000) return `${number(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${tenths.format(seconds)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

// A time of the broker's clock, as people here write it.
export function time(stamp) {
  const date = new Date(stamp);
  const isToday = date.toDateString() === new Date().toDateString();
  const text = isToday ? date.toLocaleTimeString() : date.toLocaleString();
  return make("time", { datetime: stamp, title: date.toLocaleString() }, text);
}

// New children, and the focus where it was: `data-key` says which element is which.
export function fill(list, ...children) {
  const key = list.contains(document.activeElement) && document.activeElement.dataset.key;
  list.replaceChildren(...children.flat());
  if (key) list.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

export const isBusy = (list) => list.matches(":hover") || list.contains(document.activeElement);

// A problem of the broker, or of the way to it.
export function problem(error) {
  const parts = [make("p", {}, error.code && make("code", {}, error.code), error.code && " ", visible(error.message))];
  if (error.hint) parts.push(make("p", { class: "note" }, visible(error.hint)));
  return make("div", { class: "problem" }, ...parts);
}

const TOAST_MS = 6000;
const TOASTS_MAX = 4;

// Say something at the edge of the page, and to screen readers.
export function toast(text, isProblem = false) {
  const element = make("p", { class: isProblem ? "toast bad" : "toast" }, visible(text));
  const toasts = find("toasts");
  toasts.append(element);
  while (toasts.children.length > TOASTS_MAX) toasts.firstElementChild.remove();
  setTimeout(() => element.remove(), TOAST_MS);
}

// Run what a button asks for; it cannot be pressed again meanwhile, and problems are shown.
export async function during(button, action) {
  button.disabled = true;
  try {
    await action();
  } catch (error) {
    toast(error.code ? `${error.code} ${error.message}` : error.message, true);
  } finally {
    button.disabled = false;
  }
}

// Ask before something is deleted.
export function confirmed(question, verb = "Delete") {
  const dialog = find("confirm");
  find("confirm-text").textContent = visible(question);
  find("confirm-yes").textContent = verb;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) =>
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }),
  );
}
