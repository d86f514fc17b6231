// Light or dark: as the system says, or as was chosen.
import { element } from "./element.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

/**
 * Put on what a choice comes to.
 * @param {string} choice `light`, `dark`, or an empty text for what the system says
 */
export function dress(choice) {
  const theme = choice || (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  const button = element("button", "#theme");
  button.textContent = theme === "dark" ? "☀ light" : "☾ dark";
  button.setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
}

/**
 * Called when the system's wish changes.
 * @param {() => void} call
 */
export const onSystem = (call) => dark.addEventListener("change", call);
