// Selective publishing: a document, element by element, and which of it a group or one of its members sees.

import { get } from "./api.js";
import { bytes, fill, find, isBusy, line, make, name, number, plural, visible } from "./page.js";

const documents = find("subtrees-document");
const viewers = find("subtrees-viewer");
const text = find("subtrees-text");
const MEMBERS_MAX = 200; // in the list of those who see something
const POLL_MS = 5000;
let shapes = [];
let state = null;
let loadedMs = 0;

const pathOf = (document, rest = "") => `v1/selective/${encodeURIComponent(document)}${rest}`;

async function load(wanted = documents.value) {
  const names = (await get("v1/selective")).documents;
  loadedMs = Date.now();
  find("subtrees-empty").hidden = names.length > 0;
  find("subtrees-content").hidden = names.length === 0;
  if (names.length === 0) return;
  const chosen = names.includes(wanted) ? wanted : names[0];
  fill(documents, names.map((one) => make("option", { value: one }, line(one, 60))));
  documents.value = chosen;
  const [about, elements] = await Promise.all([get(pathOf(chosen)), get(pathOf(chosen, "/shapes"))]);
  if (documents.value !== chosen) return; // somebody has chosen another one meanwhile
  state = about;
  shapes = elements.elements;
  find("subtrees-cut").hidden = !elements.is_cut;
  showViewers();
  showGroups();
  showText();
}

function showViewers() {
  const before = viewers.value;
  const everybody = make("option", { value: "" }, "its publisher");
  const groups = state.groups.map((group) => {
    const value = JSON.stringify([group.group]);
    const members = group.members
      .slice(0, MEMBERS_MAX)
      .map((member) => make("option", { value: JSON.stringify([group.group, member]) }, line(member, 60)));
    return make(
      "optgroup",
      { label: line(group.group, 60) },
      make("option", { value }, `everybody in ${line(group.group, 60)}`),
      members,
    );
  });
  fill(viewers, everybody, groups);
  viewers.value = before;
  if (viewers.selectedIndex < 0) viewers.value = "";
}

function showGroups() {
  find("subtrees-groups-empty").hidden = state.groups.length > 0;
  fill(find("subtrees-groups"), state.groups.map(groupRow));
}

function groupRow(group) {
  const paths = group.include.length ? group.include.join(" ") : "nothing";
  const hides = (path) => (path in group.hidden ? ` (hides ${group.hidden[path] ? number(group.hidden[path]) : "nothing"})` : "");
  const without = group.exclude.map((path) => ` without ${path}${hides(path)}`).join("");
  return make(
    "li",
    {},
    make(
      "div",
      { class: "grow" },
      make("p", {}, name(group.group, 60)),
      make("p", { class: "muted" }, "sees ", make("code", {}, line(paths + without, 300))),
      make(
        "p",
        { class: "muted" },
        `${plural(group.members.length, "member", "members")} · version ${number(group.version)} · ${bytes(group.bytes)}`,
      ),
    ),
  );
}

function showText() {
  const [group] = viewers.value ? JSON.parse(viewers.value) : [""];
  const depths = new Map();
  const rows = shapes.map((shape) => {
    const depth = (depths.get(shape.parent) ?? -1) + 1;
    depths.set(shape.id, depth);
    const isSeen = !viewers.value || shape.groups.includes(group);
    const shown = `${"  ".repeat(Math.min(depth, 40))}${line(shape.tag, 300)}${shape.text && ` ${line(shape.text, 120)}`}`;
    const kind = viewers.value ? (isSeen ? "seen" : "unseen") : "";
    return make("li", { class: kind, "data-seen": isSeen ? "yes" : "no" }, make(isSeen && group ? "mark" : "span", {}, visible(shown)));
  });
  fill(text, rows);
  const seen = rows.filter((row) => row.dataset.seen === "yes").length;
  const about = state.groups.find((one) => one.group === group);
  const size = about ? about.bytes : state.bytes;
  find("subtrees-summary").textContent =
    `${number(seen)} of ${plural(rows.length, "element", "elements")} · ${bytes(size)} of ${bytes(state.bytes)}`;
}

documents.addEventListener("change", () => load());
viewers.addEventListener("change", showText);

export async function show(status, argument) {
  await load(argument || documents.value);
}

export async function update() {
  if (Date.now() - loadedMs < POLL_MS || isBusy(find("subtrees-content"))) return;
  await load();
}
