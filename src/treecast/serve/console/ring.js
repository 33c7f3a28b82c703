// A ring of peers: where each is, how much it holds and has to do, and which states most documents visit.

import { get } from "./api.js";
import { fill, find, line, make, name, number, plural, rate } from "./page.js";

const SPACE = "http://www.w3.org/2000/svg";
const SIZE = 400;
const MIDDLE = SIZE / 2;
const RADIUS = 120;
const DOT_MIN = 5;
const DOT_MAX = 13;
const LABEL_GAP = 0.035; // of a turn: names that are nearer would cover each other
const PEERS_MAX = 200;
const BOUNDS = [0.25, 0.75, 1.25, 2]; // of a fair share of the load, between the five colours
let before = "";

// The state of all of it, with what other sections want to know of a status.
export async function look() {
  const picture = await get("v1/ring");
  return { broker: plural(picture.peers.length, "peer", "peers"), sizes: { subscriptions: sum(picture.peers, "subscriptions") }, picture };
}

export async function show(status) {
  before = "";
  await update(status);
}

// The door of one peer has a status of its own, without a picture.
export async function update(status) {
  draw(status?.picture ?? (await look()).picture);
}

const sum = (rows, field) => rows.reduce((total, row) => total + row[field], 0);
const owned = (peer) => sum(peer.places, "owned");

function draw(picture) {
  const now = JSON.stringify(picture);
  if (now === before) return; // nobody's selection of text is taken away for nothing
  before = now;
  const up = picture.peers.filter((peer) => peer.is_up);
  const level = (peer) => (peer.is_up ? `level-${BOUNDS.filter((bound) => peer.load * up.length > bound).length}` : "down");
  const states = picture.peers.reduce((total, peer) => total + owned(peer), 0);
  const underway = sum(picture.peers, "underway");
  find("ring-summary").textContent =
    `${number(up.length)} of ${plural(picture.peers.length, "peer", "peers")} up, ` +
    `${plural(states, "state", "states")} on ${number(picture.replicas)} disks each, ` +
    `${plural(sum(picture.peers, "subscriptions"), "subscription", "subscriptions")}; ` +
    `${rate(sum(picture.peers, "visits_per_second"))} visits/s` +
    (underway ? `, ${plural(underway, "document", "documents")} underway.` : ".");
  find("ring-picture").replaceChildren(circle(picture, level, states));
  const order = [...picture.peers].sort((one, other) => other.load - one.load || (one.name < other.name ? -1 : 1));
  fill(find("peers"), order.slice(0, PEERS_MAX).map((peer) => peerRow(peer, level(peer))), rest(order.length - PEERS_MAX));
  find("states").replaceChildren(...picture.states.map(stateRow));
  find("states-empty").hidden = picture.states.length > 0;
}

const rest = (count) => (count > 0 ? [make("li", { class: "muted" }, `and ${number(count)} more`)] : []);

// --- the picture -----------------------------------------------------------------------------------------------------

function shape(tag, attributes, ...children) {
  const element = document.createElementNS(SPACE, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// 0 is on top, and turns go clockwise.
function point(turn, radius) {
  const angle = 2 * Math.PI * turn - Math.PI / 2;
  return [MIDDLE + radius * Math.cos(angle), MIDDLE + radius * Math.sin(angle)].map((value) => value.toFixed(1));
}

function circle(picture, level, states) {
  const places = picture.peers
    .flatMap((peer) => peer.places.map((place) => ({ ...place, peer })))
    .sort((one, other) => one.turn - other.turn);
  const most = Math.max(1, ...places.map((place) => place.owned));
  const label = `A ring of ${plural(picture.peers.length, "peer", "peers")}; the list of peers has the same in words.`;
  const svg = shape("svg", { viewBox: `0 30 ${SIZE} ${SIZE - 60}`, role: "img", "aria-label": label, class: "ring" });
  svg.append(shape("circle", { cx: MIDDLE, cy: MIDDLE, r: RADIUS, class: "track" }));
  const hosts = new Set(picture.peers.map((peer) => peer.name.replace(/:\d+$/, "")));
  if (places.length > 1) {
    places.forEach((place, at) => svg.append(arc(places.at(at - 1).turn, place.turn, level(place.peer))));
  }
  let last = -1;
  for (const place of places) {
    const [x, y] = point(place.turn, RADIUS);
    const r = (DOT_MIN + (DOT_MAX - DOT_MIN) * Math.sqrt(place.owned / most)).toFixed(1);
    const text = `${line(place.peer.name, 60)}: owns ${number(place.owned)} of ${number(states)} states, ${percent(place.peer.load)} of the load`;
    svg.append(shape("circle", { cx: x, cy: y, r, class: `place ${level(place.peer)}` }, shape("title", {}, text)));
    if (place.turn - last < LABEL_GAP) continue;
    last = place.turn;
    svg.append(placeLabel(place, hosts.size === 1));
  }
  return svg;
}

function arc(begin, end, kind) {
  const span = (end - begin + 1) % 1;
  const [[x1, y1], [x2, y2]] = [point(begin, RADIUS), point(end, RADIUS)];
  return shape("path", { d: `M${x1} ${y1} A${RADIUS} ${RADIUS} 0 ${span > 0.5 ? 1 : 0} 1 ${x2} ${y2}`, class: `range ${kind}` });
}

// On one machine ports are enough.
function placeLabel(place, isOneHost) {
  const [x, y] = point(place.turn, RADIUS + 24);
  const anchor = Math.abs(x - MIDDLE) < RADIUS / 4 ? "middle" : x > MIDDLE ? "start" : "end";
  const text = isOneHost ? place.peer.name.replace(/^.*:/, ":") : line(place.peer.name, 24);
  return shape("text", { x, y: Number(y) + 5, "text-anchor": anchor, class: place.peer.is_up ? "" : "down" }, text);
}

const percent = (share) => `${(share * 100).toFixed(1)} %`;

// --- peers and states ------------------------------------------------------------------------------------------------

function pill(peer) {
  if (!peer.is_up) return make("span", { class: "pill bad" }, "down");
  return peer.is_settled ? make("span", { class: "pill good" }, "up") : make("span", { class: "pill" }, "joins");
}

function peerRow(peer, kind) {
  const holds = `owns ${plural(owned(peer), "state", "states")}, holds ${number(peer.keys)}; ${plural(peer.subscriptions, "subscription", "subscriptions")}`;
  const waits = peer.underway ? `; ${plural(peer.underway, "document", "documents")} underway` : "";
  const missed = peer.given_up ? `; ${plural(peer.given_up, "document", "documents")} given up` : "";
  return make(
    "li",
    {},
    make("span", { class: `swatch ${kind}` }),
    make("div", { class: "grow" }, name(peer.name, 60), " ", pill(peer), peer.is_base ? [" ", make("span", { class: "pill" }, "base")] : null),
    make("div", { class: "muted whole" }, `${percent(peer.load)} of the load; ${holds}${waits}${missed}`),
  );
}

function stateRow(row) {
  return make("tr", {}, make("th", { scope: "row" }, make("code", {}, line(row.state, 120))), make("td", {}, number(row.documents)), make("td", {}, name(row.peer, 60)));
}
