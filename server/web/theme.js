// Sets the theme before anything is drawn, so that a dark page does not start with a white flash. A separate script,
// because it must run while the head is parsed, and modules run later.
(() => {
  let theme = "auto";
  try {
    theme = JSON.parse(localStorage.getItem("ibid.settings") ?? "{}").theme ?? "auto";
  } catch {
    // The settings cannot be read, so the system's preference applies.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
