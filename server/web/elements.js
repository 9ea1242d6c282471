// element(): makes an element with attributes and children. Strings become text, never HTML.

import {ICONS} from "./icons.js";

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat(Infinity));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function svgElement(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat(Infinity));
  return made;
}

export function icon(name) {
  return svgElement("svg", {viewBox: "0 0 20 20", class: "icon", "aria-hidden": "true", focusable: "false"},
    svgElement("path", {d: ICONS[name]}));
}

// A button that shows an icon. label: its name for screen readers, and its tooltip.
export function iconButton(name, label, onClick, attributes = {}) {
  const button = element("button", {type: "button", class: "quiet icon-button", "aria-label": label, title: label,
                                    ...attributes}, icon(name));
  if (onClick) button.addEventListener("click", onClick);
  return button;
}

// Adds the icons to buttons of the page that name one: <button data-icon="menu">.
export function fillIcons(root) {
  for (const each of root.querySelectorAll("[data-icon]")) each.prepend(icon(each.dataset.icon));
}
