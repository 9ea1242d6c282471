// A line of the last values, without axes: the bottom is 0, the top is the largest value. The values are also shown as
// text beside the line.

import {svgElement} from "./elements.js";

const WIDTH = 100, HEIGHT = 40, EDGE = 2;

// Returns the points of the line, left to right, with room for `capacity` values; the newest value is at the right
// edge.
export function sparklinePoints(values, capacity, highest = Math.max(...values, 0)) {
  const step = WIDTH / Math.max(1, capacity - 1);
  return values.map((value, i) => ({
    x: WIDTH - (values.length - 1 - i) * step,
    y: HEIGHT - EDGE - (highest > 0 ? (value / highest) * (HEIGHT - 2 * EDGE) : 0),
  }));
}

export function sparkline(values, capacity, highest) {
  const points = sparklinePoints(values, capacity, highest);
  const line = points.map(({x, y}, i) => `${i === 0 ? "M" : "L"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
  const area = points.length > 1 ? `${line}V${HEIGHT}H${points[0].x.toFixed(2)}Z` : "";
  return svgElement("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark", preserveAspectRatio: "none",
                            "aria-hidden": "true"},
    svgElement("path", {d: area, class: "spark-area"}), svgElement("path", {d: line, class: "spark-line"}));
}
