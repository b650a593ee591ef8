// A map of listings in Web Mercator, drawn on a canvas, with mouse, touch and keyboard controls. It loads no tiles.

const TILE = 256; // width of the world in pixels at zoom 0
const EQUATOR_METRES = 40075016.686;
const LEAST_ZOOM = 1, MOST_ZOOM = 19, UNGROUPED_ZOOM = 16;
const REACH = 58; // clustering radius in pixels
const TOGETHER = 4; // minimum number of listings in a cluster
const STEPS = [30, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];
const FONT = "system-ui, -apple-system, \"Segoe UI\", Roboto, \"Liberation Sans\", Arial, sans-serif";

export const project = (longitude, latitude) => {
  const sine = Math.min(0.9999, Math.max(-0.9999, Math.sin(latitude * Math.PI / 180)));
  return { x: longitude / 360 + 0.5, y: 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI) };
};
export const unproject = (x, y) => ({
  longitude: (x - 0.5) * 360,
  latitude: Math.atan(Math.sinh((0.5 - y) * 2 * Math.PI)) * 180 / Math.PI,
});

const bounded = (value, least, most) => Math.min(most, Math.max(least, value));
const round = limit => {
  const power = 10 ** Math.floor(Math.log10(limit));
  return power * [5, 2, 1].find(times => times * power <= limit);
};
const middle = values => values.sort((one, other) => one - other)[values.length >> 1];
const overlap = (one, other) => one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

// Greedy clustering: a point near a marker joins it. Computed at integer zooms, so that markers do not move while panning.
function gather(points, reach) {
  const cells = new Map(), groups = [];
  for (const point of points) {
    const column = Math.floor(point.x / reach), row = Math.floor(point.y / reach);
    let found = null, nearest = reach;
    for (let dx = -1; dx <= 1; dx++) for (let dy = -1; dy <= 1; dy++) {
      for (const group of cells.get(`${column + dx},${row + dy}`) ?? []) {
        const distance = Math.hypot(group.seed.x - point.x, group.seed.y - point.y);
        if (distance < nearest) [found, nearest] = [group, distance];
      }
    }
    if (found) { found.points.push(point); continue; }
    const group = { seed: point, points: [point] }, cell = `${column},${row}`;
    groups.push(group);
    if (cells.has(cell)) cells.get(cell).push(group); else cells.set(cell, [group]);
  }
  return groups;
}

function centred(group) {
  const count = group.points.length, statuses = new Map();
  let x = 0, y = 0;
  for (const point of group.points) {
    x += point.x / count;
    y += point.y / count;
    statuses.set(point.status, (statuses.get(point.status) ?? 0) + 1);
  }
  return { x, y, points: group.points, statuses: [...statuses].sort((one, other) => other[1] - one[1]) };
}

export class Plane {
  // `colours()` returns colours by name; `moved(points)` receives the points in view, `picked(point)` the selected one.
  constructor(canvas, { colours, moved, picked }) {
    Object.assign(this, { canvas, colours, moved, picked });
    this.points = [];
    this.centre = { x: 0.5, y: 0.4 };
    this.zoom = 2;
    this.chosen = this.hovered = null;
    this.marks = [];
    this.pointers = new Map();
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.listen();
    this.resize();
  }

  get world() { return TILE * 2 ** this.zoom; }

  resize() {
    const { width, height } = this.canvas.getBoundingClientRect();
    Object.assign(this, { width, height });
    const density = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(height * density);
    this.change();
  }

  show(points) {
    this.points = points;
    this.groups = new Map();
    const places = new Map();
    for (const point of points) {
      if (!point.city) continue;
      if (places.has(point.city)) places.get(point.city).push(point); else places.set(point.city, [point]);
    }
    this.places = [...places]
      .map(([name, there]) => ({ name, count: there.length, x: middle(there.map(({ x }) => x)), y: middle(there.map(({ y }) => y)) }))
      .sort((one, other) => other.count - one.count);
    this.change();
  }

  fit(points = this.points, atMost = 15) {
    if (!points.length) return;
    const xs = points.map(({ x }) => x), ys = points.map(({ y }) => y);
    const least = values => values.reduce((one, other) => Math.min(one, other));
    const most = values => values.reduce((one, other) => Math.max(one, other));
    const [left, right, top, bottom] = [least(xs), most(xs), least(ys), most(ys)];
    const room = Math.min((this.width - 90) / Math.max(right - left, 1e-9), (this.height - 110) / Math.max(bottom - top, 1e-9));
    this.glide({ x: (left + right) / 2, y: (top + bottom) / 2 }, bounded(Math.log2(room / TILE), LEAST_ZOOM, atMost));
  }

