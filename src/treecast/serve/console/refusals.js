// Documents that were refused: when, whose, and why.

import { get } from "./api.js";
import { bytes, fill, find, isBusy, make, name, time, visible } from "./page.js";

const list = find("refusals-list");
let known = -1;

async function load() {
  const answer = await get("v1/refusals?count=100");
  fill(list, answer.refusals.map(row));
  list.hidden = answer.refusals.length === 0;
  find("refusals-empty").hidden = !list.hidden;
}

function row(refusal) {
  const label = `How refused document ${refusal.number} began`;
  const text = make("pre", { class: "payload", tabindex: "0", role: "region", "aria-label": label });
  text.append(visible(refusal.excerpt ?? ""));
  const summary = make("summary", { "data-key": refusal.number }, "How it began");
  const excerpt = refusal.excerpt && make("details", {}, summary, text);
  return make(
    "li",
    {},
    make(
      "div",
      { class: "grow" },
      make("p", {}, make("code", { class: "pill warn" }, refusal.code), " ", visible(refusal.detail)),
      refusal.hint && make("p", { class: "note" }, visible(refusal.hint)),
      make(
        "p",
        { class: "muted" },
        ["source ", name(refusal.source, 40), refusal.id && [" · id ", name(refusal.id, 60)]].flat(),
        refusal.bytes ? ` · ${bytes(refusal.bytes)} · ` : " · ",
        time(refusal.refused),
      ),
      excerpt,
    ),
  );
}

export async function show(status) {
  if (status) known = status.totals.refused;
  await load();
}

export async function update(status) {
  if (status.totals.refused === known || isBusy(list)) return;
  known = status.totals.refused;
  await load();
}
