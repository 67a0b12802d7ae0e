// Light and dark: as the system says, until the user chooses.

const root = document.documentElement;

/** Use what the user chose earlier, if the browser kept it. */
export function recallTheme() {
  try {
    const saved = localStorage.getItem("theme");
    if (saved) root.dataset.theme = saved;
  } catch {
    // a browser that keeps nothing
  }
}

/** Switch between light and dark. */
export function switchTheme() {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch {
    // a browser that keeps nothing
  }
}