  choose(point, { move = false } = {}) {
    this.chosen = point;
    if (point && move) this.glide({ x: point.x, y: point.y }, Math.max(this.zoom, 14));
    else this.draw();
  }

  hover(point) {
    if (this.hovered === point) return;
    this.hovered = point;
    this.draw();
  }

  // Move to a position; without animation if the user prefers reduced motion.
  glide(centre, zoom) {
    cancelAnimationFrame(this.gliding);
    const from = { ...this.centre, zoom: this.zoom }, began = performance.now();
    const step = now => {
      const part = this.still.matches ? 1 : bounded((now - began) / 280, 0, 1), eased = 1 - (1 - part) ** 3;
      this.zoom = from.zoom + (zoom - from.zoom) * eased;
      this.centre = { x: from.x + (centre.x - from.x) * eased, y: from.y + (centre.y - from.y) * eased };
      this.change();
      if (part < 1) this.gliding = requestAnimationFrame(step);
    };
    step(began);
  }

  zoomBy(levels, at = { x: this.width / 2, y: this.height / 2 }, gliding = false) {
    const zoom = bounded(this.zoom + levels, LEAST_ZOOM, MOST_ZOOM), fixed = this.lying(at), world = TILE * 2 ** zoom;
    const centre = { x: fixed.x - (at.x - this.width / 2) / world, y: fixed.y - (at.y - this.height / 2) / world };
    if (gliding) { this.glide(centre, zoom); return; }
    Object.assign(this, { zoom, centre });
    this.change();
  }

  panBy(dx, dy) {
    this.centre = { x: this.centre.x + dx / this.world, y: this.centre.y + dy / this.world };
    this.change();
  }

  lying({ x, y }) {
    return { x: this.centre.x + (x - this.width / 2) / this.world, y: this.centre.y + (y - this.height / 2) / this.world };
  }

  seen({ x, y }) {
    return { x: (x - this.centre.x) * this.world + this.width / 2, y: (y - this.centre.y) * this.world + this.height / 2 };
  }

  within() {
    const from = this.lying({ x: 0, y: 0 }), to = this.lying({ x: this.width, y: this.height });
    return this.points.filter(({ x, y }) => x >= from.x && x <= to.x && y >= from.y && y <= to.y);
  }

  change() {
    this.centre = { x: bounded(this.centre.x, 0, 1), y: bounded(this.centre.y, 0, 1) };
    this.draw();
    clearTimeout(this.notifying);
    this.notifying = setTimeout(() => this.moved(this.within()), 120);
  }

  draw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  paint() {
    const pen = this.canvas.getContext("2d"), density = window.devicePixelRatio || 1;
    this.ink = this.colours();
    pen.setTransform(density, 0, 0, density, 0, 0);
    pen.fillStyle = this.ink.ground;
    pen.fillRect(0, 0, this.width, this.height);
    this.graticule(pen);
    this.borders(pen);
    this.marks = this.standing();
    const [many, single] = [this.marks.filter(mark => mark.points), this.marks.filter(mark => !mark.points)];
    single.forEach(mark => this.dot(pen, mark, 5.5));
    many.forEach(mark => this.ring(pen, mark));
    this.names(pen, many);
    if (this.hovered && this.hovered !== this.chosen) this.halo(pen, this.hovered, 1.5, this.ink.soft);
    if (this.chosen) this.halo(pen, this.chosen, 3, this.ink.ink);
    this.scale(pen);
  }

  // Return what is drawn: points and clusters with their screen positions.
  standing() {
    const level = Math.floor(this.zoom), marks = [];
    if (!this.groups) return marks;
    if (!this.groups.has(level)) this.groups.set(level, gather(this.points, REACH / (TILE * 2 ** level)).map(centred));
    for (const group of this.groups.get(level)) {
      if (group.points.length >= TOGETHER && this.zoom < UNGROUPED_ZOOM) this.put(marks, group, { points: group.points, statuses: group.statuses });
      else for (const point of group.points) this.put(marks, point, { point });
    }
    return marks;
  }

  put(marks, place, mark) {
    const at = this.seen(place);
    const radius = mark.points ? 11 + 4.2 * Math.log10(mark.points.length) : 5.5;
    if (at.x > -40 && at.y > -40 && at.x < this.width + 40 && at.y < this.height + 40) marks.push({ ...at, ...mark, radius });
  }

