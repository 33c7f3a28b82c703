// Documents: the last ones, publishing one, and one of them with everybody who got it and why.

import { get, getBytes, publish } from "./api.js";
import { highlighted, windowOf } from "./highlight.js";
import { bytes, during, fill, find, isBusy, line, make, name, number, plural, problem, time, visible } from "./page.js";

const PAGE_ROWS = 25;
const ROWS_MAX = 500;
const list = find("documents-list");
const detail = find("document-detail");
let rows = [];
let next = 0; // where older ones go on
let last = -1; // the last document that the list was asked for
let isExtended = false; // older ones were asked for: the list stays where it is
let chosen = 0;

// --- the list --------------------------------------------------------------------------------------------------------

async function load() {
  const answer = await get(`v1/documents?count=${PAGE_ROWS}`);
  [rows, next, isExtended] = [answer.documents, answer.next ?? 0, false];
  drawList();
}

async function loadOlder() {
  const answer = await get(`v1/documents?count=${PAGE_ROWS}&before=${next}`);
  rows = rows.concat(answer.documents).slice(0, ROWS_MAX);
  next = rows.length < ROWS_MAX ? (answer.next ?? 0) : 0;
  isExtended = true;
  drawList();
}

function drawList() {
  find("documents-newer").hidden = true;
  find("documents-empty").hidden = rows.length > 0;
  find("documents-older").hidden = !next;
  fill(list, rows.map(card));
}

function card(row) {
  const isChosen = row.document === chosen;
  const matches = row.matches ? plural(row.matches, "match", "matches") : "no match";
  const link = make(
    "a",
    { href: `#/documents/${row.document}`, "data-key": row.document, "aria-current": isChosen && "true" },
    make("span", { class: "title" }, `Document ${number(row.document)}`),
    make("span", { class: "muted" }, time(row.published), ` · ${bytes(row.bytes)} · `, name(row.source, 30)),
    row.excerpt && make("span", { class: "excerpt code" }, line(row.excerpt, 160)),
    make("span", { class: row.matches ? "pill good" : "pill" }, matches),
  );
  return make("li", {}, link);
}

// --- one document ----------------------------------------------------------------------------------------------------

async function choose(document_) {
  chosen = document_;
  for (const link of list.querySelectorAll("a")) {
    if (link.dataset.key === String(chosen)) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  find("document-empty").hidden = chosen > 0;
  detail.hidden = !chosen;
  find("documents-split").classList.toggle("has-chosen", chosen > 0);
  if (!chosen) return;
  try {
    const answer = await get(`v1/documents/${chosen}/matches`);
    if (answer.document === chosen) await drawDetail(answer);
  } catch (error) {
    detail.replaceChildren(...heading(chosen), problem(error));
  }
}

// Where there is no room for both, the document takes the place of the list.
const heading = (document_) => [
  make("p", { class: "back" }, make("a", { href: "#/documents" }, "All documents")),
  make("h2", {}, `Document ${number(document_)}`),
];

async function drawDetail(answer) {
  const text = make("pre", { class: "document", tabindex: "0", role: "region", "aria-label": "The document" });
  const query = make("p", { class: "code query" });
  const reasons = make("div", { class: "reasons" });
  const buttons = make("ul", { class: "chips", "aria-label": "Subscriptions that got it" });
  const more = make("p", { class: "buttons" });
  let selected = null;

  async function select(match) {
    selected = match;
    for (const button of buttons.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset.key === match?.subscription));
    }
    query.hidden = !match?.query;
    query.textContent = visible(match?.query ?? "");
    reasons.replaceChildren(...(match ? explained(match) : []));
    await drawText(text, answer, match?.spans ?? [], () => selected === match);
  }

  function addMatches(matches) {
    const items = matches.map((match) =>
      make(
        "li",
        {},
        make(
          "button",
          { type: "button", "data-key": match.subscription, "aria-pressed": "false", onclick: () => select(match) },
          name(match.subscription, 60),
          make("span", { class: `pill ${match.state === "done" ? "good" : ""}` }, STATES[match.state]),
        ),
      ),
    );
    buttons.append(...items);
  }

  function offerMore(after) {
    more.replaceChildren();
    if (!after) return;
    const show = async () => {
      const path = `v1/documents/${answer.document}/matches?after=${encodeURIComponent(after)}`;
      const others = await get(path);
      addMatches(others.matches);
      offerMore(others.next);
    };
    more.append(make("button", { type: "button", onclick: (event) => during(event.target, show) }, "Show more"));
  }

  const reached = `It reached ${plural(answer.total, "subscription", "subscriptions")}.`;
  const count = answer.total ? reached : "No subscription matched it.";
  detail.replaceChildren(
    ...heading(answer.document),
    make("p", { class: "muted" }, `${bytes(answer.bytes)}, ${answer.encoding}. ${count}`),
    buttons,
    more,
    query,
    text,
    reasons,
  );
  addMatches(answer.matches);
  offerMore(answer.next);
  await select(answer.matches[0] ?? null);
}

