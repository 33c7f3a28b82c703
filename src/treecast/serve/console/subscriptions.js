// Subscriptions: search, try, register, change, pause and delete.

import { ask, get, pathOf } from "./api.js";
import { confirmed, during, fill, find, isBusy, line, make, name, number, plural } from "./page.js";
import { problem, toast, visible } from "./page.js";

const PAGE_ROWS = 50;
const SEARCH_DELAY_MS = 250;
const SEARCHES_MAX = 20; // one after the other, until there is something to show
const list = find("subscriptions-list");
const more = find("subscriptions-more");
const search = find("search");
let next = "";
let asked = 0; // counts what was asked for, so that late answers are dropped
let known = -1; // how many there were when the list was asked for

// --- the list --------------------------------------------------------------------------------------------------------

async function load(after = "") {
  asked += 1;
  const mine = asked;
  const text = search.value.trim();
  const found = [];
  let from = after;
  for (let count = 0; count < SEARCHES_MAX; count += 1) {
    const parameters = new URLSearchParams({ count: PAGE_ROWS });
    if (from) parameters.set("after", from);
    if (text) parameters.set("search", text);
    const answer = await get(`v1/subscriptions?${parameters}`);
    if (mine !== asked) return;
    found.push(...answer.subscriptions);
    from = answer.next ?? "";
    if (found.length || !from) break;
  }
  next = from;
  if (after) list.append(...found.map(row));
  else fill(list, found.map(row));
  more.hidden = !next;
  more.textContent = text && !found.length ? "Search on" : "Show more";
  list.hidden = list.children.length === 0;
  const empty = find("subscriptions-empty");
  empty.hidden = list.children.length > 0;
  empty.textContent = text ? "No id and no query contains this." : "There are no subscriptions yet. Add one above.";
}

function row(subscription) {
  const { id } = subscription;
  const pause = make("button", { type: "button", "data-key": `pause ${id}` });
  const state = make("span", { class: "pill warn" }, "paused");
  const label = line(id, 60);

  function draw(isPaused) {
    state.hidden = !isPaused;
    pause.textContent = isPaused ? "Resume" : "Pause";
    pause.setAttribute("aria-label", `${pause.textContent} ${label}`);
  }

  pause.addEventListener("click", () =>
    during(pause, async () => {
      const answer = await ask("POST", pathOf("subscriptions", id, state.hidden ? ":pause" : ":resume"));
      draw(answer.paused);
      toast(answer.paused ? `${label} is paused.` : `${label} is delivered to again.`);
    }),
  );
  const change = make(
    "button",
    { type: "button", "data-key": `change ${id}`, "aria-label": `Change ${label}`, onclick: () => edit(subscription) },
    "Change",
  );
  const remove = make(
    "button",
    { type: "button", class: "danger", "data-key": `delete ${id}`, "aria-label": `Delete ${label}` },
    "Delete",
  );
  remove.addEventListener("click", async () => {
    if (!(await confirmed(`Delete ${label}, and what it waits for?`))) return;
    during(remove, async () => {
      await ask("DELETE", pathOf("subscriptions", id));
      toast(`${label} is deleted.`);
      await load();
    });
  });
  draw(subscription.paused);
  const deliver = subscription.deliver === "elements" ? "what it selects" : "the document";
  const attempts = plural(subscription.attempts_max, "attempt", "attempts");
  return make(
    "li",
    {},
    make(
      "div",
      { class: "grow" },
      make("p", {}, name(id), " ", state),
      make("p", { class: "code query" }, line(subscription.query, 300)),
      make("p", { class: "muted" }, `Delivers ${deliver}, up to ${attempts}`),
    ),
    make("div", { class: "actions" }, pause, change, remove),
  );
}

// --- the form --------------------------------------------------------------------------------------------------------

const field = (part) => find(`subscribe-${part}`);
const result = find("subscribe-result");
let settings = {}; // of the subscription that is changed, as far as the form does not show them

