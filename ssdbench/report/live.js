"use strict";
// Loads the page of a run again and keeps the reader's place: how far it is scrolled, and what is open.
(() => {
  const LATE = 3; // times the usual pause, from which on the page says that nothing is written
  const live = document.getElementById("live");
  const age = document.getElementById("age");
  const every = Number(live.dataset.every);
  if (!every) return;
  const written = age.textContent;
  const folds = [...document.querySelectorAll("details")];
  const name = (fold) => fold.querySelector("summary").textContent.trim();

  const kept = history.state;
  history.scrollRestoration = "manual";
  if (kept) {
    for (const fold of folds) if (name(fold) in kept.open) fold.open = kept.open[name(fold)];
    scrollTo(0, kept.y);
  }
  addEventListener("pagehide", keep);

  function keep() {
    history.replaceState({ open: Object.fromEntries(folds.map((fold) => [name(fold), fold.open])), y: scrollY }, "");
  }

  function load() {
    if (document.hidden || !getSelection().isCollapsed) return; // the reader is elsewhere, or copies text
    keep();
    location.reload();
  }

  function told() {
    const seconds = Math.max(0, Math.round((Date.now() - Number(live.dataset.written)) / 1000));
    const late = seconds > LATE * every;
    live.classList.toggle("warn", late);
    age.textContent = `${written} Last written ${seconds} s ago.${late ? " The run's process has ended, or "
      + "this step of the run reports nothing while it lasts. \"ssdbench attach RUN\" says which; "
      + "\"ssdbench resume RUN\" continues a run that ended." : ""}`;
  }

  told();
  setInterval(told, 1000);
  setInterval(load, 1000 * every);
})();
