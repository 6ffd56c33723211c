// The page comes alive: clicks show at once, counts move, and what was shown too early is put right.
// Without this file everything works too, by forms and reloading.

import { Chart } from "./chart.js";
import { Clicks } from "./clicks.js";
import { Stream } from "./stream.js";

const number = new Intl.NumberFormat("en-GB");
const signed = new Intl.NumberFormat("en-GB", { signDisplay: "always" });
const element = (id) => document.getElementById(id);
const chart = new Chart(element("chart"), element("axis-top"), element("axis-bottom"), number);

document.documentElement.classList.add("scripted");

let toastTimer;
function say(sentence) {
  const toast = element("toast");
  toast.textContent = sentence;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (toast.textContent = ""), 6000);
}

// Posts

const buttons = new Map();
for (const form of document.querySelectorAll("form[data-post]")) {
  buttons.set(Number(form.dataset.post), form.querySelector("button"));
}

function showCount(post, likes) {
  const place = document.querySelector(`[data-likes="${post}"]`);
  const text = number.format(likes);
  if (place.textContent !== text) {
    place.textContent = text;
    place.nextElementSibling.textContent = likes === 1 ? "like" : "likes";
  }
}

function showLiked(post, liked) {
  const button = buttons.get(post);
  button.setAttribute("aria-pressed", String(liked));
  button.form.elements.liked.value = liked ? "no" : "yes";
}

// Tabs of one browser are one user: what one tab does, the others know.
const tabs = "BroadcastChannel" in window ? new BroadcastChannel("redis-counters-demo") : null;

const clicks = new Clicks({
  posts: [...buttons.keys()],
  showCount,
  showLiked,
  say,
  told: (post, liked, number) => tabs?.postMessage({ post, liked, number }),
});

for (const [post, button] of buttons) {
  const number = Number(button.form.dataset.number);
  clicks.begin(post, button.getAttribute("aria-pressed") === "true", likesOf(post), number);
  button.form.addEventListener("submit", (event) => {
    event.preventDefault();
    const liked = clicks.click(post);
    button.classList.toggle("just-liked", liked);
  });
}

function likesOf(post) {
  return Number(document.querySelector(`[data-likes="${post}"]`).textContent.replaceAll(",", ""));
}

// The panel

function showError(id, error) {
  const badge = element(id);
  badge.textContent = error ? signed.format(error) : "exact";
  badge.dataset.exact = error ? "no" : "yes";
}

function showFacts(facts) {
  for (const name of ["issued", "plain", "ours", "rate", "lost"]) {
    element(name).textContent = number.format(facts[name]);
  }
  showError("plain-error", facts.plain - facts.issued);
  showError("ours-error", facts.ours - facts.issued);
  for (const name of ["crowd", "losses"]) {
    if (!switching.has(name)) showSwitch(name, facts[name]);
  }
}

const switching = new Set(); // those whose answer is not here yet
function showSwitch(name, on) {
  const button = element(`switch-${name}`);
  button.setAttribute("aria-checked", String(on));
  button.form.elements.on.value = on ? "no" : "yes";
}

for (const form of document.querySelectorAll("form[data-switch]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = form.dataset.switch;
    const on = element(`switch-${name}`).getAttribute("aria-checked") !== "true";
    if (switching.has(name)) return;
    switching.add(name);
    showSwitch(name, on);
    try {
      await clicks.send(form.action, { on: on ? "yes" : "no" });
      // The facts follow a moment later; until then the switch stays as it was put.
      setTimeout(() => switching.delete(name), 1000);
    } catch (error) {
      switching.delete(name);
      showSwitch(name, !on);
      say(error.message);
    }
  });
}

// What is counted, as it changes

function show(state) {
  clicks.counted(state.likes);
  showFacts(state.facts);
  chart.add(Date.now() / 1000, state.facts.plain - state.facts.issued, state.facts.ours - state.facts.issued);
  element("worker").textContent = state.worker;
  stale = state.stale;
  showStatus();
}

let connection = ["off", "not live"];
let stale = false; // Redis did not answer the server: what is shown is the last that is known
function showStatus() {
  const [state, text] = stale && connection[0] === "live" ? ["waiting", "Redis does not answer"] : connection;
  const place = element("live-text");
  element("live").dataset.state = state;
  if (place.textContent !== text) place.textContent = text; // else it would be read out again
}

const stream = new Stream({
  show(state) {
    show(state);
    if (!document.hidden) tabs?.postMessage({ state });
  },
  whole(state, asked) {
    clicks.known(state.mine, state.numbers, asked);
    chart.start(state.history, Date.now() / 1000 - state.now);
    show(state);
  },
  how(state, text) {
    connection = [state, text];
    showStatus();
  },
});

if (tabs) {
  tabs.onmessage = ({ data }) => {
    if (data.state && document.hidden) show(data.state);
    if (data.post) clicks.elsewhere(data.post, data.liked, data.number);
  };
}

stream.start();
