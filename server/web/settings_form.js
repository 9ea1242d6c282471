// The settings dialog: its fields are generated from the list in settings.js, and read when they change.

import {element} from "./elements.js";
import {SAMPLING, checkedNumber} from "./settings.js";

function samplingField(field, settings) {
  const id = `sampling-${field.name}`;
  const input = element("input", {
    type: "number", id, min: field.min, max: field.max, step: field.step, placeholder: "default", inputmode: "decimal",
    "aria-describedby": `${id}-hint`,
  });
  input.value = settings.values.sampling[field.name] ?? "";
  input.addEventListener("change", () => {
    const value = checkedNumber(field, input.value);
    const wrong = input.value !== "" && value === null;
    input.setAttribute("aria-invalid", String(wrong));
    if (wrong) return;
    const sampling = {...settings.values.sampling};
    if (value === null) delete sampling[field.name];
    else sampling[field.name] = value;
    settings.set({sampling});
  });
  return element("div", {class: "field"},
    element("label", {for: id}, field.label), input,
    element("p", {class: "soft", id: `${id}-hint`}, field.hint));
}

// form: the <form> in the dialog. onTheme() and onKey() are called after a change of the theme and of the API key.
export function connectSettings(form, settings, {onTheme, onKey}) {
  form.querySelector(".sampling").append(...SAMPLING.map((field) => samplingField(field, settings)));
  const {theme, effort, truncate, guard, keys, system, key, keep} = form.elements;
  theme.value = settings.values.theme;
  effort.value = settings.values.effort;
  truncate.checked = settings.values.truncate;
  guard.checked = settings.values.guard;
  keys.checked = settings.values.keys;
  system.value = settings.values.system;
  key.value = settings.key;
  keep.checked = settings.isKeyKept;
  for (const each of form.querySelectorAll("[name=theme]")) {
    each.addEventListener("change", () => {
      settings.set({theme: theme.value});
      onTheme();
    });
  }
  effort.addEventListener("change", () => settings.set({effort: effort.value}));
  truncate.addEventListener("change", () => settings.set({truncate: truncate.checked}));
  guard.addEventListener("change", () => settings.set({guard: guard.checked}));
  keys.addEventListener("change", () => settings.set({keys: keys.checked}));
  system.addEventListener("change", () => settings.set({system: system.value.trim()}));
  const setKey = () => {
    settings.setKey(key.value.trim(), keep.checked);
    onKey();
  };
  key.addEventListener("change", setKey);
  keep.addEventListener("change", setKey);
}

// Applies the theme. A click on the button switches to the next theme.
export function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
