type Theme = "light" | "dark";

const key = "rollcall.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

/** A button that changes between light and dark; who never pressed it has the system's. */
export function themeButton(button: HTMLElement): void {
  let chosen = localStorage.getItem(key) as Theme | null;
  const show = () => {
    const theme: Theme = chosen ?? (system.matches ? "dark" : "light");
    const other: Theme = theme === "dark" ? "light" : "dark";
    if (chosen) document.documentElement.dataset["theme"] = chosen;
    button.textContent = theme === "dark" ? "☀" : "☾";
    button.setAttribute("aria-label", `Use the ${other} theme`);
    button.title = `Use the ${other} theme`;
    button.onclick = () => {
      localStorage.setItem(key, (chosen = other));
      show();
    };
  };
  system.addEventListener("change", show);
  show();
}
