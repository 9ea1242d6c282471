// The list of conversations in the side panel: search and open. Other actions are in the header of a conversation.

import {element} from "./elements.js";
import {dayInWords} from "./words.js";

const MAX_SHOWN = 200;

// True if a record contains all of the words, in its title, system prompt or messages.
export function matches(record, words) {
  if (words.length === 0) return true;
  const texts = [record.title, record.system, ...record.nodes.map((node) => node.text)];
  const lower = texts.map((text) => text.toLowerCase());
  return words.every((word) => lower.some((text) => text.includes(word)));
}

export class ConversationList {
  // place: a <ul>; search: the search field; storage: the Storage; open(id) opens a conversation; isAnswering(id):
  // whether an answer is running in it.
  constructor({place, search, storage, open, isAnswering}) {
    Object.assign(this, {place, search, storage, open, isAnswering});
    this.current = "";
    search.addEventListener("input", () => this.show());
  }

  async show() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const turn = (this.turn ?? 0) + 1;
    this.turn = turn;
    // Read whole records only for a search, which needs the texts of messages. For the list, summaries suffice.
    const records = words.length > 0 ? await this.storage.all() : await this.storage.summaries();
    if (turn !== this.turn) return;  // a later call has replaced this one
    const found = records.filter((record) => matches(record, words)).sort((a, b) => b.changed - a.changed);
    const focused = this.place.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    this.place.replaceChildren(...found.slice(0, MAX_SHOWN).map((record) => this.#row(record)));
    let note = "";
    if (found.length === 0) note = words.length > 0 ? "Nothing found" : "No conversations yet";
    if (found.length > MAX_SHOWN) note = `and ${found.length - MAX_SHOWN} older ones: search for them`;
    if (note !== "") this.place.append(element("li", {class: "soft nothing"}, note));
    if (focused) this.place.querySelector(`[data-id="${focused}"]`)?.focus();
  }

  #row(record) {
    const button = element("button", {type: "button", class: "conversation", "data-id": record.id},
      element("span", {class: "conversation-title"}, record.title || "New conversation"),
      element("span", {class: "soft"}, this.isAnswering(record.id) ? "answering" : dayInWords(record.changed)));
    if (record.id === this.current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => this.open(record.id));
    return element("li", {}, button);
  }
}