function edit(subscription) {
  find("subscribe").open = true;
  field("id").value = subscription.id;
  field("query").value = subscription.query;
  field("deliver").value = subscription.deliver;
  field("attempts").value = subscription.attempts_max;
  field("ordered").checked = subscription.ordered;
  const bindings = Object.entries(subscription.namespaces);
  field("namespaces").value = bindings.map(([prefix, uri]) => `${prefix}=${uri}`).join("\n");
  settings = { id: subscription.id, acknowledge_ms: subscription.acknowledge_ms, expires_ms: subscription.expires_ms };
  result.replaceChildren();
  field("query").focus();
}

// "x=urn:a" in each line.
function namespaces() {
  const lines = field("namespaces").value.split("\n").map((text) => text.trim()).filter(Boolean);
  return Object.fromEntries(
    lines.map((text) => {
      const place = text.indexOf("=");
      if (place < 0) throw new Error(`A namespace is written as prefix=address: ${text}`);
      return [text.slice(0, place).trim(), text.slice(place + 1).trim()];
    }),
  );
}

function query() {
  return {
    query: field("query").value,
    namespaces: namespaces(),
    ordered: field("ordered").checked,
    deliver: field("deliver").value,
  };
}

function tried(answer) {
  if (!answer.is_valid) return [problem({ ...answer.problem, message: answer.problem.detail })];
  const matches = answer.matches ?? [];
  const parts = [
    make("p", { class: "good-text" }, "The query is valid."),
    make(
      "p",
      {},
      `It matches ${number(matches.length)} of the last ${plural(answer.documents ?? 0, "document", "documents")}`,
      matches.length ? ": " : ".",
      matches.slice(0, 20).flatMap((match, place) => [
        place ? ", " : "",
        make("a", { href: `#/documents/${match.document}` }, number(match.document)),
      ]),
      matches.length > 20 ? " …" : "",
    ),
  ];
  for (const [words, ids] of [["It covers ", answer.covers], ["It is covered by ", answer.covered_by]]) {
    if (!ids?.length) continue;
    const names = ids.slice(0, 10).flatMap((id, place) => [place ? ", " : "", name(id, 40)]);
    const others = ids.length > 10 ? ` and ${plural(ids.length - 10, "other", "others")}` : "";
    parts.push(make("p", {}, words, names, others, "."));
  }
  if (matches[0]) {
    const text = matches[0].payload_encoding ? "(not text)" : visible(matches[0].payload);
    parts.push(
      make("pre", { class: "payload", tabindex: "0", role: "region", "aria-label": "What it would deliver" }, text),
    );
  }
  return parts;
}

async function submit(button, action) {
  await during(button, async () => {
    try {
      await action();
    } catch (error) {
      result.replaceChildren(problem(error));
    }
  });
}

field("try").addEventListener("click", (event) =>
  submit(event.target, async () => {
    if (!field("query").reportValidity()) return;
    result.replaceChildren(...tried(await ask("POST", "v1/subscriptions:try", query())));
  }),
);

find("subscribe-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const button = event.submitter ?? event.target.querySelector(".primary");
  submit(button, async () => {
    const id = field("id").value;
    const { id: edited, ...kept } = settings;
    const trial = await ask("POST", "v1/subscriptions:try", query());
    if (!trial.is_valid) {
      result.replaceChildren(...tried(trial));
      return;
    }
    const form = { ...query(), attempts_max: Number(field("attempts").value), ...(edited === id ? kept : {}) };
    await ask("PUT", pathOf("subscriptions", id), form);
    result.replaceChildren(make("p", { class: "good-text" }, "Registered: ", name(id, 60)));
    await load();
  });
});

let timer = 0;
search.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => load().catch((error) => toast(error.message, true)), SEARCH_DELAY_MS);
});
find("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  load().catch((error) => toast(error.message, true));
});
more.addEventListener("click", () => during(more, () => load(next)));

// --- what the page calls ---------------------------------------------------------------------------------------------

export async function show(status, argument) {
  if (argument) search.value = argument;
  if (status) known = status.sizes.subscriptions;
  await load();
}

export async function update(status) {
  if (status.sizes.subscriptions === known || isBusy(list)) return;
  known = status.sizes.subscriptions;
  await load();
}
