// Sources: whom documents may belong to.

import { ask, get, pathOf } from "./api.js";
import { confirmed, during, fill, find, line, make, name, toast } from "./page.js";

const PAGE_ROWS = 100;
const list = find("sources-list");
const more = find("sources-more");
let next = "";
let known = -1;

async function load(after = "") {
  const answer = await get(`v1/sources?count=${PAGE_ROWS}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
  next = answer.next ?? "";
  if (after) list.append(...answer.sources.map(row));
  else fill(list, answer.sources.map(row));
  more.hidden = !next;
}

function row(source) {
  const label = line(source.id, 60);
  const attributes = { type: "button", class: "danger", "aria-label": `Delete ${label}`, "data-key": source.id };
  const remove = make("button", attributes, "Delete");
  remove.addEventListener("click", async () => {
    if (!(await confirmed(`Delete the source ${label}? Its documents stay.`))) return;
    during(remove, async () => {
      await ask("DELETE", pathOf("sources", source.id));
      toast(`The source ${label} is deleted.`);
      await load();
    });
  });
  const about = source.description && make("p", { class: "muted" }, line(source.description, 200));
  const text = make("div", { class: "grow" }, make("p", {}, name(source.id)), about);
  return make("li", {}, text, make("div", { class: "actions" }, remove));
}

find("source-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  during(event.submitter ?? form.querySelector("button"), async () => {
    const id = find("source-id").value;
    await ask("PUT", pathOf("sources", id), { description: find("source-description").value });
    toast(`The source ${line(id, 60)} is registered.`);
    form.reset();
    await load();
  });
});
more.addEventListener("click", () => during(more, () => load(next)));

export async function show(status) {
  if (status) known = status.sizes.sources;
  await load();
}

export async function update(status) {
  if (status.sizes.sources === known) return;
  known = status.sizes.sources;
  await load();
}
