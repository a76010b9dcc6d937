// Before the first paint, so that nothing flashes. The policy allows no inline script.
"use strict";
try {
  const theme = JSON.parse(localStorage.getItem("colibri.theme") || "null");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // No storage: the system's choice stands.
}
