// Figures and causes as text for the user. Pure functions.

export function number(n) {
  return n.toLocaleString("en-US");
}

export function tokens(n) {
  return `${number(n)} token${n === 1 ? "" : "s"}`;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000;
    unit += 1;
  }
  return `${unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}

export function rate(tps) {
  return `${tps >= 10 || tps === 0 ? Math.round(tps) : tps.toFixed(1)} tok/s`;
}

// Estimates a number of tokens without a tokenizer: four bytes of English are about one token.
export function estimatedTokens(text) {
  return Math.ceil(new TextEncoder().encode(text).length / 4);
}

function ordinal(n) {
  const ending = n % 100 >= 11 && n % 100 <= 13 ? "th" : {1: "st", 2: "nd", 3: "rd"}[n % 10] ?? "th";
  return `${n}${ending}`;
}

// Returns the name of a message, by its index in a history: "the system prompt", "your 2nd message". roles: those of
// the history, in order.
export function messageName(roles, index) {
  const role = roles[index];
  if (role === undefined) return "a message";
  if (role === "system") return "the system prompt";
  const nth = roles.slice(0, index + 1).filter((each) => each === role).length;
  return role === "user" ? `your ${ordinal(nth)} message` : `the ${ordinal(nth)} answer`;
}

// Returns why a turn prefilled tokens that were cached before; null if it prefilled no such tokens. lost.cause is a
// clause of the server, such as "the message was changed".
export function lostInWords(lost, roles) {
  if (!lost) return null;
  const what = lost.tokens ? tokens(lost.tokens) : "Tokens";
  const where = lost.message === null ? "" : `, from ${messageName(roles, lost.message)} on`;
  const byte = lost.byte === null ? "" : ` (byte ${number(lost.byte)} of the prompt)`;
  const were = lost.tokens === 1 ? "was" : "were";
  return `${what} ${were} read again${where}${byte}: ${lost.cause || "the prompt changed there"}.`;
}

const ENDS = {
  length: "The answer was cut: it reached its longest length, or the context is full.",
  max_tokens: "The answer was cut: it reached its longest length.",
  quarter_of_context: "The answer was cut: it filled a quarter of the context.",
  context: "The answer was cut: the context is full.",
  repetition: "The answer began to repeat itself, and was cut.",
  content_filter: "The answer was withheld.",
  stopped: "Stopped.",
  closed: "The page was closed before the answer ended.",
};

// Returns a note about how the answer ended; "" if it ended normally.
export function endInWords(end) {
  return ENDS[end] ?? "";
}

export function dayInWords(time, now = Date.now()) {
  const day = new Date(time), today = new Date(now);
  if (day.toDateString() === today.toDateString()) {
    return day.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"});
  }
  const sameYear = day.getFullYear() === today.getFullYear();
  return day.toLocaleDateString([], {day: "numeric", month: "short", ...(sameYear ? {} : {year: "numeric"})});
}
