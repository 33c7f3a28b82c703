// The overview: rates and lag of the last minute, who waits for most, and how large everything is.

import { makeChart } from "./charts.js";
import { bytes, duration, fill, find, line, make, name, number, plural, rate, time } from "./page.js";

const perSecond = (value) => `${rate(value)}/s`;
const charts = {
  published: makeChart("Published", "published", 1, perSecond),
  delivered: makeChart("Delivered", "delivered", 1, perSecond),
  refused: makeChart("Refused", "refused", 1, perSecond),
  lag: makeChart("Lag", "lag", 100, duration),
};
find("charts").append(...Object.values(charts).map((chart) => chart.element));

export function show(status) {
  if (!status) return;
  const { rates, totals, history, lag } = status;
  for (const kind of ["published", "delivered", "refused"]) {
    const below = `${perSecond(rates.last_60_s[kind])} in the last minute, ${number(totals[kind])} since the start`;
    charts[kind].draw(history[kind], perSecond(rates.last_10_s[kind]), below);
  }
  const oldest = lag.oldest_ms ? `The oldest delivery waits for ${duration(lag.oldest_ms)}` : "Nothing waits";
  charts.lag.draw(history.lag_ms, duration(lag.receivers_ms), oldest);
  fill(find("queues"), status.queues.map(queueRow));
  find("queues-empty").hidden = status.queues.length > 0;
  showFacts(status);
}

export const update = show;

function queueRow(queue) {
  const states = [
    queue.is_parked && make("span", { class: "pill warn" }, "parked"),
    queue.is_paused && make("span", { class: "pill" }, "paused"),
    !queue.receivers && make("span", { class: "pill" }, "nobody receives"),
  ];
  const isOnDisk = queue.is_parked && !queue.waiting;
  const waiting = isOnDisk ? "waiting on disk" : `${number(queue.waiting)}${queue.is_parked ? "+" : ""} waiting`;
  const sent = queue.sent ? `, ${number(queue.sent)} not acknowledged` : "";
  const link = make(
    "a",
    { href: `#/subscriptions/${encodeURIComponent(queue.subscription)}`, "data-key": queue.subscription },
    name(queue.subscription, 60),
  );
  return make(
    "li",
    {},
    make("div", { class: "grow" }, link, " ", states),
    make("div", { class: "amount" }, waiting + sent),
    make("div", { class: "muted amount" }, queue.oldest_ms ? `for ${duration(queue.oldest_ms)}` : ""),
  );
}

function showFacts(status) {
  const { sizes } = status;
  const streams = plural(sizes.streams, "event stream", "event streams");
  const facts = [
    ["Subscriptions", number(sizes.subscriptions)],
    ["Documents kept", `${number(sizes.documents)}, ${bytes(sizes.document_bytes)}`],
    ["Dead letters", number(sizes.letters)],
    ["Receivers", `${streams}, ${plural(sizes.sessions, "session", "sessions")}`],
    ["On disk", `${bytes(sizes.store_bytes)}, ${bytes(sizes.free_bytes)} free`],
    ["Running", make("span", {}, `for ${duration(status.uptime_ms)}, since `, time(status.started))],
    ["Version", status.version ? line(status.version) : "unknown"],
  ];
  const list = find("facts");
  list.replaceChildren(...facts.map(([term, text]) => make("div", {}, make("dt", {}, term), make("dd", {}, text))));
}
