// Before the first paint, so that nothing flashes. The policy allows no inline script.
// lib/prefs.js goes on from here.
"use strict";
{
  let theme = null;
  try {
    theme = JSON.parse(localStorage.getItem("colibri.theme") || "null");
  } catch {
    // No storage: as the system has it.
  }
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme === "light" || theme === "dark" ? theme : system;
}
