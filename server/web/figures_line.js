// The usage and timings of an answer, in a line below it: a bar of the prompt (cached and prefilled parts), time to the
// first token, tokens per second, and the reason if a cached prefix was lost.

import {element} from "./elements.js";
import {duration, lostInWords, number, rate} from "./words.js";

function promptBar({cached, read}) {
  const total = cached + read;
  const bar = element("span", {class: "bar", "aria-hidden": "true"});
  const part = element("span", {class: "bar-cached"});
  part.style.width = `${total === 0 ? 0 : (100 * cached) / total}%`;
  bar.append(part);
  return bar;
}

function figure(value, name, title) {
  return element("span", {class: "figure", title}, element("b", {}, value), ` ${name}`);
}

// Returns a list whose only element is the line, or an empty list while there are no figures.
export function figuresLine(figures) {
  if (!figures) return [];
  const line = element("p", {class: "figures"});
  if (typeof figures.cached === "number" && typeof figures.read === "number") {
    line.append(
      promptBar(figures),
      figure(number(figures.cached), "cached", "prompt tokens reused from the cache"),
      figure(number(figures.read), "new", "prompt tokens that were prefilled"));
  }
  if (figures.fromDisk) line.append(figure(number(figures.fromDisk), "from disk", "cached tokens that came from disk"));
  if (typeof figures.written === "number") {
    line.append(figure(number(figures.written), "written", "tokens of the answer"));
  }
  if (typeof figures.firstMs === "number") {
    line.append(figure(duration(figures.firstMs), "to first token", "from sending to the first word, in the browser"));
  }
  if (figures.tps) line.append(figure(rate(figures.tps), "", "tokens per second, measured by the server"));
  return line.childElementCount > 0 ? [line] : [];
}

// Returns the reasons why cached tokens were prefilled again, one line each. roles: those of the request's messages.
export function lostLines(figures, roles) {
  const reasons = [];
  const lost = lostInWords(figures?.lost, roles);
  if (lost) reasons.push(lost);
  if (figures?.readAgain) {
    reasons.push(`${number(figures.readAgain)} tokens were read again: they were evicted from the cache meanwhile.`);
  }
  return reasons.map((reason) => element("p", {class: "lost"}, reason));
}
