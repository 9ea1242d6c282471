// The selection of the model, and a gauge that shows how much of the context the active branch uses.

import {element} from "./elements.js";
import {contentOf} from "./conversation_tree.js";
import {estimatedTokens, number} from "./words.js";

export class ModelChoice {
  #models = [];  // list of models as Server.models() returns it

  // select, gauge: elements of the page. choose(name) is called when the user has chosen a model.
  constructor({select, gauge, server, choose}) {
    Object.assign(this, {select, gauge, server});
    select.addEventListener("change", () => choose(select.value));
  }

  // Loads the list of models. Throws a ServerError; the list is empty then.
  async load() {
    this.#models = [];
    this.#models = await this.server.models();
  }

  get name() { return this.select.value; }
  get isEmpty() { return this.#models.length === 0; }

  // Context size of the chosen model in tokens; null while it is not loaded, undefined if no model is chosen.
  get context() { return this.#models.find((model) => model.name === this.name)?.context; }

  // pending: number of tokens of text and files that are not sent yet.
  show(tree, pending = 0) {
    const names = this.#models.map((model) => model.name);
    const shown = names.includes(tree.about.model) ? tree.about.model : names[0] ?? "";
    const same = names.length === this.select.options.length && names.every((name, i) => (
      this.select.options[i].value === name));
    if (!same || names.length === 0) {
      this.select.replaceChildren(...names.map((name) => element("option", {value: name}, name)));
      if (names.length === 0) this.select.append(element("option", {value: ""}, "no model"));
    }
    this.select.value = shown;
    this.select.title = shown;
    this.showGauge(tree, pending);
  }

  // Shows the number of tokens that the server counted last, plus an estimate for text that was added since.
  showGauge(tree, pending) {
    const {context, gauge} = this;
    const path = tree.path();
    const last = path.findLast((node) => typeof node.figures?.prompt === "number");
    gauge.hidden = !context || (!last && pending === 0);
    if (gauge.hidden) return;
    const behind = path.slice(path.indexOf(last) + 1);
    const counted = last ? last.figures.prompt + (last.figures.written ?? 0) : 0;
    const used = behind.reduce((sum, node) => (
      sum + estimatedTokens(node.role === "user" ? contentOf(node) : node.text)), counted + pending);
    const text = `${number(used)} / ${number(context)}`;
    gauge.querySelector("#gauge-text").textContent = text;
    gauge.querySelector("#gauge-part").style.width = `${Math.min(100, (100 * used) / context)}%`;
    gauge.classList.toggle("full", used > 0.9 * context);
    gauge.title = `${text} tokens of the context are in use`;
    gauge.setAttribute("aria-valuemax", context);
    gauge.setAttribute("aria-valuenow", Math.min(used, context));
    gauge.setAttribute("aria-valuetext", `${text} tokens`);
  }
}
