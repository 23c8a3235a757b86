// Pages work without this. With it they are live: parts that change come as HTML that the server
// has escaped, and are put into the page without losing what is typed, opened or focused.
"use strict";

const $ = (id) => document.getElementById(id);
const { live, login } = document.body.dataset;

// -- the way in -------------------------------------------------------------------------------

async function signIn() {
  const here = location.pathname + location.search;
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  history.replaceState(null, "", here);
  if (token) {
    const answer = await fetch("/login", { method: "POST", body: new URLSearchParams({ token }) });
    if (answer.ok) location.replace(here === "/login" ? "/" : here);
    else $("h-login").textContent = answer.status === 429
      ? "Too many wrong tokens: wait five minutes" : "That token is not the right one";
  } else if (!sessionStorage.getItem("tried") && here !== "/login") {
    // Who comes from another site comes without the cookie; from this page it is sent.
    sessionStorage.setItem("tried", "1");
    if ((await fetch(here, { method: "HEAD" })).ok) location.replace(here);
  }
}

if (login) signIn();
else {
  sessionStorage.removeItem("tried");
  // A link with a token, opened by somebody who is known already.
  if (location.hash.startsWith("#token=")) history.replaceState(null, "", location.pathname);
}

// -- parts of the page ------------------------------------------------------------------------

function morph(old, next) {
  const rest = [...old.childNodes];
  let cursor = old.firstChild;
  for (const want of [...next.childNodes]) {
    const at = rest.findIndex((node) => node.nodeName === want.nodeName && (node.id || "") === (want.id || ""));
    if (at < 0) { old.insertBefore(want, cursor); continue; }
    const [have] = rest.splice(at, 1);
    if (have === cursor) cursor = cursor.nextSibling; else old.insertBefore(have, cursor);
    if (have.nodeType !== Node.ELEMENT_NODE) {
      if (have.data !== want.data) have.data = want.data;
    } else if (!["TEXTAREA", "OUTPUT", "INPUT"].includes(have.nodeName)) {
      for (const { name } of [...have.attributes]) if (!want.hasAttribute(name) && name !== "open") have.removeAttribute(name);
      for (const { name, value } of want.attributes) if (have.getAttribute(name) !== value && name !== "open") have.setAttribute(name, value);
      morph(have, want);
    }
  }
  for (const node of rest) node.remove();
}

function fragment(html) {
  const made = document.createElement("template");
  made.innerHTML = html;
  return made.content;
}

function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds)), rest = String(whole % 60).padStart(2, "0");
  const minutes = Math.floor(whole / 60), hours = Math.floor(minutes / 60);
  if (hours) return `${hours}h ${String(minutes % 60).padStart(2, "0")}m`;
  return minutes ? `${minutes}m ${rest}s` : `${whole}s`;
}

function tick() {
  for (const time of document.querySelectorAll("time[data-since]")) {
    const text = span((Date.now() - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
  for (const time of document.querySelectorAll("time[data-at]:not([title])")) {
    const then = new Date(time.dateTime), today = then.toDateString() === new Date().toDateString();
    time.title = time.textContent;
    time.textContent = then.toLocaleString([], today ? { timeStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" });
  }
}

// -- the log ----------------------------------------------------------------------------------

const MOST_LINES = 1500;
const log = $("log"), follow = $("follow");
const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
const toEnd = () => { log.scrollTop = log.scrollHeight; };

function addLines(html, cut) {
  const stays = atEnd(), lines = fragment(html);
  if (cut) log.replaceChildren();
  for (const line of lines.children) line.classList.add("fresh");
  log.append(lines);
  while (log.childElementCount > MOST_LINES) log.firstElementChild.remove();
  if (stays) toEnd();
}

if (log && follow) {
  log.addEventListener("scroll", () => { follow.hidden = atEnd(); }, { passive: true });
  follow.addEventListener("click", () => { toEnd(); log.focus(); });
  toEnd();
}

// -- live -------------------------------------------------------------------------------------

let source, seq = document.body.dataset.seq, hiddenSince = 0;

function show(data) {
  for (const [name, html] of Object.entries(data.parts ?? {})) {
    const part = $(`part-${name}`);
    if (part) morph(part, fragment(html));
  }
  if (data.log) addLines(data.log, data.cut);
  const light = $("light");
  if (light) {
    document.title = light.dataset.title;
    $("icon").href = `/static/icon-${light.dataset.icon}.svg`;
  }
  tick();
}

function say(text, off) {
  $("link").textContent = text;
  $("link").classList.toggle("off", Boolean(off));
}

function connect() {
  source?.close();
  source = new EventSource(live + (seq === undefined ? "" : `?after=${seq}`));
  source.onopen = () => say("● live");
  source.onmessage = (event) => {
    if (event.lastEventId) seq = event.lastEventId;
    show(JSON.parse(event.data));
    // Browsers keep few connections to one server: a tab that nobody sees gives its own back.
    if (document.hidden && Date.now() - hiddenSince > 20000) source.close();
  };
  source.onerror = async () => {
    say("○ not connected, trying again", true);
    if (source.readyState !== EventSource.CLOSED) return;
    const answer = await fetch(location.pathname, { method: "HEAD" }).catch(() => null);
    if (answer?.status === 401) say("○ this server has a new token: open its link again", true);
    setTimeout(connect, 2000);
  };
}

if (live) {
  connect();
  tick();
  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", () => {
    hiddenSince = document.hidden ? Date.now() : 0;
    if (!document.hidden && source.readyState === EventSource.CLOSED) connect();
  });
  setInterval(() => { if (document.hidden && source.readyState === EventSource.CLOSED) connect(); }, 15000);
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
} else tick();

// -- what is sent -----------------------------------------------------------------------------

let fading;

function toast(text) {
  $("toast").textContent = text;
  clearTimeout(fading);
  fading = setTimeout(() => { $("toast").textContent = ""; }, 15000);
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches("form.act")) return;
  event.preventDefault();
  const told = form.querySelector("output"), button = form.querySelector("button");
  const body = new URLSearchParams(new FormData(form));
  button.disabled = true;
  told.className = "told";
  told.textContent = "Sending …";
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { accept: "application/json" } });
    const data = await answer.json();
    if (answer.ok) {
      toast(data.message); // the form may be gone by now, with the question
      told.textContent = "";
      form.reset();
    } else {
      told.classList.add("bad");
      told.textContent = [data.error, data.state, data.hint].filter(Boolean).join(". ");
    }
  } catch {
    told.classList.add("bad");
    told.textContent = "The server did not answer; nothing is known to have been sent. Try again.";
  } finally { button.disabled = false; }
});
