// What makes pages live. Everything works without it, by links and forms.
"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // --- times as ages -------------------------------------------------------------------------
  const age = (ms) => {
    const s = Math.max(0, Math.round((Date.now() - ms) / 1000));
    if (s < 60) return `${s} s ago`;
    if (s < 3600) return `${Math.floor(s / 60)} min ago`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min ago`;
    return `${Math.floor(s / 86400)} d ago`;
  };
  const tellAges = () => {
    for (const time of all("time[data-ms]")) {
      const ms = Number(time.dataset.ms);
      const text = age(ms);
      if (time.textContent !== text) time.textContent = text;
      time.title ||= new Date(ms).toLocaleString();
    }
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
    await htmx.ajax("GET", `/topology/changes?${query}`, { target: "#above", swap: "innerMorph" });
    const tiles = $("#tiles");
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
  for (const form of all("form[data-live]")) {
    form.addEventListener("submit", (event) => { event.preventDefault(); ask(form); });
    form.addEventListener("change", () => ask(form));
  }
  addEventListener("popstate", () => location.reload());

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
      if (lost) banner.textContent = `The daemon is not heard any more. What is shown is from ${new Date(updated).toLocaleTimeString()}; it is tried again.`;
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
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const memory = (gb) => gb === null || gb === undefined ? "–" : gb >= 100 ? `${Math.round(gb).toLocaleString("en")} GB` : `${Math.round(gb * 10) / 10} GB`;
  const clock = (seconds, step) => {
    const time = new Date(seconds * 1000);
    const two = (number) => String(number).padStart(2, "0");
    if (step >= 86400) return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
    return `${two(time.getHours())}:${two(time.getMinutes())}` + (step < 60 ? `:${two(time.getSeconds())}` : "");
  };
  const options = (element, labels) => {
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "11px system-ui, sans-serif" };
    const looks = {
      deserved: { stroke: colour("--due"), dash: [6, 4], width: 2 },
      schedulable: { stroke: colour("--due"), dash: [6, 4], width: 2 },
      held: { stroke: colour("--held"), fill: colour("--held") + "2e", width: 2 },
      "in use": { stroke: colour("--held"), fill: colour("--held") + "2e", width: 2 },
    };
    return {
      width: element.clientWidth, height: element.clientHeight - 26,
      cursor: { points: { size: 6 }, drag: { x: true, y: false } },
      scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.08)] } },
      axes: [{ ...axis, space: 90, values: (_, ticks, __, ___, step) => ticks.map((tick) => clock(tick, step)) }, { ...axis, size: (_, ticks) => 14 + 7 * Math.max(8, ...(ticks ?? []).map((tick) => tick.length)), values: (_, ticks) => ticks.map(memory) }],
      series: [{ label: "at", value: (_, at) => at ? clock(at, 1) : "–" }, ...labels.map((label) => ({ label, ...looks[label], points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }), value: (_, gb) => memory(gb) }))],
    };
  };
  const draw = async (element) => {
    const answer = await fetch(element.dataset.src);
    if (!answer.ok) return;
    const { at_ms, curves } = await answer.json();
    const data = [at_ms.map((ms) => ms / 1000), ...curves.map((curve) => curve.memory_mb.map((mb) => mb / 1024))];
    const plot = plots.get(element);
    if (plot) {
      // Whoever looks closer at a part of it is left alone.
      const { min, max } = plot.scales.x;
      const was = plot.data[0];
      plot.setData(data, min === was[0] && max === was[was.length - 1]);
    } else if (at_ms.length > 1) {
      element.replaceChildren();
      plots.set(element, new uPlot(options(element, curves.map((curve) => curve.label)), data, element));
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
  document.addEventListener("mousemove", (event) => {
    const spot = $("#spot");
    if (!spot) return;
    const cell = event.target.closest?.(".map a");
    const text = cell ? cell.getAttribute("aria-label") : nodeAt(event) ?? "";
    if (spot.textContent !== text) spot.textContent = text;
  });
  document.addEventListener("click", (event) => {
    const name = nodeAt(event);
    if (name) location.href = `/node/${encodeURIComponent(name)}`;
  });

  // --- begin -------------------------------------------------------------------------------------
  tellAges();
  for (const element of all(".chart")) draw(element);
  for (const element of all("[data-part]")) part(element);
  setInterval(() => { tellAges(); tellPulse(); }, 1000);
  listen();
})();
