// The console: which section is shown, and the status of the broker, asked for once a second while the page is visible.
//
// A section is a module with `show(status, argument)`, called when somebody goes there, and `update(status)`. The door of
// a network (`data-door` of the page) has sections of its own, and its status is a look at all brokers; so has that of a
// ring, and that of one of its peers has those of a broker besides.

import { get } from "./api.js";
import * as documents from "./documents.js";
import * as letters from "./letters.js";
import * as network from "./network.js";
import * as overview from "./overview.js";
import { find, line, number, toast } from "./page.js";
import * as refusals from "./refusals.js";
import * as ring from "./ring.js";
import * as sources from "./sources.js";
import * as subscriptions from "./subscriptions.js";
import * as subtrees from "./subtrees.js";

const POLL_MS = 1000;
const POLL_MS_MAX = 15000; // after failures
const ofBroker = { overview, documents, subscriptions, letters, refusals, sources };
const ofDoor = {
  broker: { ...ofBroker, subtrees },
  network: { network, subscriptions, sources },
  peer: { overview, ring, ...ofBroker },
  ring: { ring, subscriptions, sources },
};
const door = document.body.dataset.door;
const whole = { network, ring }[door]; // who looks at all of it
const sections = ofDoor[door];
const titles = {
  overview: "Overview",
  network: "Network",
  ring: "Ring",
  documents: "Documents",
  subscriptions: "Subscriptions",
  letters: "Dead letters",
  refusals: "Refused documents",
  sources: "Sources",
  subtrees: "Subtrees",
};
let current = "";
let visits = 0;
let status = null;

// --- sections --------------------------------------------------------------------------------------------------------

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

// On a phone the sections are one row, wider than the screen. Not by scrollIntoView: where that scrolls to, newer browsers go
// on with the next Tab, and the link that skips to the content is never reached.
function showInMiddle(link) {
  const row = link.closest("nav");
  row.scrollLeft = link.offsetLeft - (row.clientWidth - link.offsetWidth) / 2;
}

async function go(isFirst = false) {
  const [, wanted = "", argument = ""] = location.hash.match(/^#\/([a-z]+)(?:\/(.*))?$/) ?? [];
  if (location.hash === "#main") return;
  const chosen = wanted in sections ? wanted : Object.keys(sections)[0];
  const hasChanged = chosen !== current;
  current = chosen;
  document.title = `${titles[chosen]} · treecast`;
  for (const id of Object.keys(sections)) {
    find(id).hidden = id !== chosen;
    find(id).removeAttribute("aria-busy");
  }
  for (const link of document.querySelectorAll("nav a")) {
    const isCurrent = link.getAttribute("href") === `#/${chosen}`;
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (isCurrent) showInMiddle(link);
  }
  if (hasChanged && !isFirst) {
    scrollTo(0, 0);
    find(`${chosen}-title`).focus({ preventScroll: true });
  }
  const section = find(chosen);
  section.setAttribute("aria-busy", "true");
  visits += 1;
  const mine = visits;
  try {
    await sections[chosen].show(status, decoded(argument));
  } catch (error) {
    toast(error.message, true);
  }
  if (mine === visits) section.removeAttribute("aria-busy");
}

// --- the status ------------------------------------------------------------------------------------------------------

const state = find("state");

function say(text, kind) {
  if (state.textContent !== text) state.textContent = text;
  state.className = `state ${kind}`;
}

function badge(id, count) {
  find(id).hidden = !count;
  find(id).textContent = count ? number(count) : "";
}

async function look() {
  if (whole) return whole.look();
  const answer = await get("v1/status");
  badge("letters-count", answer.sizes.letters);
  badge("refusals-count", answer.totals.refused);
  return answer;
}

async function poll() {
  status = await look();
  say("Live", "good");
  find("broker").textContent = line(status.broker, 40);
  await sections[current]?.update(status);
}

let timer = 0;
let waitMs = POLL_MS;

async function tick() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    await poll();
    waitMs = POLL_MS;
  } catch (error) {
    say(error.status ? line(error.message, 60) : "No answer, trying again", "bad");
    waitMs = Math.min(2 * waitMs, POLL_MS_MAX);
  }
  clearTimeout(timer);
  timer = setTimeout(tick, waitMs);
}

document.addEventListener("visibilitychange", () => {
  waitMs = POLL_MS;
  tick();
});
addEventListener("hashchange", () => go());
for (const link of document.querySelectorAll("nav a")) {
  if (!(link.getAttribute("href").slice(2) in sections)) link.parentElement.remove();
}
await go(true);
tick();
