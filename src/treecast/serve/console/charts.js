// A chart of the last minute: an area under a line, drawn by hand as SVG. The shape is stretched to its place; numbers
// stand beside it as text, so that they keep their size.

import { make } from "./page.js";

const SPACE = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 100;

function shape(tag, attributes) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// The next of 1, 2, 5, 10, 20, 50 … that is not smaller.
export function ceiling(value, least) {
  let step = least;
  for (let place = 0; step < value; place += 1) step *= [2, 2.5, 2][place % 3];
  return step;
}

// `title` names it, `kind` is the class that gives it its colour, `least` the smallest scale.
export function makeChart(title, kind, least, write) {
  const area = shape("path", { class: "area" });
  const line = shape("path", { class: "line" });
  const grid = shape("path", { class: "grid", d: `M0 ${HEIGHT / 2}H${WIDTH}M0 1H${WIDTH}` });
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  svg.append(grid, area, line);
  const figure = make("p", { class: "figure" });
  const note = make("p", { class: "muted" });
  const top = make("span", { class: "top", "aria-hidden": "true" });
  const ends = ["1 min ago", "now"].map((text) => make("span", {}, text));
  const axis = make("p", { class: "axis", "aria-hidden": "true" }, ends);
  const element = make(
    "section",
    { class: `chart panel ${kind}`, "aria-label": title },
    make("h2", {}, title),
    figure,
    note,
    make("div", { class: "plot" }, svg, top),
    axis,
  );

  // New numbers: those of the chart, the large one, and what is said below it.
  function draw(values, text, below) {
    const most = Math.max(...values);
    const scale = ceiling(most, least);
    const step = WIDTH / (values.length - 1);
    const height = (value) => HEIGHT - (value / scale) * (HEIGHT - 2);
    const points = values.map((value, place) => `${(place * step).toFixed(1)} ${height(value).toFixed(1)}`);
    line.setAttribute("d", `M${points.join("L")}`);
    area.setAttribute("d", `M0 ${HEIGHT}L${points.join("L")}L${WIDTH} ${HEIGHT}Z`);
    svg.setAttribute("aria-label", `${title}, last minute: now ${write(values.at(-1))}, at most ${write(most)}`);
    figure.textContent = text;
    note.textContent = below;
    top.textContent = write(scale);
  }

  return { element, draw };
}
