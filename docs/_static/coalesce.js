// Pictures follow the theme switch of the page, and predictions take a guess. Without scripts the
// pictures follow the system's theme, and the answers of predictions open with a click.
(() => {
  "use strict";

  const SVG = "data:image/svg+xml;base64,";

  /** Put a picture's SVG into the page: its style sheet then sees the theme of the page. */
  function inline(element, text) {
    if (!text.includes("coalesce-picture")) return;
    const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    if (parsed.nodeName !== "svg") return;
    const picture = document.importNode(parsed, true);
    const name = element.alt || element.querySelector("img")?.alt || "";
    picture.setAttribute("role", "img");
    if (name) picture.setAttribute("aria-label", name);
    element.replaceWith(picture);
  }

  function decoded(address) {
    const bytes = Uint8Array.from(atob(address.slice(SVG.length)), (c) => c.charCodeAt(0));
    return new TextDecoder().decode(bytes);
  }

  function inlinePictures() {
    for (const one of document.querySelectorAll(`object[data^="${SVG}"]`)) {
      inline(one, decoded(one.data));
    }
    for (const one of document.querySelectorAll(`img[src^="${SVG}"]`)) {
      inline(one, decoded(one.getAttribute("src")));
    }
    if (!location.protocol.startsWith("http")) return; // files cannot be fetched
    for (const one of document.querySelectorAll('article img[src$=".svg"]')) {
      fetch(one.src)
        .then((answer) => answer.text())
        .then((text) => inline(one, text));
    }
  }

  const KEY = "coalesce-predictions"; // name -> whether the first guess was right
  let firstGuesses = {}; // the same, for this page: the browser may refuse to store it

  function score(name, right) {
    try {
      firstGuesses = JSON.parse(localStorage.getItem(KEY)) || firstGuesses;
    } catch {
      // Storage is switched off, or holds something else.
    }
    if (!(name in firstGuesses)) firstGuesses[name] = right;
    try {
      localStorage.setItem(KEY, JSON.stringify(firstGuesses));
    } catch {
      // Storage is switched off or full: the score counts this page only.
    }
    const all = Object.values(firstGuesses);
    return `Score: ${all.filter(Boolean).length} of ${all.length} right at the first guess.`;
  }

  function isNear(guess, value, within) {
    if (guess === value) return true;
    const [said, found] = [guess, value].map((t) => Number(t.replaceAll(",", "")));
    return Math.abs(said - found) <= within * Math.abs(found);
  }

  /** Add a field for the guess above the folded answer of a prediction. */
  function ask(prediction) {
    const answer = prediction.querySelector("details");
    if (!answer) return;
    const choices = [...prediction.querySelectorAll("ol > li")].map((one) => one.textContent);
    const form = document.createElement("form");
    form.className = "coalesce-guess";
    const field = document.createElement(choices.length ? "select" : "input");
    field.setAttribute("aria-label", "Your guess");
    field.required = true;
    if (choices.length) {
      const none = Object.assign(new Option("your guess", ""), { disabled: true, selected: true });
      field.append(none, ...choices.map((text) => new Option(text, text)));
    } else Object.assign(field, { type: "number", step: "any" });
    const button = Object.assign(document.createElement("button"), { textContent: "Compare" });
    const verdict = document.createElement("p");
    verdict.setAttribute("role", "status");
    form.append(field, " ", button, verdict);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const { name, measured, within } = prediction.dataset;
      const right = isNear(field.value, measured, Number(within));
      const known = Object.entries(JSON.parse(prediction.dataset.mistakes || "{}"));
      const [, mistake] = known.find(([value]) => isNear(field.value, value, Number(within))) || [];
      const word = right ? "Right." : `Not what you expected. ${mistake || ""}`.trim();
      const told = `Your guess: ${field.value}. Measured: ${measured}. ${word}`;
      verdict.textContent = `${told} ${score(name, right)}`;
      verdict.className = right ? "right" : "wrong";
      answer.open = true;
    });
    answer.before(form);
    prediction.querySelector(".coalesce-invitation")?.remove();
  }

  document.addEventListener("DOMContentLoaded", () => {
    inlinePictures();
    document.querySelectorAll(".coalesce-predict").forEach(ask);
  });
})();
