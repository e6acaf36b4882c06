// What makes pages live. Everything works without it, by links and forms.
"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // --- times as ages -------------------------------------------------------------------------
  const length = (s) => {
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d`;
  };
  // A moment that is ahead by a few seconds is the difference of two clocks.
  const age = (ms) => {
    const s = Math.round((Date.now() - ms) / 1000);
    return s < -5 ? `in ${length(-s)}` : `${length(Math.max(0, s))} ago`;
  };
  // How times are written, as chosen: how long ago, in this time zone, or in UTC.
  const chosen = (name) => document.cookie.match(`(?:^|; )apportion_${name}=([^;]*)`)?.[1] ?? "";
  const choose = (name, value) => { document.cookie = `apportion_${name}=${value}; path=/; max-age=31536000; samesite=strict`; };
  let times = chosen("times") || "age";
  const two = (number) => String(number).padStart(2, "0");
  const parts = (ms) => {
    const time = new Date(ms);
    const of = (name) => times === "utc" ? time[`getUTC${name}`]() : time[`get${name}`]();
    return { date: `${of("FullYear")}-${two(of("Month") + 1)}-${two(of("Date"))}`, minute: `${two(of("Hours"))}:${two(of("Minutes"))}`, second: `:${two(of("Seconds"))}` };
  };
  const exactly = (ms) => { const { date, minute, second } = parts(ms); return `${date} ${minute}${second}${times === "utc" ? " UTC" : ""}`; };
  const tellAges = () => {
    for (const time of all("time[data-ms]")) {
      const ms = Number(time.dataset.ms);
      const text = times === "age" ? age(ms) : exactly(ms);
      if (time.textContent !== text) time.textContent = text;
      const title = times === "age" ? exactly(ms) : age(ms);
      if (time.title !== title) time.title = title;
    }
    // Labels of a time line: the hour, and the day at midnight.
    for (const label of all("text[data-ms]")) {
      const time = new Date(Number(label.dataset.ms));
      const { minute } = parts(time);
      const day = { day: "numeric", month: "short", ...(times === "utc" ? { timeZone: "UTC" } : {}) };
      const text = minute === "00:00" || label.dataset.day ? time.toLocaleDateString("en-GB", day) : minute;
      if (label.textContent !== text) label.textContent = text;
    }
    for (const zone of all("[data-zone]")) zone.textContent = times === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;
  };
  const choices = (id, value, change) => {
    const select = document.getElementById(id);
    if (!select) return;
    select.value = value;
    select.addEventListener("change", () => change(select.value));
  };

  // --- the live part of the page -------------------------------------------------------------
  const live = $("#live");
  let busy = false;
  let stale = false;
  let next = 0;
  let asked = false;
  const here = () => location.pathname + location.search;

  // A large map asks only for the nodes that changed since it was drawn, and lays them over it.
  // Whether that will do: after a while, or for another question, all of it is drawn anew.
  let shown = here();
  const retouch = async () => {
    const map = $(".map[data-tag]");
    if (!map || shown !== here() || all("g", map).length > 2000) return false;
    const query = new URLSearchParams(location.search);
    query.set("since", map.dataset.tag);
    await htmx.ajax("GET", `/topology/changes?${query}`, { target: "#below", swap: "innerMorph" });
    const tiles = $("#tiles");
    const summary = $("#summary-now");
    if (summary) { $("#summary").textContent = summary.textContent; summary.remove(); }
    for (const title of all(".title-now")) {
      const shown = document.getElementById(title.dataset.of);
      if (shown) shown.textContent = title.textContent;
      title.remove();
    }
    if (!tiles) return true;
    tiles.remove();
    if (!tiles.dataset.tag) return false;
    for (const tile of [...tiles.children]) {
      document.getElementById(tile.id)?.remove();
      document.getElementById(tile.dataset.map)?.append(tile);
    }
    map.dataset.tag = tiles.dataset.tag;
    return true;
  };
  const redo = async () => {
    if (await retouch()) return;
    shown = here();
    await htmx.ajax("GET", shown, { target: "#live", swap: "innerMorph" });
  };

  // A part that another program makes: what is there stays until it has answered.
  const part = (element) => htmx.ajax("GET", element.dataset.part, { target: element, swap: "innerMorph" });

  const refresh = async () => {
    if (!live || document.hidden) return;
    if (busy || performance.now() < next) {
      if (!stale) setTimeout(() => { if (stale) { stale = false; refresh(); } }, Math.max(100, next - performance.now()));
      stale = true;
      return;
    }
    busy = true;
    const started = performance.now();
    try {
      await Promise.all([
        redo(),
        ...all(".chart").map(draw),
        ...all("[data-part]").map(part),
      ]);
      updated = Date.now();
      // Whoever does not see what a filter left is told; what merely happens tells nobody.
      if (asked && !stale) {
        asked = false;
        $("#said").textContent = $(".lead", live)?.textContent ?? "";
      }
    } catch (error) {
      // The banner says it: the stream is lost too, and tried again.
    } finally {
      busy = false;
      // Large pages are asked for less often: a tenth of the time at most is spent on them.
      next = performance.now() + Math.max(700, 9 * (performance.now() - started));
      tellAges();
    }
  };
  document.addEventListener("htmx:after:swap", tellAges);

  // --- filters: the address says what is shown, so that it can be sent to others ----------------
  const ask = (form) => {
    const set = [...new FormData(form)].filter(([, value]) => value !== "");
    const query = new URLSearchParams(set).toString();
    history.pushState(null, "", form.getAttribute("action") + (query && `?${query}`));
    next = 0;
    asked = true;
    refresh();
  };
  // What is past does not change: its forms lead to another page.
  for (const form of live ? all("form[data-live]") : []) {
    form.addEventListener("submit", (event) => { event.preventDefault(); ask(form); });
    form.addEventListener("change", () => ask(form));
  }
  addEventListener("popstate", () => location.reload());

  // --- cycles of the past -------------------------------------------------------------------------
  const number = $("#cycle");
  const slide = $("#slide");
  let slid = false;
  if (slide) {
    slide.addEventListener("input", () => { slid = true; number.value = slide.value; });
    slide.addEventListener("change", () => number.form.requestSubmit());
    number.addEventListener("input", () => { slid = true; slide.value = number.value; });
  }
  // The newest cycle moves on, and with it the end of the slider, unless somebody has it in hand.
  const reach = (newest) => {
    if (!slide || slid || number === document.activeElement) return;
    $("#newest").textContent = newest.toLocaleString("en");
    for (const input of [number, slide]) {
      input.max = newest;
      if (live) input.value = newest;
    }
  };
  const lookAt = (past) => {
    const address = new URL(location.href);
    address.searchParams.set("cycle", past);
    location.href = address;
  };
  const top = $(".top");
  const measure = () => document.documentElement.style.setProperty("--top", `${top.offsetHeight}px`);
  new ResizeObserver(measure).observe(top);

  // --- the stream ------------------------------------------------------------------------------
  const pulse = $("#pulse");
  const banner = $("#banner");
  let stream = null;
  let heard = Date.now();
  let updated = Date.now();
  let cycle = null;
  let word = "cycle";
  let lost = false;

  const tellPulse = () => {
    if (!pulse) return;
    const seconds = Math.round((Date.now() - heard) / 1000);
    // A message comes at least every ten seconds.
    const isLost = document.hidden ? lost : seconds > 25 || (stream && stream.readyState !== 1 && seconds > 3);
    if (cycle !== null) {
      pulse.className = `pulse ${isLost ? "off" : "on"}`;
      pulse.textContent = `${isLost ? "lost" : "live"} · ${word} ${cycle.toLocaleString("en")} · ${age(heard)}`;
    }
    if (isLost !== lost) {
      lost = isLost;
      banner.hidden = !lost;
      if (lost) banner.textContent = `The daemon does not answer any more. What is shown is from ${new Date(updated).toLocaleTimeString()}; it is tried again.`;
    }
  };
  const listen = () => {
    if (stream || document.hidden || !live) return;
    stream = new EventSource("/live");
    stream.addEventListener("cycle", (event) => {
      heard = Date.now();
      const news = JSON.parse(event.data);
      const isNews = news.cycle !== cycle;
      cycle = news.cycle;
      word = news.word ?? "cycle";
      if (!news.word) reach(cycle);
      tellPulse();
      if (isNews) refresh();
    });
    stream.onerror = () => {
      // Where the browser gives up, we do not.
      // If the session is over, asking for the page leads to the form.
      if (stream && stream.readyState === 2) { stream = null; setTimeout(() => { listen(); refresh(); }, 2000); }
    };
  };
  // A browser has few connections to one place: a page that nobody sees needs none.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stream?.close(); stream = null; } else { heard = Date.now(); cycle = null; listen(); }
  });
  addEventListener("pagehide", () => { stream?.close(); stream = null; });

  // --- curves ----------------------------------------------------------------------------------
  const plots = new Map();
  // As the page has it: a property may be one colour by day and another by night.
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  const colour = (name) => { probe.style.color = `var(${name})`; return getComputedStyle(probe).color; };
  const faint = (name) => colour(name).replace("rgb(", "rgba(").replace(")", ", .18)");
  // Memory in the unit of its chart, as elsewhere on the pages: GB, and from 10,240 GB on TB.
  const units = new Map();
  const unitOf = (element, curves) => {
    if (!units.has(element)) {
      const most = Math.max(0, ...curves.flatMap((curve) => curve.memory_mb ?? []));
      units.set(element, most >= 10485760 ? { size: 1048576, name: "TB" } : { size: 1024, name: "GB" });
    }
    return units.get(element);
  };
  const memoryIn = (unit) => (amount) => {
    if (amount === null || amount === undefined) return "–";
    return `${amount >= 100 ? Math.round(amount).toLocaleString("en") : Math.round(amount * 10) / 10} ${unit.name}`;
  };
  const clock = (seconds, step) => {
    const { date, minute, second } = parts(seconds * 1000);
    if (step >= 86400) return date;
    return minute + (step < 60 ? second : "");
  };
  // The cycle of the past that the page shows, as a line.
  const then = Number(document.documentElement.dataset.then) / 1000;
  const mark = (plot) => {
    const { left, width, top, height } = plot.bbox;
    const x = plot.valToPos(then, "x", true);
    if (!(x >= left && x <= left + width)) return;
    plot.ctx.save();
    plot.ctx.strokeStyle = colour("--ink");
    plot.ctx.lineWidth = 2;
    plot.ctx.beginPath();
    plot.ctx.moveTo(x, top);
    plot.ctx.lineTo(x, top + height);
    plot.ctx.stroke();
    plot.ctx.restore();
  };
  const cyclesOf = new Map();
  const options = (element, labels, amount) => {
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "11px system-ui, sans-serif" };
    const looks = {
      "fair share": { stroke: colour("--due"), dash: [6, 4], width: 2 },
      schedulable: { stroke: colour("--due"), dash: [6, 4], width: 2 },
      held: { stroke: colour("--held"), fill: faint("--held"), width: 2 },
      "in use": { stroke: colour("--held"), fill: faint("--held"), width: 2 },
      preempted: { stroke: colour("--due"), fill: colour("--due"), width: 1, paths: uPlot.paths.bars({ size: [0.8, 20], align: 1 }) },
    };
    return {
      width: element.clientWidth, height: element.clientHeight - 26,
      cursor: { points: { size: 6 }, drag: { x: true, y: false } },
      hooks: { draw: [mark] },
      scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.08)] } },
      axes: [{ ...axis, space: 90, values: (_, ticks, __, ___, step) => ticks.map((tick) => clock(tick, step)) }, { ...axis, size: (_, ticks) => 14 + 7 * Math.max(8, ...(ticks ?? []).map((tick) => tick.length)), values: (_, ticks) => ticks.map(amount) }],
      series: [{ label: "at", value: (_, at) => at ? clock(at, 1) : "–" }, ...labels.map((label) => ({ label, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }), ...looks[label], value: (_, value) => amount(value) }))],
    };
  };
  const draw = async (element) => {
    const answer = await fetch(element.dataset.src);
    if (!answer.ok) return;
    const { at_ms, cycles, curves } = await answer.json();
    const unit = unitOf(element, curves);
    const amount = curves[0]?.processes ? (count) => count === null || count === undefined ? "–" : count.toLocaleString("en") : memoryIn(unit);
    const data = [at_ms.map((ms) => ms / 1000), ...curves.map((curve) => curve.processes ?? curve.memory_mb.map((mb) => mb / unit.size))];
    cyclesOf.set(element, cycles);
    const plot = plots.get(element);
    if (plot) {
      // Whoever looks closer at a part of it is left alone.
      const { min, max } = plot.scales.x;
      const was = plot.data[0];
      plot.setData(data, min === was[0] && max === was[was.length - 1]);
    } else if (at_ms.length > 1) {
      element.replaceChildren();
      const plot = new uPlot(options(element, curves.map((curve) => curve.label), amount), data, element);
      plots.set(element, plot);
      // A point of the curve leads to its cycle; who draws a span looks closer at that.
      let from = null;
      plot.over.addEventListener("mousedown", (event) => { from = event.clientX; });
      plot.over.addEventListener("click", (event) => {
        const past = cyclesOf.get(element)[plot.cursor.idx];
        if (past && Math.abs(event.clientX - from) < 4) lookAt(past);
      });
    }
    // Only now is it known: until the answer is here, nothing is said.
    element.toggleAttribute("data-few", at_ms.length < 2);
    // Where nobody points, the figures of now.
    const shown = plots.get(element);
    if (shown && shown.cursor.idx == null) shown.setLegend({ idx: at_ms.length - 1 }, false);
  };
  const redraw = () => { for (const [element, plot] of plots) { plot.destroy(); plots.delete(element); draw(element); } };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let resized = 0;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(redraw, 200); });

  // --- nodes of a large map, by their place ------------------------------------------------------
  const names = new Map();
  const expand = (list) => {
    if (names.has(list)) return names.get(list);
    const out = [];
    // "a[1-3,7],b" as the daemon folds it.
    for (const part of list.match(/(?:[^,[\]]|\[[^\]]*\])+/g) ?? []) {
      const ranges = part.match(/^([^[]*)\[([^\]]*)\](.*)$/);
      if (!ranges) { out.push(part); continue; }
      for (const range of ranges[2].split(",")) {
        const [from, to = from] = range.split("-");
        for (let n = Number(from); n <= Number(to); n++) out.push(ranges[1] + String(n).padStart(from.length, "0") + ranges[3]);
      }
    }
    names.clear();
    names.set(list, out);
    return out;
  };
  const nodeAt = (event) => {
    const map = event.target.closest?.("svg[data-names]");
    if (!map) return null;
    const box = map.getBoundingClientRect();
    const zoom = map.viewBox.baseVal.width / box.width;
    const [across, down] = map.dataset.step.split(" ").map(Number);
    const columns = Number(map.dataset.columns);
    const column = Math.floor((event.clientX - box.left) * zoom / across);
    const row = Math.floor((event.clientY - box.top) * zoom / down);
    return column < columns ? expand(map.dataset.names)[row * columns + column] ?? null : null;
  };
  // What is known of a node stands above the map: at once where the page has it, else it is asked.
  const past = () => new URLSearchParams(location.search).get("cycle");
  const nodeLink = (name) => `/node/${encodeURIComponent(name)}${past() ? `?cycle=${past()}` : ""}`;
  let pointed = "";
  let asking = 0;
  const say = (text, name) => {
    const spot = $("#spot");
    if (!spot || spot.dataset.text === text) return;
    spot.dataset.text = text;
    spot.textContent = text;
    if (text && name) {
      const link = document.createElement("a");
      link.href = nodeLink(name);
      link.textContent = "Open";
      spot.append(" ", link);
    }
  };
  const point = (name) => {
    if (name === pointed) return;
    pointed = name;
    say(name, name);
    clearTimeout(asking);
    if (!name) return;
    asking = setTimeout(async () => {
      const query = new URLSearchParams({ name, ...(past() ? { cycle: past() } : {}) });
      const answer = await fetch(`/topology/node?${query}`);
      if (answer.ok && pointed === name) say(await answer.text(), name);
    }, 90);
  };
  const over = (event) => {
    if (!$("#spot") || event.target.closest?.("#spot")) return;
    const cell = event.target.closest?.(".map a");
    if (cell) { pointed = ""; say(cell.getAttribute("aria-label")); return; }
    const name = nodeAt(event);
    // A finger that lifts leaves what it found.
    if (name || event.pointerType === "mouse") point(name ?? "");
  };
  document.addEventListener("pointermove", over);
  document.addEventListener("focusin", (event) => {
    const cell = event.target.closest?.(".map a");
    if (cell) say(cell.getAttribute("aria-label"));
  });
  document.addEventListener("click", (event) => {
    const name = nodeAt(event);
    if (!name) return;
    // A first tap says what is there, a second opens it.
    if (event.pointerType === "touch" && pointed !== name) { point(name); return; }
    location.href = nodeLink(name);
  });
  // By keyboard: a frame goes from node to node.
  const places = new WeakMap();
  const frameNode = (map, place) => {
    const [across, down] = map.dataset.step.split(" ").map(Number);
    const columns = Number(map.dataset.columns);
    let frame = $(".cursor", map);
    if (!frame) {
      frame = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      frame.setAttribute("class", "cursor");
      map.append(frame);
    }
    const box = { x: (place % columns) * across, y: Math.floor(place / columns) * down, width: across, height: down };
    for (const [name, value] of Object.entries(box)) frame.setAttribute(name, value);
    places.set(map, place);
    point(expand(map.dataset.names)[place]);
  };
  document.addEventListener("keydown", (event) => {
    const map = event.target.closest?.("svg[data-names]");
    if (!map) return;
    const columns = Number(map.dataset.columns);
    const count = expand(map.dataset.names).length;
    const place = places.get(map);
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -count, End: count };
    if (event.key === "Enter" && place !== undefined) { location.href = nodeLink(expand(map.dataset.names)[place]); return; }
    if (!(event.key in steps)) return;
    event.preventDefault();
    frameNode(map, place === undefined ? 0 : Math.min(count - 1, Math.max(0, place + steps[event.key])));
  });

  // On a narrow screen the sections are longer than it: the current one is in sight.
  const current = $(".top [aria-current]");
  const nav = current?.closest("nav");
  if (nav) nav.scrollLeft = current.offsetLeft - nav.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;

  // --- begin -------------------------------------------------------------------------------------
  choices("theme", chosen("theme"), (theme) => {
    choose("theme", theme);
    if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
    redraw();
  });
  choices("times", times, (now) => { times = now; choose("times", now); tellAges(); redraw(); });
  tellAges();
  for (const element of all(".chart")) draw(element);
  for (const element of all("[data-part]")) part(element);
  setInterval(() => { tellAges(); tellPulse(); }, 1000);
  listen();
})();
