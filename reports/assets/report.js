"use strict";
/* Adds to a page that is complete without it: a shared zoom of all time charts, a reading line, filters, copying, and printing of
   folded parts. It reads and writes only its own page. */
(() => {
  const charts = [...document.querySelectorAll("svg.chart")];
  const SVG = "http://www.w3.org/2000/svg";
  for (const hidden of document.querySelectorAll("[data-script]")) hidden.hidden = false;

  const width = charts.length ? Number(charts[0].dataset.width) : 1;
  const left = charts.length ? Number(charts[0].dataset.left) : 0;
  const begin = charts.length ? Number(charts[0].dataset.start) : 0;
  const end = charts.length ? Number(charts[0].dataset.end) : 1;
  const originals = charts.map((chart) => chart.querySelector(".time-axis").innerHTML.length && [...chart.querySelector(".time-axis").childNodes]);
  let view = [0, width];

  const seconds = (x) => begin + ((end - begin) * x) / width;
  const made = (name, attributes, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text) node.textContent = text;
    return node;
  };

  function ticks(chart, index) {
    const axis = chart.querySelector(".time-axis");
    if (view[0] === 0 && view[1] === width) return axis.replaceChildren(...originals[index]);
    const y = Number(axis.dataset.y);
    const from = seconds(view[0]);
    const to = seconds(view[1]);
    const rough = (to - from) / 10;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough);
    const digits = Math.max(0, -Math.floor(Math.log10(step)));
    const parts = [made("path", { class: "rule", d: `M${left} ${y}h${width}` })];
    for (let i = Math.ceil(from / step); i * step <= to; i++) {
      const x = left + (width * (i * step - from)) / (to - from);
      parts.push(made("path", { class: "rule", d: `M${x} ${y}v4` }));
      parts.push(made("text", { class: "tick", x, y: y + 16 }, `${(i * step).toFixed(digits)} s`));
    }
    axis.replaceChildren(...parts);
  }

  function place(chart) {
    const scale = width / (view[1] - view[0]);
    const at = (x) => (x - view[0]) * scale;
    const zoom = chart.querySelector("svg.zoom");
    zoom.setAttribute("viewBox", `${view[0]} 0 ${view[1] - view[0]} ${zoom.getAttribute("height")}`);
    for (const pin of chart.querySelectorAll(".pin")) {
      const x = at(Number(pin.dataset.x));
      pin.setAttribute("transform", `translate(${x} ${pin.dataset.y})`);
      pin.style.display = x < -1 || x > width + 1 ? "none" : "";
    }
    for (const span of chart.querySelectorAll("rect.span")) {
      const from = Math.max(0, at(Number(span.dataset.x0)));
      const to = Math.min(width, at(Number(span.dataset.x1)));
      span.style.display = to < from ? "none" : "";
      span.setAttribute("x", from);
      span.setAttribute("width", Math.max(1.5, to - from));
    }
    for (const label of chart.querySelectorAll(".span-label")) {
      const from = Math.max(0, at(Number(label.dataset.x0)));
      const to = Math.min(width, at(Number(label.dataset.x1)));
      const room = to - from;
      const text = label.dataset.texts.split("|").find((t) => 6.05 * t.length <= room);
      label.classList.toggle("tight", !text);
      if (text) label.textContent = text;
      label.setAttribute("x", (from + to) / 2);
    }
  }

  function show(from, to) {
    const span = Math.min(width, Math.max(width / 2000, to - from));
    const start = Math.min(width - span, Math.max(0, from));
    view = [start, start + span];
    charts.forEach((chart, index) => { place(chart); ticks(chart, index); });
  }

  function coordinate(chart, event) {
    const box = chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width - left;
    return Math.min(width, Math.max(0, x));
  }
  const toView = (x) => view[0] + ((view[1] - view[0]) * x) / width;

  for (const chart of charts) {
    let from = null;
    let selection = null;
    chart.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.pointerType === "touch" || event.target.closest("a")) return;
      from = coordinate(chart, event);
      chart.setPointerCapture(event.pointerId);
    });
    chart.addEventListener("pointermove", (event) => {
      const x = coordinate(chart, event);
      for (const other of charts) {
        const cursor = other.querySelector(".cursor");
        cursor.setAttribute("x1", left + x);
        cursor.setAttribute("x2", left + x);
        cursor.classList.add("shown");
      }
      if (from === null || Math.abs(x - from) < 4) return;
      if (!selection) {
        selection = made("rect", { class: "selection", y: 0, height: chart.viewBox.baseVal.height });
        chart.append(selection);
      }
      selection.setAttribute("x", left + Math.min(from, x));
      selection.setAttribute("width", Math.abs(x - from));
    });
    const finish = (event) => {
      if (from !== null && selection) {
        const x = coordinate(chart, event);
        const [a, b] = [toView(Math.min(from, x)), toView(Math.max(from, x))];
        show(a, b);
      }
      if (selection) selection.remove();
      from = selection = null;
    };
    chart.addEventListener("pointerup", finish);
    chart.addEventListener("pointercancel", () => { if (selection) selection.remove(); from = selection = null; });
    chart.addEventListener("pointerleave", () => charts.forEach((other) => other.querySelector(".cursor").classList.remove("shown")));
    chart.addEventListener("dblclick", () => show(0, width));
    chart.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const middle = toView(coordinate(chart, event));
      const factor = event.deltaY > 0 ? 1.25 : 0.8;
      show(middle - (middle - view[0]) * factor, middle + (view[1] - middle) * factor);
    }, { passive: false });
    chart.addEventListener("keydown", (event) => {
      const span = view[1] - view[0];
      const moves = {
        "+": [view[0] + span / 4, view[1] - span / 4], "=": [view[0] + span / 4, view[1] - span / 4],
        "-": [view[0] - span / 2, view[1] + span / 2], ArrowLeft: [view[0] - span / 5, view[1] - span / 5],
        ArrowRight: [view[0] + span / 5, view[1] + span / 5], Escape: [0, width], 0: [0, width],
      };
      if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      show(...moves[event.key]);
    });
  }

  for (const button of document.querySelectorAll("[data-from]")) {
    const x = (at) => (width * (Number(at) - begin)) / (end - begin);
    button.addEventListener("click", () => {
      show(x(button.dataset.from), x(button.dataset.to));
      document.getElementById("run").scrollIntoView();
    });
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  const filters = [...document.querySelectorAll("[data-show]")];
  for (const button of filters) {
    button.addEventListener("click", () => {
      for (const other of filters) other.setAttribute("aria-pressed", String(other === button));
      for (const row of document.querySelectorAll("tr[data-status]"))
        row.hidden = button.dataset.show !== "all" && row.dataset.status !== button.dataset.show;
    });
  }

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
})();
