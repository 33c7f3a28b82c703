// Requests to the broker. Addresses are relative to the page, so that it works behind a proxy with a path of its own.
//
// If the broker asks for a token (401), so does the page, once for all requests that wait, and keeps it for this tab.

import { find } from "./page.js";

const TOKEN = "treecast-token";
const WAIT_MS = 20000;

export class Problem extends Error {
  constructor(status, code, detail, hint = "") {
    super(detail);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

let asking = null; // a promise, while the dialog is open
let declined = false;

function askForToken() {
  if (declined) return Promise.resolve(false);
  if (asking) return asking;
  const dialog = find("token");
  const input = find("token-text");
  find("token-note").hidden = !sessionStorage.getItem(TOKEN);
  input.value = "";
  dialog.returnValue = "no";
  dialog.showModal();
  asking = new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        const isGiven = dialog.returnValue === "yes" && input.value.trim() !== "";
        if (isGiven) sessionStorage.setItem(TOKEN, input.value.trim());
        declined = !isGiven;
        find("enter-token").hidden = isGiven;
        input.value = "";
        asking = null;
        resolve(isGiven);
      },
      { once: true },
    );
  });
  return asking;
}

find("enter-token").addEventListener("click", () => {
  declined = false;
  askForToken();
});

async function send(method, path, body, headers) {
  const token = sessionStorage.getItem(TOKEN);
  const all = token ? { ...headers, Authorization: `Bearer ${token}` } : headers;
  const response = await fetch(path, {
    method,
    body,
    headers: all,
    cache: "no-store",
    redirect: "error",
    signal: AbortSignal.timeout(WAIT_MS),
  });
  if (response.status !== 401) return response;
  const before = token;
  const isGiven = sessionStorage.getItem(TOKEN) !== before || (await askForToken());
  return isGiven ? send(method, path, body, headers) : response;
}

async function answer(method, path, body, headers = {}) {
  let response;
  try {
    response = await send(method, path, body, headers);
  } catch {
    throw new Problem(0, "", "The broker does not answer.");
  }
  if (response.ok) return response;
  const text = await response.json().catch(() => ({}));
  throw new Problem(response.status, text.code ?? "", text.detail ?? `The answer was ${response.status}.`, text.hint);
}

export const get = async (path) => (await answer("GET", path)).json();

// A range of bytes.
export async function getBytes(path, begin, end) {
  const response = await answer("GET", path, undefined, { Range: `bytes=${begin}-${end - 1}` });
  return new Uint8Array(await response.arrayBuffer());
}

export async function ask(method, path, form) {
  const headers = form === undefined ? {} : { "Content-Type": "application/json" };
  const response = await answer(method, path, form === undefined ? undefined : JSON.stringify(form), headers);
  return response.status === 204 ? null : response.json();
}

export async function publish(text, source, id) {
  // Headers are bytes: an id that is not ASCII would be refused by the browser, so it goes into a batch of one.
  const line = JSON.stringify(id ? { document: text, id } : { document: text });
  const path = `v1/documents:batch?source=${encodeURIComponent(source)}`;
  const response = await answer("POST", path, line, { "Content-Type": "application/x-ndjson" });
  const [item] = (await response.json()).documents;
  if (item.problem) throw new Problem(item.problem.status, item.problem.code, item.problem.detail, item.problem.hint);
  return { document: item.document, isCopy: item.status === 200 };
}

export const pathOf = (kind, id, action = "") => `v1/${kind}/${encodeURIComponent(id)}${action}`;
