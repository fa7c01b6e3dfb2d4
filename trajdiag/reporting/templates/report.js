"use strict";
// What a reader gains with JavaScript: values under the pointer, series to hide, examples to filter.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const group = (label, ...buttons) => {
    const made = make("div", { className: "toggles" }, ...buttons);
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", label);
    return made;
  };
  const press = (button, on) => button.setAttribute("aria-pressed", String(on));

  // Values: every panel tells its points in its own px, by series.
  const number = (value, unit) => unit === "%" ? (100 * value).toFixed(1)
    : unit === "loops" ? value.toFixed(2)
    : unit === "loop" ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
  const told = (value, unit) => unit === "loop" ? `loop ${number(value, unit)}`
    : number(value, unit) + (unit === "loops" ? " loops" : unit);
  const spanned = (low, high, unit) => `[${number(low, unit)}, ${number(high, unit)}]`;
  const corners = path => {
    const found = [];
    let x = 0, y = 0;
    for (const [, kind, text] of path.matchAll(/([Ml])([^Mlz]*)/g)) {
      const n = (text.match(/-?[\d.]+/g) || []).map(Number);
      for (let i = 0; i + 1 < n.length; i += 2) {
        [x, y] = kind === "M" ? [n[i], n[i + 1]] : [x + n[i], y + n[i + 1]];
        found.push([x, y]);
      }
    }
    return found;
  };
  const plotted = svg => {
    const [left, bottom, right, top, x0, y0, x1, y1] = svg.dataset.plot.split(" ").map(Number);
    const [across, up] = svg.dataset.unit.split("|");
    return all("[data-series]", svg).map(part => {
      // Points whose interval is known; the others name the nearest of them.
      const known = (part.dataset.known || "").split(";").filter(Boolean).map(row => {
        const [x, y, low, high, first, last] = row.split(" ").map(Number);
        const depth = told(x, across) + (first === undefined ? "" : ` ${spanned(first, last, across)}`);
        const said = `${depth}, ${told(y, up)} ${spanned(low, high, up)}`;
        return { x: left + (x - x0) / (x1 - x0) * (right - left),
          y: bottom + (y - y0) / (y1 - y0) * (top - bottom), said,
          text: `${part.dataset.series}, ${said}` };
      });
      // What the axes cut off is not there to be pointed at.
      const points = all("path", part).filter(path => !path.closest("defs"))
        .flatMap(path => corners(path.getAttribute("d")))
        .filter(([, y]) => y <= bottom + 1 && y >= top - 1).map(([x, y]) => {
          const [near] = [...known].sort((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x));
          if (near && Math.hypot(near.x - x, near.y - y) < 4) return near;
          return { x, y, text: [part.dataset.series,
            told(x0 + (x - left) / (right - left) * (x1 - x0), across),
            told(y0 + (y - bottom) / (top - bottom) * (y1 - y0), up)].join(", ")
            + (near ? `; nearest interval: ${near.said}` : "") };
        });
      return { part, points: [...new Set([...points, ...known])], steps: known };
    });
  };
  const celled = svg => {
    const [left, top, wide, tall, columns] = svg.dataset.grid.split(" ").map(Number);
    const cells = svg.dataset.cells.split("|"), names = svg.dataset.rows.split("|");
    return names.map((name, row) => ({
      part: svg,
      points: Array.from({ length: columns }, (_, column) => ({
        x: left + (column + .5) * wide,
        y: top + (row + .5) * tall,
        text: `${name}, loop ${column + 1}: ${cells[row * columns + column] || "none"}`,
      })),
    }));
  };
  const tip = make("div", { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);
  const mark = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  mark.setAttribute("class", "mark");
  mark.setAttribute("r", "5");
  const hide = () => { tip.hidden = true; mark.remove(); };
  const show = (svg, point) => {
    mark.setAttribute("cx", point.x);
    mark.setAttribute("cy", point.y);
    svg.append(mark);
    tip.textContent = point.text;
    tip.hidden = false;
    const at = new DOMPoint(point.x, point.y).matrixTransform(svg.getScreenCTM());
    const most = document.documentElement.clientWidth - tip.offsetWidth - 4;
    tip.style.left = `${Math.max(4, Math.min(at.x + 10, most))}px`;
    tip.style.top = `${at.y > tip.offsetHeight + 16 ? at.y - tip.offsetHeight - 12 : at.y + 14}px`;
  };
  for (const svg of all("svg[data-plot], svg[data-grid]")) {
    let series = null, line = 0, place = -1;
    const shown = () => {
      series ??= svg.dataset.plot ? plotted(svg) : celled(svg);
      return series.filter(one => one.points.length && !one.part.classList.contains("off"));
    };
    svg.addEventListener("pointermove", event => {
      const here = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(svg.getScreenCTM().inverse());
      let least = 20, found = null;
      for (const one of shown()) for (const point of one.points) {
        const far = Math.hypot(point.x - here.x, point.y - here.y);
        if (far < least) [least, found] = [far, point];
      }
      if (found) show(svg, found); else hide();
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);
    svg.tabIndex = 0;
    svg.addEventListener("keydown", event => {
      const [right, down] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1],
        ArrowUp: [0, -1] }[event.key] || [0, 0];
      if (event.key === "Escape") hide();
      const lines = shown();
      if (!(right || down) || !lines.length) return;
      event.preventDefault();
      line = (line + down + lines.length) % lines.length;
      const { points, steps } = lines[line];
      const walked = steps && steps.length ? steps : points;
      place = Math.max(0, Math.min(place + right, walked.length - 1));
      show(svg, walked[place]);
    });
  }

  // Series: a button each, where there are few enough to choose among.
  for (const figure of all("figure")) {
    const names = [...new Set(all("[data-series]", figure).map(part => part.dataset.series))];
    const valued = figure.querySelector("[data-plot], [data-grid]");
    if (valued) figure.querySelector("h2").after(make("p", { className: "hint" },
      "Point at a value, or move to a drawing with Tab and walk with the arrow keys."));
    if (names.length < 2 || names.length > 40) continue;
    const buttons = names.map(name => {
      const button = make("button", { type: "button" }, name);
      const drawn = all("[data-series]", figure).find(part => part.dataset.series === name);
      const stroke = drawn.querySelector("[class*='s-']");
      const role = stroke && stroke.getAttribute("class").match(/s-([\w-]+)/);
      if (role && figure.id === "figure-frontier")
        button.style.borderLeftColor = `var(--${role[1]})`;
      button.addEventListener("click", () => turn(button, button.ariaPressed !== "true"));
      press(button, true);
      return button;
    });
    const turn = (button, on) => {
      press(button, on);
      for (const part of all("[data-series], [data-key]", figure))
        if ((part.dataset.series ?? part.dataset.key) === button.textContent)
          part.classList.toggle("off", !on);
      hide();
    };
    const every = [["all", true], ["none", false]].map(([text, on]) => {
      const button = make("button", { type: "button" }, text);
      button.addEventListener("click", () => buttons.forEach(one => turn(one, on)));
      return button;
    });
    figure.querySelector(".hint").after(
      make("details", { className: "series" }, make("summary", {}, "Choose what is drawn"),
        group("What is drawn", ...every, ...buttons)));
  }

  // Examples: one filter for all stores.
  const samples = document.querySelector("#examples");
  if (samples) {
    const verdicts = new Map(all("[data-verdict]", samples).map(part =>
      [part.dataset.verdict, part.dataset.label]));
    const buttons = [["", "all"], ...verdicts].map(([verdict, label]) => {
      const button = make("button", { type: "button" }, label);
      button.addEventListener("click", () => {
        buttons.forEach(one => press(one, one === button));
        for (const part of all("[data-verdict]", samples))
          part.hidden = verdict !== "" && part.dataset.verdict !== verdict;
      });
      press(button, verdict === "");
      return button;
    });
    samples.querySelector(".note").after(group("Filter by verdict", ...buttons));
  }
})();
