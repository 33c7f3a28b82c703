// A document as text, with the bytes that matched marked.
//
// Spans are of bytes. The bytes are cut where spans begin and end, and each piece is decoded by itself; no piece begins
// within a character. Every piece becomes a text node.

import { make, visible } from "./page.js";

export const WINDOW_BYTES = 65536;

// The part of a document to show: all of a small one, else the surroundings of what matched.
export function windowOf(size, spans) {
  if (size <= WINDOW_BYTES || spans.length === 0) return { begin: 0, end: Math.min(size, WINDOW_BYTES) };
  const first = spans[0].start;
  const begin = Math.max(0, Math.min(first - WINDOW_BYTES / 4, size - WINDOW_BYTES));
  return { begin: begin - (begin % 4), end: Math.min(begin + WINDOW_BYTES, size) };
}

// Bytes of UTF-8 that belong to a character before the window.
function strayBytes(data, begin, encoding) {
  let count = 0;
  while (begin > 0 && encoding === "utf-8" && count < 3 && (data[count] & 0xc0) === 0x80) count += 1;
  return count;
}

// Elements for the bytes `data`, which are those of the document from `begin` on.
export function highlighted(data, begin, encoding, spans) {
  const end = begin + data.length;
  const first = begin + strayBytes(data, begin, encoding);
  const shown = spans.map((span) => ({ ...span, start: Math.max(span.start, first), end: Math.min(span.end, end) }));
  const inside = shown.filter((span) => span.start < span.end);
  const borders = new Set([first, end]);
  for (const span of inside) borders.add(span.start).add(span.end);
  const places = [...borders].sort((one, other) => one - other);
  const pieces = [];
  for (let place = 0; place + 1 < places.length; place += 1) {
    const [from, to] = [places[place], places[place + 1]];
    const decoder = new TextDecoder(encoding, { ignoreBOM: from > 0 });
    // The last piece may end within a character, which is then left out.
    const text = visible(decoder.decode(data.subarray(from - begin, to - begin), { stream: to === end }));
    const kinds = new Set(inside.filter((span) => span.start <= from && to <= span.end).map((span) => span.kind));
    pieces.push(kinds.size ? make("mark", { class: [...kinds].join(" ") }, text) : text);
  }
  return pieces;
}
