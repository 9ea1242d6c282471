// The user's settings: sampling, thinking, the system prompt of new conversations, theme, and API key. They are stored
// in the browser. The key is stored only until the tab is closed, unless the user chooses otherwise.

const PLACE = "ibid.settings", KEY_PLACE = "ibid.key";

// Fields of a request. An empty field is not sent, so that the server's default applies.
export const SAMPLING = [
  {name: "temperature", label: "Temperature", min: 0, max: 5, step: 0.05, hint: "0: always the most likely word"},
  {name: "top_p", label: "Top p", min: 0, max: 1, step: 0.01, hint: "most likely words with this total probability"},
  {name: "top_k", label: "Top k", min: 0, max: 100000, step: 1, hint: "only this number of the most likely words"},
  {name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01, hint: "minimum share of the highest probability"},
  {name: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, step: 0.1, hint: "against repeating words"},
  {name: "presence_penalty", label: "Presence penalty", min: -2, max: 2, step: 0.1, hint: "for new words"},
  {name: "max_completion_tokens", label: "Longest answer", min: 1, max: 10000000, step: 1, hint: "in tokens"},
  {name: "seed", label: "Seed", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, hint: "repeats the same answer"},
];

export const EFFORTS = ["", "none", "minimal", "low", "medium", "high"];
export const THEMES = ["auto", "light", "dark"];

const DEFAULTS = {sampling: {}, effort: "", truncate: false, guard: true, keys: true, system: "", theme: "auto", model: ""};

function readStored(area, place) {
  try {
    return area().getItem(place);
  } catch {
    return null;  // the browser allows no storage
  }
}

function writeStored(area, place, value) {
  try {
    if (value === null) area().removeItem(place);
    else area().setItem(place, value);
  } catch {
    // Storage is not allowed, so the setting lasts until the page is closed.
  }
}

const lasting = () => localStorage, untilClosed = () => sessionStorage;

// Returns a number within the limits of the field, or null.
export function checkedNumber(field, text) {
  const value = text === "" || text === null || text === undefined ? NaN : Number(text);
  const fits = Number.isFinite(value) && value >= field.min && value <= field.max;
  return fits && (field.step !== 1 || Number.isInteger(value)) ? value : null;
}

export class Settings {
  #key;

  constructor() {
    let stored = {};
    try {
      stored = JSON.parse(readStored(lasting, PLACE) ?? "{}");
    } catch {
      // The stored text is not JSON, so this page did not write it: use the defaults.
    }
    this.values = {...DEFAULTS};
    for (const name of ["effort", "system", "theme", "model"]) {
      if (typeof stored?.[name] === "string") this.values[name] = stored[name];
    }
    this.values.truncate = stored?.truncate === true;
    this.values.guard = stored?.guard !== false;
    this.values.keys = stored?.keys !== false;
    this.values.sampling = {};
    for (const field of SAMPLING) {
      const value = checkedNumber(field, stored?.sampling?.[field.name]);
      if (value !== null) this.values.sampling[field.name] = value;
    }
    this.#key = readStored(untilClosed, KEY_PLACE) ?? readStored(lasting, KEY_PLACE) ?? "";
  }

  set(changes) {
    Object.assign(this.values, changes);
    writeStored(lasting, PLACE, JSON.stringify(this.values));
  }

  get key() { return this.#key; }
  get isKeyKept() { return readStored(lasting, KEY_PLACE) !== null; }

  setKey(key, keep) {
    this.#key = key;
    writeStored(untilClosed, KEY_PLACE, key === "" ? null : key);
    writeStored(lasting, KEY_PLACE, keep && key !== "" ? key : null);
  }

  // Returns the settings as fields of a request.
  request() {
    const {sampling, effort, truncate, guard} = this.values;
    return {
      ...sampling,
      ...(effort === "" ? {} : {reasoning_effort: effort}),
      ...(truncate ? {truncate: "oldest"} : {}),
      ...(guard ? {} : {answer_guard: false}),
    };
  }
}
