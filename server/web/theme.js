// Light or dark before anything is drawn: a script of its own that runs while the head is read, so that a dark page
// does not begin with a white flash. It is no module, because those run later.
(() => {
  let theme = "auto";
  try {
    theme = JSON.parse(localStorage.getItem("ibid.settings") ?? "{}").theme ?? "auto";
  } catch {
    // The system's preference counts.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
