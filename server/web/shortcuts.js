// Keyboard shortcuts that work anywhere on the page. index.html lists them for the user.

function isTyping(target) {
  return target instanceof HTMLElement && target.matches("input, textarea, select");
}

const isSearch = (target) => target instanceof HTMLElement && target.matches("input[type=search]");

export function connectShortcuts(app) {
  const field = document.getElementById("message");
  const byAlt = {
    KeyR: () => app.regenerateLast(),
    KeyB: () => app.openTree(),
    KeyN: () => app.begin(),
    KeyK: () => {
      if (app.side.narrow.matches) app.side.open();
      document.getElementById("search").focus();
    },
  };
  const plain = {
    "/": () => field.focus(),
    "?": () => document.getElementById("keys-dialog").showModal(),
  };
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    const {key, code, target} = event;
    let action;
    if (event.altKey && !event.ctrlKey && !event.metaKey) action = byAlt[code];
    else if (key === "Escape" && !isSearch(target)) action = () => app.stop();
    else if (key === "ArrowUp" && target === field && app.composer.isEmpty) action = () => app.editLast();
    else if (!event.ctrlKey && !event.metaKey && !isTyping(target) && app.settings.values.keys) action = plain[key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
