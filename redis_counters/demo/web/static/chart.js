// How far each count is off, over the last minute.

const SECONDS = 60;
const WIDTH = 320;
const HEIGHT = 96;
const MARGIN = 8;
const LEAST = 10; // so that one wrong count does not fill the picture

export class Chart {
  constructor(svg, top, bottom, number) {
    this.top = top;
    this.bottom = bottom;
    this.number = number;
    this.points = [];
    const make = (name, kind) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      made.setAttribute("class", kind);
      svg.append(made);
      return made;
    };
    this.zero = make("path", "zero");
    this.area = make("path", "area");
    this.plain = make("path", "line plain-line");
    this.ours = make("path", "line ours-line");
    this.due = false;
  }

  // Points from before: [seconds, error of INCR, error of redis-counters], by a clock that is behind by so many seconds.
  start(history, behind) {
    this.points = history.map(([at, ...errors]) => [at + behind, ...errors]);
  }

  add(now, plain, ours) {
    const last = this.points.at(-1);
    if (last && now - last[0] < 0.25) return;
    this.points.push([now, plain, ours]);
    while (this.points.length > 2 && this.points[1][0] < now - SECONDS) this.points.shift();
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.draw(now);
    });
  }

  draw(now) {
    const values = this.points.flatMap(([, plain, ours]) => [plain, ours]);
    const high = Math.max(LEAST, ...values);
    const low = Math.min(0, ...values);
    const x = (at) => WIDTH * (1 - (now - at) / SECONDS);
    const y = (value) => HEIGHT - MARGIN - ((value - low) / (high - low)) * (HEIGHT - 2 * MARGIN);
    const path = (which) =>
      this.points.map((point, index) => `${index ? "L" : "M"}${x(point[0]).toFixed(1)},${y(point[which]).toFixed(1)}`);
    const plain = path(1).join("");
    const begin = x(this.points[0][0]).toFixed(1);
    this.zero.setAttribute("d", `M0,${y(0)}H${WIDTH}`);
    this.plain.setAttribute("d", plain);
    this.area.setAttribute("d", `${plain}L${WIDTH},${y(0)}L${begin},${y(0)}Z`);
    this.ours.setAttribute("d", path(2).join(""));
    this.top.textContent = `+${this.number.format(high)}`;
    this.bottom.textContent = low ? this.number.format(low) : "0";
  }
}
