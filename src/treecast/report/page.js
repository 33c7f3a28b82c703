// What a reader may do with the report: search, sort, show more rows, and look into a document. The page has everything
// without this script; it only hides and reorders what is there.
"use strict";

const FIRST_ROWS = 20;
const MORE_ROWS = 200;

function compare(key, isNumber, sign) {
  return (a, b) => {
    const left = a.dataset[key] || "", right = b.dataset[key] || "";
    return sign * (isNumber ? Number(left) - Number(right) : left.localeCompare(right, "en", { numeric: true }));
  };
}

function enhance(list) {
  const body = list.querySelector("[data-rows]");
  const rows = Array.from(body.children);
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const search = list.querySelector("input[type=search]");
  const kind = list.querySelector("select");
  const count = list.querySelector("[data-count]");
  const more = list.querySelector("[data-more]");
  let limit = FIRST_ROWS;

  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = kind ? kind.value : "";
    let hits = 0;
    for (const row of body.children) {
      const text = texts.get(row);
      const fits = (!wanted || row.dataset.kind === wanted) && words.every((word) => text.includes(word));
      hits += fits ? 1 : 0;
      row.hidden = !fits || hits > limit;
    }
    const visible = Math.min(hits, limit);
    count.textContent = hits === rows.length && visible === hits ? "" : `${visible.toLocaleString("en")} of ${hits.toLocaleString("en")} shown`;
    more.hidden = visible === hits;
  }

  search.addEventListener("input", () => { limit = FIRST_ROWS; draw(); });
  if (kind) kind.addEventListener("change", () => { limit = FIRST_ROWS; draw(); });
  more.addEventListener("click", () => { limit += MORE_ROWS; draw(); });
  for (const button of list.querySelectorAll("button[data-sort]")) {
    button.disabled = false;
    button.addEventListener("click", () => {
      const head = button.closest("[data-head]");
      const isNumber = "number" in button.dataset;
      const before = head.getAttribute("aria-sort");
      const descending = before === null ? isNumber : before === "ascending";
      for (const other of list.querySelectorAll("[data-head]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      rows.sort(compare(button.dataset.sort, isNumber, descending ? -1 : 1));
      body.append(...rows);
      draw();
    });
  }
  for (const control of list.querySelectorAll("[data-control]")) control.hidden = false;
  list.find = (text) => { search.value = text; if (kind) kind.value = ""; draw(); };
  draw();
}

// In an open document: the marks of one match, or those of all.
function choose(panel, item) {
  const number = item === null || item.classList.contains("on") ? null : item.dataset.match;
  for (const other of panel.querySelectorAll("[data-match]")) other.classList.toggle("on", other.dataset.match === number);
  panel.querySelector(".text").classList.toggle("one", number !== null);
  let first = null;
  for (const mark of panel.querySelectorAll("mark")) {
    const on = number !== null && mark.dataset.m.split(" ").includes(number);
    mark.classList.toggle("on", on);
    if (on && first === null) first = mark;
  }
  if (first !== null) {
    const text = panel.querySelector(".text");
    text.scrollTop = first.offsetTop - text.clientHeight / 3;
    text.scrollIntoView({ block: "nearest" });    // on a phone it stands below the matches
  }
}

document.querySelectorAll("[data-list]").forEach(enhance);
document.addEventListener("click", (event) => {
  const finder = event.target.closest("[data-find]");
  const documents = document.getElementById("documents");
  if (finder !== null && documents !== null) {
    documents.find(finder.dataset.find);
    documents.scrollIntoView();
    return;
  }
  const button = event.target.closest("[data-match] button");
  if (button !== null) choose(button.closest(".panel"), button.closest("[data-match]"));
});
for (const button of document.querySelectorAll("[data-find], [data-match] button")) button.disabled = false;
