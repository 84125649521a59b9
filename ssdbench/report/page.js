"use strict";
// Zooms into the figures of a page, and filters its long tables and maps. Without it the page is complete:
// it shows each figure, the data below it, and all rows. Text of the page is only set as textContent, or
// as a number in an attribute; no HTML is built and nothing is loaded.
(() => {
  const DEEPEST = 200; // times the whole axis
  const NEAR = 0.15; // how much less a step up or down counts than one sideways, to pick a point
  const LEAST_DRAG = 6; // in the units of a figure; a shorter one is a click
  const TALL_DRAG = 40; // from here on a drag chooses a part of the upright axis too
  const SAME_PLACE = 5; // other lines that a readout names
  const LARGEST_MARKER = 20; // what is larger is an area, which is stretched, not moved
  const OFF_MARK = 3; // between a mark and its words
  const HIGHEST = "highest"; // of a bin; the column before it has the lowest
  const MANY_CHOICES = 2;
  const [BOUND, VERDICT] = ["Lower bound [IOPS]", "Verdict"]; // columns of the long table
  const SHADES = 6; // of a heat map

  function made(tag, words, into, attributes = {}) {
    const element = document.createElement(tag);
    element.textContent = words;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    into.append(element);
    return element;
  }

  function shape(tag, attributes, into, words = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = words;
    into.append(element);
    return element;
  }

  function button(words, told, into, act) {
    made("button", words, into, { type: "button", title: told }).addEventListener("click", act);
  }

  // ---- numbers as the page writes them

  const UNITS = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]];

  function said(value, kind, step = 0) {
    const digits = step > 0 ? Math.ceil(Math.log10(Math.abs(value) / step || 1)) + 1 : 5;
    const exact = Math.min(Math.max(digits, 4), 12);
    if (kind === "ns") {
      const [unit, size] = UNITS.find(([, factor]) => Math.abs(value) >= factor) || UNITS[3];
      return `${+(value / size).toPrecision(exact)} ${unit}`;
    }
    const number = +value.toPrecision(exact);
    const plain = number.toLocaleString("en-US", { maximumFractionDigits: 12 });
    return kind === "%" ? `${plain} %` : plain;
  }

  function even(low, high) {
    const rough = (high - low) / 6;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((times) => times * power >= rough);
    const places = [];
    for (let n = Math.ceil(low / step); n * step <= high; n++) places.push(n * step);
    return { places, step };
  }

  function decades(low, high) {
    const times = high - low > 4 ? [1] : [1, 2, 5];
    const places = [];
    for (let power = Math.floor(low); power <= high; power++) {
      places.push(...times.map((n) => n * 10 ** power));
    }
    return { places: places.filter((at) => at >= 10 ** low && at <= 10 ** high), step: 0 };
  }

  // ---- one axis: `ends` are what it shows whole, `view` what it shows now

  class Axis {
    constructor({ ends, log, kind, words }, from, to) {
      Object.assign(this, { log, kind, words, from, to });
      this.ends = ends.map((value) => this.along(value));
      this.view = [...this.ends];
    }

    along(value) { return this.log ? Math.log10(value) : value; }

    whole() { return this.view[0] === this.ends[0] && this.view[1] === this.ends[1]; }

    // Where a value stands in the figure now, and what stands at a place.
    place(value) {
      const [low, high] = this.view;
      return this.from + ((this.along(value) - low) / (high - low)) * (this.to - this.from);
    }

    at(place) {
      const [low, high] = this.view;
      return low + ((place - this.from) / (this.to - this.from)) * (high - low);
    }

    // Factor and offset from the figure as it was drawn.
    moved() {
      const [low, high] = this.view;
      const factor = (this.ends[1] - this.ends[0]) / (high - low);
      const first = this.from + ((this.ends[0] - low) / (high - low)) * (this.to - this.from);
      return [factor, first - factor * this.from];
    }

    show(low, high) {
      const [first, last] = this.ends;
      const room = Math.abs(last - first);
      const turned = last < first;
      const [least, most] = turned ? [last, first] : [first, last];
      const length = Math.min(Math.max(Math.abs(high - low), room / DEEPEST), room);
      const middle = (low + high) / 2;
      const start = Math.min(Math.max(middle - length / 2, least), most - length);
      const view = length === room ? [least, most] : [start, start + length];
      this.view = turned ? view.reverse() : view;
    }

    ticks() {
      const [low, high] = [...this.view].sort((a, b) => a - b);
      if (this.words) return this.words.filter(([at]) => this.along(at) >= low && this.along(at) <= high);
      const narrow = high - low < 0.8; // of a decade
      const { places, step } = !this.log ? even(low, high)
        : narrow ? even(10 ** low, 10 ** high) : decades(low, high);
      return places.map((at) => [at, said(at, this.kind, step)]);
    }
  }

  // ---- one panel of a figure

  class Panel {
    constructor(group, { box: [left, top, right, bottom], x, y }) {
      Object.assign(this, { group, left, top, right, bottom });
      this.x = new Axis(x, left, right);
      this.y = new Axis(y, bottom, top);
      this.scales = [...group.children].filter((child) => child.classList.contains("axis"));
      const drawn = [...group.querySelectorAll("[clip-path]")].filter((one) => !one.closest(".axis"));
      this.paths = drawn.filter((one) => one.tagName === "path").map((one) => [one, one.getAttribute("d"), 0, 0]);
      this.uses = [];
      for (const use of drawn.flatMap((one) => [...one.querySelectorAll("use")])) {
        const path = document.getElementById(use.getAttribute("xlink:href").slice(1));
        const [d, x, y] = [path.getAttribute("d"), +use.getAttribute("x"), +use.getAttribute("y")];
        if (d.match(/[\d.]+/g).some((number) => number > LARGEST_MARKER)) this.paths.push([path, d, x, y]);
        else this.uses.push([use, x, y]);
      }
      this.labels = [...group.querySelectorAll(".at")].map((one) => [one, one.dataset]);
    }

    holds(x, y) { return x >= this.left && x <= this.right && y >= this.top && y <= this.bottom; }

    draw() {
      const [[kx, tx], [ky, ty]] = [this.x.moved(), this.y.moved()];
      const short = (value) => +value.toFixed(2);
      for (const [path, d, left, top] of this.paths) {
        const pair = (_, x, y) => `${short(kx * (+x + left) + tx - left)} ${short(ky * (+y + top) + ty - top)}`;
        path.setAttribute("d", d.replace(/(-?[\d.]+(?:e-?\d+)?) (-?[\d.]+(?:e-?\d+)?)/g, pair));
      }
      for (const [use, x, y] of this.uses) {
        use.setAttribute("x", kx * x + tx);
        use.setAttribute("y", ky * y + ty);
      }
      for (const [label, { x, y }] of this.labels) {
        const right = x === undefined ? this.left : this.x.place(+x);
        const down = y === undefined ? this.top : this.y.place(+y);
        const across = x === undefined ? 0 : right - (right - tx) / kx;
        const up = y === undefined ? 0 : down - (down - ty) / ky;
        label.setAttribute("transform", `translate(${short(across)} ${short(up)})`);
        label.style.display = this.holds(right + OFF_MARK, down) || this.holds(right, down) ? "" : "none";
      }
      this.scale(this.scales[0], this.x, (at) => [`M ${at} ${this.bottom} V ${this.top}`,
        { x: at, y: this.bottom + 14.2, "text-anchor": "middle" }]);
      this.scale(this.scales[1], this.y, (at) => [`M ${this.left} ${at} H ${this.right}`,
        { x: this.left - 7, y: at + 3.5, "text-anchor": "end" }]);
    }

    scale(group, axis, placed) {
      if (!group) return;
      group.querySelector(".made")?.remove();
      const ticks = [...group.children].filter((one) => one.classList.contains("tick"));
      for (const one of ticks) one.style.display = axis.whole() ? "" : "none";
      if (axis.whole()) return;
      const own = shape("g", { class: "made" }, group);
      for (const [value, words] of axis.ticks()) {
        const [d, place] = placed(+axis.place(value).toFixed(2));
        shape("path", { d, class: "rule" }, own);
        shape("text", place, own, words);
      }
    }
  }

  // ---- the data of a figure, as they stand below it

  function parsed(text) {
    const rows = [];
    const field = /(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\n|$)/y;
    let row = [];
    while (field.lastIndex < text.length) {
      const [, quoted, plain, end] = field.exec(text);
      row.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
      if (end !== ",") {
        rows.push(row);
        row = [];
      }
    }
    return rows;
  }

  class Lens {
    constructor(figure) {
      this.svg = figure.querySelector(".canvas svg");
      this.canvas = figure.querySelector(".canvas");
      const asked = JSON.parse(figure.dataset.axes);
      const groups = this.svg.querySelectorAll(".axes");
      this.panels = asked.axes.map((axes, number) => new Panel(groups[number], axes));
      this.data = asked.data;
      const [names, ...rows] = parsed(figure.querySelector("pre").textContent);
      this.names = names;
      this.lines = new Map();
      this.points = rows.map((row) => this.point(row)).filter((one) => one && one.panel);
      for (const one of this.points) {
        const key = `${this.panels.indexOf(one.panel)} ${one.line}`;
        if (!this.lines.has(key)) this.lines.set(key, []);
        one.of = this.lines.get(key);
        one.order = one.of.push(one) - 1;
      }
      this.lines = [...this.lines.values()];
      this.readout = made("output", "", figure, { class: "readout", "aria-live": "polite" });
      figure.querySelector(".tools").after(this.readout);
      this.cursor = shape("g", { class: "cursor" }, this.svg);
      this.now = null;
      this.listen();
    }

    point(row) {
      const { panels, line, x, y, rows } = this.data;
      const name = row[line];
      const panel = this.panels[panels.length ? panels.indexOf(row[0]) : 0];
      const values = (rows.length ? x : y).map((column) => row[column]).filter((one) => one !== "").map(Number);
      if (!values.length) return null;
      if (rows.length) return { panel, line: name, row, x: values[0], ys: [rows.indexOf(name)] };
      return { panel, line: name, row, x: Number(row[x[0]]), ys: values };
    }

    told(one) {
      const { x, y, line } = this.data;
      const kinds = new Map();
      for (const column of x) kinds.set(column, one.panel.x.kind);
      for (const column of y) kinds.set(column, one.panel.y.kind);
      const { row } = one;
      const { names } = this;
      const words = row.map((value, column) => {
        const name = names[column];
        if (value === "" || name === "target" || name === "") return "";
        if (column === line) return value;
        if (names.includes("place") && x.includes(column)) return ""; // it has a name
        if (name === "place") return value;
        if (!kinds.has(column)) return `${name}: ${value}`;
        const kind = kinds.get(column);
        const number = said(Number(value), kind);
        if (name.endsWith(HIGHEST) && value === row[column - 1]) return ""; // a bin of one value
        const alone = names[column + 1]?.endsWith(HIGHEST) && value === row[column + 1];
        const plain = alone ? name.replace(/,? ?lowest$/, "") : name;
        const told = kind ? plain.replace(` [${kind}]`, "") : plain;
        return told ? `${told}: ${number}` : number;
      });
      return words.filter((part) => part !== "").join(" \u00b7 ");
    }

    read(one) {
      this.now = one;
      this.cursor.replaceChildren();
      if (!one) {
        this.readout.textContent = "";
        return;
      }
      const { panel } = one;
      const at = panel.x.place(one.x);
      shape("path", { d: `M ${at} ${panel.top} V ${panel.bottom}` }, this.cursor);
      for (const value of one.ys) {
        const y = panel.y.place(value);
        if (y >= panel.top - 1 && y <= panel.bottom + 1) shape("circle", { cx: at, cy: y, r: 3.2 }, this.cursor);
      }
      const beside = this.data.rows.length ? []
        : this.points.filter((other) => other !== one && other.panel === panel && other.x === one.x);
      const others = beside.slice(0, SAME_PLACE).map((other) => this.told(other));
      if (beside.length > SAME_PLACE) others.push(`${beside.length - SAME_PLACE} more at this place`);
      this.readout.textContent = [this.told(one), ...others].join("\n");
    }

    nearest(x, y) {
      const panel = this.panels.find((one) => one.holds(x, y));
      let best = null;
      let least = Infinity;
      for (const one of panel ? this.points : []) {
        if (one.panel !== panel) continue;
        const across = Math.abs(panel.x.place(one.x) - x);
        const up = Math.min(...one.ys.map((value) => Math.abs(panel.y.place(value) - y)));
        const far = across + NEAR * (Number.isFinite(up) ? up : 0) + (this.data.rows.length ? up : 0);
        if (far < least) [best, least] = [one, far];
      }
      return best;
    }

    // Show the part of the panel around the point that is read, `times` as long as now.
    zoom(times) {
      const one = this.now || this.points[0];
      const { x } = one.panel;
      const [low, high] = x.view;
      const middle = this.now ? Math.min(Math.max(x.along(one.x), low), high) : (low + high) / 2;
      const half = ((high - low) * times) / 2;
      this.show(one.panel, middle - half, middle + half);
    }

    show(panel, low, high, down, up) {
      panel.x.show(low, high);
      if (down !== undefined && !this.data.rows.length) panel.y.show(down, up);
      panel.draw();
      if (this.now?.panel === panel) this.read(this.now);
    }

    whole() {
      for (const panel of this.panels) {
        for (const axis of [panel.x, panel.y]) axis.view = [...axis.ends];
        panel.draw();
      }
      this.read(null);
    }

    step(by) {
      const one = this.now;
      const next = one ? one.of[Math.min(Math.max(one.order + by, 0), one.of.length - 1)] : this.points[0];
      if (!next) return;
      const { x } = next.panel;
      const at = x.along(next.x);
      const [low, high] = x.view;
      if (at < Math.min(low, high) || at > Math.max(low, high)) {
        this.show(next.panel, at - (high - low) / 2, at + (high - low) / 2);
      }
      this.read(next);
    }

    turn(by) {
      if (!this.now) return this.step(0);
      const number = this.lines.indexOf(this.now.of) + by + this.lines.length;
      const line = this.lines[number % this.lines.length];
      const near = (one) => Math.abs(one.x - this.now.x);
      return this.read(line.reduce((best, one) => (near(one) < near(best) ? one : best)));
    }

    place(event) {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      return [at.x, at.y];
    }

    listen() {
      const keys = {
        ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
        ArrowUp: () => this.turn(-1), ArrowDown: () => this.turn(1),
        "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
        0: () => this.whole(), Escape: () => this.whole(),
      };
      this.canvas.addEventListener("keydown", (event) => {
        if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        keys[event.key]();
      });
      let from = null;
      let frame = null;
      this.svg.addEventListener("pointerdown", (event) => {
        const [x, y] = this.place(event);
        const panel = this.panels.find((one) => one.holds(x, y));
        this.read(this.nearest(x, y) || this.now);
        if (!panel || event.pointerType === "touch" || event.button !== 0) return;
        event.preventDefault();
        from = { panel, x, y };
        this.svg.setPointerCapture(event.pointerId);
      });
      this.svg.addEventListener("pointermove", (event) => {
        const [x, y] = this.place(event);
        if (!from) {
          const found = this.nearest(x, y);
          if (found && event.pointerType !== "touch") this.read(found);
          return;
        }
        frame ||= shape("rect", { class: "chosen" }, this.svg);
        for (const [name, value] of Object.entries(chosen(from, x, y))) frame.setAttribute(name, value);
      });
      const end = (event) => {
        frame?.remove();
        frame = null;
        if (from && event.type === "pointerup") {
          const { x, y, width, height } = chosen(from, ...this.place(event));
          const { panel } = from;
          const upright = height < panel.bottom - panel.top ? [panel.y.at(y + height), panel.y.at(y)] : [];
          if (width > LEAST_DRAG) this.show(panel, panel.x.at(x), panel.x.at(x + width), ...upright);
        }
        from = null;
      };
      this.svg.addEventListener("pointerup", end);
      this.svg.addEventListener("pointercancel", end);
      this.svg.addEventListener("dblclick", () => this.whole());
    }
  }

  // What a drag has chosen: its part of the panel, in full height unless it is tall itself.
  function chosen({ panel, x, y }, toX, toY) {
    const within = (value, low, high) => Math.min(Math.max(value, low), high);
    const [left, right] = [x, within(toX, panel.left, panel.right)].sort((a, b) => a - b);
    const [top, bottom] = [y, within(toY, panel.top, panel.bottom)].sort((a, b) => a - b);
    const tall = bottom - top > TALL_DRAG;
    return { x: left, width: right - left, y: tall ? top : panel.top,
      height: tall ? bottom - top : panel.bottom - panel.top };
  }

  function save(figure) {
    const words = figure.querySelector("pre").textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([words], { type: "text/csv" }));
    link.download = `${figure.dataset.name}.csv`;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function offer(figure) {
    const tools = document.createElement("div");
    tools.className = "tools";
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", `Zoom: ${figure.querySelector("h3").textContent}`);
    figure.querySelector("figcaption").before(tools);
    const canvas = figure.querySelector(".canvas");
    const look = () => {
      if (figure.classList.contains("looked")) return;
      figure.classList.add("looked");
      const lens = new Lens(figure);
      tools.replaceChildren();
      button("Zoom in", "around the selected point; or drag over the figure; key +", tools, () => lens.zoom(0.5));
      button("Zoom out", "key -", tools, () => lens.zoom(2));
      button("Show all", "the whole figure; double click, or key 0", tools, () => lens.whole());
      button("Previous", "previous point of this line; left arrow", tools, () => lens.step(-1));
      button("Next", "next point of this line; right arrow", tools, () => lens.step(1));
      if (lens.lines.length > 1) button("Next line", "down arrow", tools, () => lens.turn(1));
      button("Save CSV", "the data of this figure", tools, () => save(figure));
    };
    button("Zoom", "zoom in and read values", tools, () => {
      look();
      canvas.focus();
    });
    button("Save CSV", "the data of this figure", tools, () => save(figure));
    canvas.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && look());
  }

  // ---- tables whose columns can be chosen from

  function filter(table) {
    const rows = [...table.tBodies[0].rows];
    const heads = [...table.tHead.rows[0].cells];
    const tools = document.createElement("div");
    tools.className = "tools";
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", `Filter: ${table.caption.textContent}`);
    const choices = [];
    for (const head of heads.filter((one) => "facet" in one.dataset)) {
      const column = heads.indexOf(head);
      const found = [...new Set(rows.map((row) => row.cells[column].textContent))];
      if (found.length < MANY_CHOICES) continue;
      found.sort((a, b) => ordered(a) - ordered(b) || (a < b ? -1 : 1));
      const label = made("label", `${head.textContent} `, tools);
      const select = made("select", "", label);
      made("option", "all", select, { value: "" });
      for (const value of found) made("option", value, select, { value });
      choices.push([column, select]);
      select.addEventListener("change", () => apply());
    }
    if (!choices.length) return;
    const shown = made("output", "", tools, { "aria-live": "polite" });
    const maps = [...table.closest("section").querySelectorAll("table[data-map]")];
    const drawn = maps.map((map) => mapped(map, heads));
    const apply = () => {
      const kept = rows.filter((row) => {
        const fits = choices.every(([column, select]) => !select.value || row.cells[column].textContent === select.value);
        row.hidden = !fits;
        return fits;
      });
      shown.textContent = `${said(kept.length)} of ${said(rows.length)} ${maps.length ? "points, in maps and table" : "rows"}`;
      for (const draw of drawn) draw(kept, kept.length === rows.length);
    };
    button("Show all", "show all rows again", tools, () => {
      for (const [, select] of choices) select.value = "";
      apply();
    });
    (maps[0] || table).closest(".scroll").before(tools);
    apply();
  }

  // A heat map: how to draw it of some rows of the long table, or as it stood. Each cell has the
  // lowest bound of its rows; one without a bound counts as the lowest.
  function mapped(map, heads) {
    const { down, across, only } = JSON.parse(map.dataset.map);
    const column = (name) => heads.findIndex((head) => head.textContent === name);
    const says = (row, name) => (column(name) < 0 ? null : row.cells[column(name)].textContent);
    const place = (row, [name, values]) => (column(name) < 0 ? 0 : values.indexOf(says(row, name)));
    const within = (row) => Object.entries(only).every(([name, values]) => column(name) < 0 || values.includes(says(row, name)));
    const bound = (row) => Number(says(row, BOUND).replaceAll(",", "")) || 0;
    const cells = [...map.tBodies[0].rows].map((row) => [...row.cells].slice(-across[1].length));
    const whole = cells.flat().map((cell) => [cell, cell.textContent, cell.className, cell.title]);
    const set = ([cell, words, tone, hint]) => {
      cell.textContent = words;
      cell.className = tone;
      cell.title = hint;
    };
    return (rows, all) => {
      if (all) return whole.forEach(set);
      const least = new Map();
      for (const row of rows.filter(within)) {
        const cell = cells[place(row, down)]?.[place(row, across)];
        if (cell && (!least.has(cell) || bound(row) < bound(least.get(cell)))) least.set(cell, row);
      }
      const bounds = [...least.values()].map(bound).filter((one) => one > 0);
      const [low, high] = [Math.min(...bounds), Math.max(...bounds)];
      return cells.flat().forEach((cell) => {
        const row = least.get(cell);
        if (!row) return set([cell, "\u2013", "number", ""]);
        const step = bound(row) > 0 && high > low ? Math.round((SHADES * Math.log(bound(row) / low)) / Math.log(high / low)) : 0;
        const bad = says(row, VERDICT) === "NOT VALIDATED";
        return set([cell, says(row, BOUND) + (bad ? " \u2717" : ""), `number h${step}${bad ? " bad" : ""}`, says(row, VERDICT)]);
      });
    };
  }

  // Sizes by their bytes, other numbers by their value, words last.
  function ordered(words) {
    const found = /^([\d.,]+)\s*(KiB|MiB|GiB)?/.exec(words);
    const factor = { KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };
    return found ? Number(found[1].replaceAll(",", "")) * (factor[found[2]] || 1) : Infinity;
  }

  // Marks what is wider than its box; the style then says that it scrolls.
  const wide = new ResizeObserver((boxes) => boxes.forEach(({ target }) =>
    target.classList.toggle("more", target.scrollWidth > target.clientWidth + 1)));

  document.querySelectorAll(".scroll, .canvas").forEach((box) => wide.observe(box));
  document.querySelectorAll("figure[data-axes]").forEach(offer);
  document.querySelectorAll("table[data-filter]").forEach(filter);
})();
