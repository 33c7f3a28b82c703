// A network of brokers: who is up, the tree of each root, what travels on the links, and how large routing tables are.

import { get } from "./api.js";
import { bytes, fill, find, make, name, number, plural, rate } from "./page.js";

const BROKERS_MAX = 200;
const LINKS_MAX = 100;
const TREES_MAX = 50;
const OPEN_MAX = 4; // trees that are open before anybody has chosen
const trees = new Map(); // by root: the element, which stays open or closed as somebody left it
let before = "";

// The state of all of it, with what other sections want to know of a status.
export async function look() {
  const picture = await get("v1/network");
  const subscriptions = sum(picture.brokers, "subscriptions");
  return { broker: plural(picture.brokers.length, "broker", "brokers"), sizes: { subscriptions }, picture };
}

export async function show(status) {
  before = "";
  draw((status ?? (await look())).picture);
}

export function update(status) {
  draw(status.picture);
}

const sum = (rows, field) => rows.reduce((total, row) => total + row[field], 0);
const speed = (row) => `${rate(row.documents_per_second)} documents/s, ${bytes(row.bytes_per_second)}/s`;

// Many queries that differ in a value are one with a set of values.
const tableSize = (link) =>
  plural(link.table, "query", "queries") + (link.values ? ` with ${plural(link.values, "value", "values")}` : "");

function draw(picture) {
  const now = JSON.stringify(picture);
  if (now === before) return; // nobody's selection of text is taken away for nothing
  before = now;
  const up = picture.brokers.filter((broker) => broker.is_up).length;
  const all = { documents_per_second: sum(picture.links, "documents_per_second"), bytes_per_second: sum(picture.links, "bytes_per_second") };
  const subscriptions = plural(sum(picture.brokers, "subscriptions"), "subscription", "subscriptions");
  find("network-summary").textContent =
    `${number(up)} of ${plural(picture.brokers.length, "broker", "brokers")} up, ${subscriptions}, ` +
    `${plural(picture.roots.length, "tree", "trees")}; on all links ${speed(all)}.`;
  fill(find("brokers"), picture.brokers.slice(0, BROKERS_MAX).map(brokerRow), rest(picture.brokers.length - BROKERS_MAX));
  drawTrees(picture);
  drawLinks(picture.links);
}

const rest = (count) => (count > 0 ? [make("li", { class: "muted" }, `and ${number(count)} more`)] : []);

const state = (isUp) => make("span", { class: isUp ? "pill good" : "pill bad" }, isUp ? "up" : "down");

function brokerRow(broker) {
  const restarts = broker.restarts ? `, restarted ${plural(broker.restarts, "time", "times")}` : "";
  return make(
    "li",
    {},
    make("div", { class: "grow" }, name(broker.name, 60), " ", state(broker.is_up)),
    make("div", { class: "amount" }, plural(broker.subscriptions, "subscription", "subscriptions")),
    make("div", { class: "muted whole" }, broker.address, restarts),
    broker.replicas ? make("div", { class: "muted whole" }, replicasOf(broker)) : null,
  );
}

// With replicas: whose process serves it, and whose has a copy.
const replicasOf = (broker) => [
  `${broker.replicas}: served by `,
  name(broker.host || broker.name, 60),
  ...(broker.backup ? [", backup ", name(broker.backup, 60)] : [", no backup"]),
];

// --- trees -----------------------------------------------------------------------------------------------------------

function drawTrees(picture) {
  const roots = picture.roots.slice(0, TREES_MAX);
  find("trees-empty").hidden = roots.length > 0;
  for (const root of trees.keys()) if (!roots.includes(root)) trees.delete(root);
  for (const root of roots) {
    if (!trees.has(root)) {
      const isOpen = trees.size < OPEN_MAX;
      trees.set(root, make("details", { open: isOpen }, make("summary", { "data-key": root }), make("ul", { class: "tree" })));
    }
    const links = picture.links.filter((link) => link.root === root);
    const [summary, list] = trees.get(root).children;
    const reached = plural(links.length, "other broker", "other brokers");
    summary.replaceChildren("From ", name(root, 60), make("span", { class: "muted" }, ` to ${reached}`));
    list.replaceChildren(branch(picture, links, root, null, new Set([root])));
  }
  const shown = roots.map((root) => trees.get(root));
  const holder = find("trees");
  if (shown.length !== holder.children.length || shown.some((tree, place) => tree !== holder.children[place])) {
    fill(holder, shown);
  }
}

// A broker and what is below it. While a tree is repaired, its links may contradict each other: nobody is drawn twice.
function branch(picture, links, broker, link, drawn) {
  const known = picture.brokers.find((one) => one.name === broker);
  const below = links.filter((one) => one.parent === broker && !drawn.has(one.child));
  for (const one of below) drawn.add(one.child);
  const children = below.map((one) => branch(picture, links, one.child, one, drawn));
  const isUp = known?.is_up ?? true;
  const travels = link && `${speed(link)}; ${tableSize(link)} in the routing table`;
  return make(
    "li",
    { class: link?.documents_per_second ? "busy" : null },
    make("span", { class: isUp ? "dot" : "dot bad" }),
    make("span", { class: "branch" }, name(broker, 60), isUp ? null : " ", isUp ? null : state(false)),
    make("span", { class: "muted" }, travels ?? "the root"),
    children.length ? make("ul", {}, children) : null,
  );
}

// --- links -----------------------------------------------------------------------------------------------------------

function drawLinks(links) {
  const sorted = [...links].sort((one, other) => activity(other) - activity(one));
  find("links").replaceChildren(...sorted.slice(0, LINKS_MAX).map(linkRow));
  const hidden = links.length - LINKS_MAX;
  find("links-note").hidden = hidden <= 0;
  find("links-note").textContent = `${number(Math.max(hidden, 0))} more are not shown; GET /v1/network has them.`;
}

const activity = (link) => link.documents_per_second + link.bytes_per_second / 1e9 + link.documents / 1e15;

function linkRow(link) {
  const ends = make("th", { scope: "row" }, name(link.parent, 40), " → ", name(link.child, 40));
  const cells = [
    name(link.root, 40),
    rate(link.documents_per_second),
    `${bytes(link.bytes_per_second)}/s`,
    number(link.documents),
    bytes(link.bytes),
    link.bytes_saved ? bytes(link.bytes_saved) : "",
    tableSize(link),
  ];
  return make("tr", {}, ends, cells.map((cell) => make("td", {}, cell)));
}
