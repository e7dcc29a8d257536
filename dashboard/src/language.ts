// uPlot, when it is imported, asks for numbers in the browser's language, and fails if that isn't a language tag, and so
// would every page. Chromium's language is "en-US@posix" if it is started with LANG=C.UTF-8.

try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}