  dot(pen, { x, y, point }, radius) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fillStyle = this.ink[point.tone];
    pen.fill();
    pen.lineWidth = 1.5;
    pen.strokeStyle = this.ink.ground;
    pen.stroke();
  }

  // Draw a cluster: a ring divided by status around the count.
  ring(pen, { x, y, points, radius, statuses }) {
    let angle = -Math.PI / 2;
    pen.beginPath();
    pen.arc(x, y, radius + 2.5, 0, 2 * Math.PI);
    pen.fillStyle = this.ink.ground;
    pen.fill();
    for (const [status, count] of statuses) {
      const end = angle + 2 * Math.PI * count / points.length;
      pen.beginPath();
      pen.arc(x, y, radius, angle, end);
      pen.lineWidth = 4.5;
      pen.strokeStyle = this.ink[points.find(point => point.status === status).tone];
      pen.stroke();
      angle = end;
    }
    pen.font = `600 ${points.length > 999 ? 10 : 11}px ${FONT}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillStyle = this.ink.ink;
    pen.fillText(points.length > 9999 ? `${Math.round(points.length / 1000)}k` : points.length, x, y + 0.5);
  }

  halo(pen, point, width, colour) {
    const { x, y } = this.seen(point);
    this.dot(pen, { x, y, point }, 8);
    pen.beginPath();
    pen.arc(x, y, 11.5, 0, 2 * Math.PI);
    pen.lineWidth = width;
    pen.strokeStyle = colour;
    pen.stroke();
  }

  // Draw town names from the listings, at the centre of their listings; larger towns first, without overlaps.
  names(pen, many) {
    const taken = many.map(({ x, y, radius }) => ({ left: x - radius - 3, right: x + radius + 3, top: y - radius - 3, bottom: y + radius + 3 }));
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    let written = 0;
    for (const place of this.places ?? []) {
      if (written >= 30) break;
      const { x, y } = this.seen(place), size = place.count > 60 ? 13.5 : 12.5;
      pen.font = `650 ${size}px ${FONT}`;
      const half = pen.measureText(place.name).width / 2 + 3;
      const aside = half + 22;
      for (const [dx, dy] of [[0, 0], [0, 24], [0, -24], [0, 36], [0, -36], [-aside, 0], [aside, 0], [-aside, 18], [aside, 18], [-aside, -18], [aside, -18]]) {
        const box = { left: x + dx - half, right: x + dx + half, top: y + dy - 9, bottom: y + dy + 9 };
        if (box.left < 4 || box.right > this.width - 4 || box.top < 20 || box.bottom > this.height - 4) continue;
        if (taken.some(other => overlap(box, other))) continue;
        this.text(pen, place.name, x + dx, y + dy, this.ink.ink);
        taken.push(box);
        written += 1;
        break;
      }
    }
  }

  // Arcs of TopoJSON: after their first position, each is the distance to the one before.
  border({ scale: [across, up], translate: [west, south], arcs }) {
    this.lines = arcs.map(arc => {
      let column = 0, row = 0;
      const places = arc.map(([dx, dy]) => project((column += dx) * across + west, (row += dy) * up + south));
      const xs = places.map(({ x }) => x), ys = places.map(({ y }) => y);
      return { places, left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
    });
    this.draw();
  }

  borders(pen) {
    const from = this.lying({ x: 0, y: 0 }), to = this.lying({ x: this.width, y: this.height });
    const view = { left: from.x, right: to.x, top: from.y, bottom: to.y };
    pen.beginPath();
    for (const line of this.lines ?? []) {
      if (!overlap(line, view)) continue;
      line.places.forEach((place, index) => {
        const { x, y } = this.seen(place);
        if (index) pen.lineTo(x, y); else pen.moveTo(x, y);
      });
    }
    pen.lineWidth = 1;
    pen.strokeStyle = this.ink.border;
    pen.stroke();
  }

  text(pen, text, x, y, colour) {
    pen.lineWidth = 4;
    pen.strokeStyle = this.ink.ground;
    pen.strokeText(text, x, y);
    pen.fillStyle = colour;
    pen.fillText(text, x, y);
  }

  graticule(pen) {
    const step = STEPS.findLast(degrees => degrees / 360 * this.world >= 105) ?? STEPS[0];
    const from = unproject(...Object.values(this.lying({ x: 0, y: this.height })));
    const to = unproject(...Object.values(this.lying({ x: this.width, y: 0 })));
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    const said = (degrees, [positive, negative]) => `${Math.abs(degrees).toFixed(digits)}° ${degrees < 0 ? negative : positive}`;
    pen.lineWidth = 1;
    pen.font = `11px ${FONT}`;
    pen.strokeStyle = this.ink.line;
    const lines = [];
    for (let at = Math.ceil(from.longitude / step); at * step <= to.longitude; at++) {
      const x = Math.round(this.seen(project(at * step, 0)).x) + 0.5;
      lines.push([said(at * step, "EW"), x, 11, "center", [x, 0, x, this.height]]);
    }
    for (let at = Math.ceil(from.latitude / step); at * step <= to.latitude; at++) {
      const y = Math.round(this.seen(project(0, at * step)).y) + 0.5;
      lines.push([said(at * step, "NS"), 6, y, "left", [0, y, this.width, y]]);
    }
    pen.beginPath();
    for (const [, , , , [x, y, toX, toY]] of lines) {
      pen.moveTo(x, y);
      pen.lineTo(toX, toY);
    }
    pen.stroke();
    pen.textBaseline = "middle";
    for (const [label, x, y, align] of lines) {
      const isFree = align === "center" ? x > 40 && x < this.width - 70 : y > 26 && y < this.height - 64;
      pen.textAlign = align;
      if (isFree) this.text(pen, label, x, y, this.ink.soft);
    }
  }

  scale(pen) {
    const { latitude } = unproject(this.centre.x, this.centre.y);
    const metres = EQUATOR_METRES * Math.cos(latitude * Math.PI / 180) / this.world, foot = this.height - 12;
    const bars = [[1000, "km", 1, "m"], [1609.344, "mi", 0.3048, "ft"]].map(([large, name, small, lesser], row) => {
      const [unit, called] = metres * 110 >= large ? [large, name] : [small, lesser];
      const amount = round(metres * 110 / unit);
      return [amount * unit / metres, `${amount} ${called}`, foot - row * 19];
    });
    pen.textAlign = "left";
    pen.textBaseline = "alphabetic";
    pen.font = `11px ${FONT}`;
    for (const [length, label, y] of bars) {
      const line = new Path2D(`M12 ${y - 5}V${y}H${12 + length}V${y - 5}`);
      pen.lineWidth = 4;
      pen.strokeStyle = this.ink.ground;
      pen.stroke(line);
      pen.lineWidth = 1.5;
      pen.strokeStyle = this.ink.ink;
      pen.stroke(line);
      this.text(pen, label, 17, y - 4, this.ink.ink);
    }
  }

  // Return the nearest marker under a finger or pointer.
  under({ x, y }, reach) {
    let found = null, nearest = Infinity;
    for (const mark of this.marks) {
      const distance = Math.hypot(mark.x - x, mark.y - y) - mark.radius;
      if (distance <= reach && distance < nearest) [found, nearest] = [mark, distance];
    }
    return found;
  }

  click(at, reach) {
    const mark = this.under(at, reach);
    if (mark?.points) this.fit(mark.points, Math.max(UNGROUPED_ZOOM, this.zoom + 1));
    else this.picked(mark?.point ?? null);
  }

  listen() {
    const at = event => ({ x: event.offsetX, y: event.offsetY }), { canvas, pointers } = this;
    canvas.addEventListener("pointerdown", event => {
      if (event.button) return;
      cancelAnimationFrame(this.gliding);
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, at(event));
      this.travelled = pointers.size > 1 ? Infinity : 0;
    });
    canvas.addEventListener("pointermove", event => {
      const before = pointers.get(event.pointerId), now = at(event);
      if (!before) {
        const mark = this.under(now, 4);
        canvas.classList.toggle("on-mark", mark !== null);
        this.hover(mark?.point ?? null);
        return;
      }
      const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
      pointers.set(event.pointerId, now);
      this.travelled += Math.hypot(now.x - before.x, now.y - before.y);
      if (other) {
        const spread = place => Math.max(10, Math.hypot(place.x - other.x, place.y - other.y));
        this.zoomBy(Math.log2(spread(now) / spread(before)), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
      }
      const share = other ? 2 : 1;
      if (other || this.travelled > 4) this.panBy((before.x - now.x) / share, (before.y - now.y) / share);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, event => {
      const was = pointers.delete(event.pointerId);
      if (was && name === "pointerup" && this.travelled <= 4) this.click(at(event), event.pointerType === "touch" ? 16 : 4);
    });
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("dblclick", event => this.under(at(event), 4) ?? this.zoomBy(1, at(event), true));
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      cancelAnimationFrame(this.gliding);
      const pixels = event.deltaY * (event.deltaMode ? 16 : 1);
      this.zoomBy(bounded(-pixels * (event.ctrlKey ? 0.01 : 0.0025), -1, 1), at(event));
    }, { passive: false });
    canvas.addEventListener("keydown", event => {
      const act = this.key(event.key);
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
  }

  key(name) {
    const pan = (dx, dy) => () => this.panBy(dx * 80, dy * 80), zoom = levels => () => this.zoomBy(levels, undefined, true);
    return {
      ArrowLeft: pan(-1, 0), ArrowRight: pan(1, 0), ArrowUp: pan(0, -1), ArrowDown: pan(0, 1),
      "+": zoom(1), "=": zoom(1), "-": zoom(-1), "0": () => this.fit(), Escape: () => this.picked(null),
    }[name];
  }
}
