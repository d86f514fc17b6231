// Light or dark: as the system says, or as was chosen.

const dark = matchMedia("(prefers-color-scheme: dark)");

/** Put on what a choice ("", "light" or "dark") comes to; returns it. */
export function dress(choice) {
  const theme = choice || (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = theme === "dark" ? "☀ light" : "☾ dark";
  button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
  return theme;
}

/** Called when the system's wish changes. */
export const onSystem = (call) => dark.addEventListener("change", call);
