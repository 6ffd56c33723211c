// Where the numbers come from: server-sent events while the page is seen, polling where they do not get through.
// A browser opens few connections to one server, so a hidden tab closes its own.

const POLL = 2000; // milliseconds
const PATIENCE = 3; // attempts to connect, after which it polls as well
const AGAIN = 15000; // until it tries events again

export class Stream {
  constructor({ show, whole, how }) {
    this.show = show;
    this.whole = whole;
    this.how = how;
    this.source = null;
    this.failures = 0;
    this.timer = null;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.start()));
    // A page that comes back from the browser's memory is an old one.
    window.addEventListener("pageshow", (event) => event.persisted && this.start());
    window.addEventListener("pagehide", () => this.stop());
  }

  start() {
    this.stop();
    this.failures = 0;
    this.fetchWhole();
    if ("EventSource" in window) this.connect();
    else this.poll();
  }

  stop() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
    if (document.hidden) this.how("off", "paused");
  }

  connect() {
    const source = (this.source = new EventSource("/events"));
    source.onopen = () => {
      if (this.failures) this.fetchWhole(); // what happened meanwhile
      this.failures = 0;
      clearTimeout(this.timer);
      this.how("live", "live");
    };
    source.onmessage = (event) => this.show(JSON.parse(event.data));
    source.onerror = () => {
      if (this.source !== source) return;
      this.failures += 1;
      this.how("waiting", "connecting again");
      const over = source.readyState === EventSource.CLOSED; // else the browser connects again by itself
      if (this.failures >= PATIENCE) {
        source.close();
        this.poll(Date.now() + AGAIN);
      } else if (over) {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.connect(), 500 * this.failures);
      }
    };
  }

  async poll(until = Infinity) {
    clearTimeout(this.timer);
    if (Date.now() > until) {
      this.connect();
      return;
    }
    this.timer = setTimeout(() => this.poll(until), POLL);
    if (await this.fetchWhole()) this.how("live", "live, every 2 seconds");
    else this.how("waiting", "the server does not answer");
  }

  async fetchWhole() {
    const asked = performance.now();
    try {
      const response = await fetch("/state", { headers: { accept: "application/json" } });
      if (!response.ok) return false;
      this.whole(await response.json(), asked);
      return true;
    } catch {
      return false;
    }
  }
}