const STATES = { done: "delivered", waiting: "waiting", gone: "removed" };

async function drawText(text, answer, spans, isWanted) {
  const { begin, end } = windowOf(answer.bytes, spans);
  try {
    const data = await getBytes(`v1/documents/${answer.document}`, begin, end);
    if (!isWanted()) return;
    const rest = answer.bytes - end;
    const before = begin > 0 && make("p", { class: "cut" }, `${bytes(begin)} before this are not shown`);
    const after = rest > 0 && make("p", { class: "cut" }, `${bytes(rest)} after this are not shown`);
    text.replaceChildren(...[before, ...highlighted(data, begin, answer.encoding, spans), after].filter(Boolean));
    const mark = text.querySelector("mark");
    text.scrollTop = mark ? Math.max(mark.offsetTop - 60, 0) : 0;
  } catch (error) {
    if (isWanted()) text.replaceChildren(problem(error));
  }
}

function explained(match) {
  const parts = [];
  if (match.note) parts.push(make("p", { class: "note" }, visible(match.note)));
  const steps = (match.steps ?? []).map((step) =>
    make(
      "li",
      {},
      make("code", {}, line(step.step, 200)),
      make("span", { class: "muted" }, ` ${line(step.path, 200)}, line ${number(step.line)}`),
      step.conditions.map((condition) => make("p", { class: "note" }, line(condition, 300))),
    ),
  );
  if (steps.length) parts.push(make("ol", { class: "steps", "aria-label": "Why it matched" }, steps));
  if (typeof match.payload === "string") {
    const text = match.payload_encoding ? `${match.payload_encoding}: ${match.payload}` : visible(match.payload);
    const cut = match.is_cut && make("p", { class: "note" }, "Only its beginning is shown.");
    parts.push(
      make(
        "details",
        {},
        make("summary", {}, "What was delivered"),
        make("pre", { class: "payload", tabindex: "0", role: "region", "aria-label": "What was delivered" }, text),
        cut,
      ),
    );
  } else if (match.state !== "gone") {
    parts.push(make("p", { class: "note" }, "The whole document was delivered."));
  }
  return parts;
}

// --- publishing ------------------------------------------------------------------------------------------------------

async function loadSources() {
  const answer = await get("v1/sources?count=1000");
  const select = find("publish-source");
  const before = select.value || "default";
  const options = answer.sources.map((source) => make("option", { value: source.id }, line(source.id, 60)));
  select.replaceChildren(...options);
  if (answer.sources.some((source) => source.id === before)) select.value = before;
}

find("publish-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const result = find("publish-result");
  const button = event.submitter ?? event.target.querySelector("button");
  during(button, async () => {
    try {
      const done = await publish(find("publish-body").value, find("publish-source").value, find("publish-id").value);
      const text = done.isCopy ? "It was published before, as " : "Published as ";
      const link = make("a", { href: `#/documents/${done.document}` }, `document ${number(done.document)}`);
      result.replaceChildren(make("p", { class: "good-text" }, text, link, "."));
      last = -1;
      await load();
      location.hash = `#/documents/${done.document}`;
    } catch (error) {
      result.replaceChildren(problem(error));
    }
  });
});
find("publish").addEventListener("toggle", () => {
  if (find("publish").open) loadSources().catch((error) => find("publish-result").replaceChildren(problem(error)));
});
find("documents-older").addEventListener("click", (event) => during(event.target, loadOlder));
find("documents-newer").addEventListener("click", (event) => during(event.target, load));

// --- what the page calls ---------------------------------------------------------------------------------------------

export async function show(status, argument) {
  const wanted = /^\d{1,18}$/.test(argument) ? Number(argument) : 0;
  if (status) last = status.last_document;
  await Promise.all([load(), choose(wanted)]);
}

export async function update(status) {
  if (status.last_document === last) return;
  // What moves while somebody reads or aims at it is a nuisance.
  if (isExtended || isBusy(list)) {
    find("documents-newer").hidden = false;
    return;
  }
  last = status.last_document;
  await load();
}
