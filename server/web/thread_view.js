// The active branch of a conversation, one message below the other. Draws at most once per frame, keeps the elements of
// messages that stay, and scrolls with an answer only while the reader is at the end.

import {MessageView} from "./message_view.js";

const NEAR_END = 48;  // pixels

export class ThreadView {
  #views = new Map();
  #dirty = new Set();
  #frame = 0;

  // scroller: the scrolling element; place: the parent of the messages; toEnd: a button that scrolls to the end.
  // actions: those of MessageView, and run(node), which returns a node's running answer.
  constructor({scroller, place, toEnd, actions}) {
    Object.assign(this, {scroller, place, toEnd, actions});
    this.follows = true;
    scroller.addEventListener("scroll", () => this.#noticeScroll(), {passive: true});
    toEnd.addEventListener("click", () => this.goToEnd());
  }

  // Shows exactly these messages.
  show(path) {
    const kept = new Map();
    for (const node of path) {
      const view = this.#views.get(node.id) ?? new MessageView(node, this.actions);
      view.node = node;
      kept.set(node.id, view);
    }
    for (const [id, view] of this.#views) if (!kept.has(id)) view.root.remove();
    this.#views = kept;
    let before = this.place.firstElementChild;
    for (const view of kept.values()) {
      if (view.root === before) before = before.nextElementSibling;
      else this.place.insertBefore(view.root, before);
      view.update(this.actions.run(view.node));
    }
    this.#scrollAlong();
  }

  // Draws a message again in the next frame, because it has changed.
  touch(id) {
    if (!this.#views.has(id)) return;
    this.#dirty.add(id);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      for (const each of this.#dirty) {
        const view = this.#views.get(each);
        view?.update(this.actions.run(view.node));
      }
      this.#dirty.clear();
      this.#scrollAlong();
    });
  }

  view(id) { return this.#views.get(id); }

  goToEnd() {
    this.follows = true;
    this.#scrollAlong();
  }

  goTo(id) {
    this.#views.get(id)?.root.scrollIntoView({block: "start"});
  }

  #isAtEnd() {
    const {scrollHeight, scrollTop, clientHeight} = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END;
  }

  #noticeScroll() {
    this.follows = this.#isAtEnd();
    this.toEnd.hidden = this.follows;
  }

  #scrollAlong() {
    if (this.follows) this.scroller.scrollTop = this.scroller.scrollHeight;
    this.toEnd.hidden = this.#isAtEnd();
  }
}
