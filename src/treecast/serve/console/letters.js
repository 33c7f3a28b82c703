// Dead letters, and delivering them again.

import { ask, get } from "./api.js";
import { bytes, during, fill, find, isBusy, line, make, name, number, plural, time, toast } from "./page.js";

const PAGE_ROWS = 50;
const ALL_ROWS = 1000; // in one request, of "all"
const list = find("letters-list");
const more = find("letters-more");
const asked = new Set(); // letters that are on their way again
let next = "";
let known = -1;

async function load(after = "") {
  const answer = await get(`v1/letters?count=${PAGE_ROWS}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
  next = answer.next ?? "";
  const rows = answer.letters.map(row);
  if (after) list.append(...rows);
  else fill(list, rows);
  more.hidden = !next;
  list.hidden = list.children.length === 0;
  find("letters-all").hidden = list.hidden;
  find("letters-empty").hidden = !list.hidden;
}

function row(letter) {
  const button = make("button", { type: "button", "data-key": letter.letter }, "Redeliver");
  button.setAttribute("aria-label", `Redeliver letter ${letter.letter}`);
  const state = make("span", { class: "pill good", hidden: !asked.has(letter.letter) }, "on its way");
  button.addEventListener("click", () =>
    during(button, async () => {
      await ask("POST", "v1/letters:redeliver", { letters: [letter.letter] });
      asked.add(letter.letter);
      state.hidden = false;
      toast(`Letter ${letter.letter} is delivered again, to whoever receives from its subscription.`);
    }),
  );
  const title = make("span", { class: "title" }, `Letter ${number(letter.letter)}`);
  return make(
    "li",
    {},
    make(
      "div",
      { class: "grow" },
      make("p", {}, title, " for ", name(letter.subscription, 60), " ", state),
      make("p", {}, line(letter.reason, 200)),
      make(
        "p",
        { class: "muted" },
        make("a", { href: `#/documents/${letter.document}` }, `document ${number(letter.document)}`),
        ` · ${bytes(letter.bytes)} · ${plural(letter.attempts, "attempt", "attempts")} · `,
        time(letter.died),
      ),
    ),
    make("div", { class: "actions" }, button),
  );
}

// Page by page. A letter without a payload cannot be delivered, and then none of its page can: they go one by one.
async function redeliverAll() {
  let after = "";
  let [sent, failed] = [0, 0];
  do {
    const answer = await get(`v1/letters?count=${ALL_ROWS}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
    const letters = answer.letters.map((letter) => letter.letter);
    const done = await redeliver(letters);
    done.forEach((letter) => asked.add(letter));
    sent += done.length;
    failed += letters.length - done.length;
    after = answer.next ?? "";
  } while (after);
  const rest = failed ? ` ${plural(failed, "letter", "letters")} cannot be.` : "";
  toast(`${plural(sent, "letter is", "letters are")} delivered again.${rest}`, failed > 0);
  await load();
}

async function redeliver(letters) {
  if (!letters.length) return [];
  try {
    await ask("POST", "v1/letters:redeliver", { letters });
    return letters;
  } catch (error) {
    if (![404, 409].includes(error.status)) throw error;
  }
  if (letters.length === 1) return [];
  const middle = letters.length >> 1; // those that can be are found by halves
  return [...(await redeliver(letters.slice(0, middle))), ...(await redeliver(letters.slice(middle)))];
}

more.addEventListener("click", () => during(more, () => load(next)));
find("letters-all").addEventListener("click", (event) => during(event.target, redeliverAll));

export async function show(status) {
  if (status) known = status.sizes.letters;
  await load();
}

export async function update(status) {
  if (status.sizes.letters === known || isBusy(list)) return;
  known = status.sizes.letters;
  await load();
}
