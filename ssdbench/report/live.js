"use strict";
// Loads the page of a run again, and keeps the reader's place: how far it is scrolled, what is open.
(() => {
  const LATE = 3; // times the usual pause, from which on the page says that nothing is written
  const live = document.getElementById("live");
  const every = Number(live.dataset.every);
  const folds = [...document.querySelectorAll("details")];
  const name = (fold) => fold.querySelector("summary").textContent.trim();
  const keep = () => history.replaceState(
    { open: Object.fromEntries(folds.map((fold) => [name(fold), fold.open])), y: scrollY }, "");

  const tell = () => {
    const seconds = Math.max(0, Math.round((Date.now() - Number(live.dataset.written)) / 1000));
    const late = seconds > LATE * every;
    document.getElementById("age").textContent = `Last written ${seconds} s ago.`;
    document.getElementById("late").hidden = !late;
    live.className = late ? "box warn" : "box note";
    live.querySelector(".stamp").textContent = late ? "NO NEWS" : "RUNNING";
  };
  tell(); // before the page is scrolled, as the sentence may need a line
  setInterval(tell, 1000);

  history.scrollRestoration = "manual";
  for (const fold of folds) fold.open = history.state?.open[name(fold)] ?? fold.open;
  scrollTo(0, history.state?.y ?? 0);
  addEventListener("pagehide", keep);

  setInterval(() => {
    if (document.hidden || !getSelection().isCollapsed) return; // the reader is elsewhere, or copies text
    keep();
    location.reload();
  }, 1000 * every);
})();
