// Sets the theme before anything is drawn: a script of its own, run while the head is parsed, so that a dark page does
// not start with a white flash. Not a module, because modules run later.
(() => {
  let theme = "auto";
  try {
    theme = JSON.parse(localStorage.getItem("ibid.settings") ?? "{}").theme ?? "auto";
  } catch {
    // The system's preference applies.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
