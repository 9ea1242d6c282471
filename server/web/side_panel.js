// The list of conversations in narrow windows: slides over the page, takes the focus, and returns the focus when it is
// closed.

export class SidePanel {
  constructor({panel, shade, opener, closer, main}) {
    Object.assign(this, {panel, shade, opener, closer, main});
    this.narrow = matchMedia("(max-width: 800px)");
    this.isOpen = false;
    opener.addEventListener("click", () => this.open());
    closer.addEventListener("click", () => this.close());
    shade.addEventListener("click", () => this.close());
    panel.addEventListener("keydown", (event) => {
      // In the search field, Escape first clears the text; browsers do this.
      if (event.key !== "Escape" || !this.#isOver() || event.target.value) return;
      event.preventDefault();  // otherwise Escape would also stop an answer
      this.close();
    });
    this.narrow.addEventListener("change", () => this.#apply());
    this.#apply();
  }

  open() {
    this.isOpen = true;
    this.#apply();
    this.closer.focus();
  }

  close() {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.#apply();
    this.opener.focus();
  }

  #isOver() { return this.narrow.matches && this.isOpen; }

  // A hidden panel must not be focusable.
  #apply() {
    const over = this.#isOver();
    this.panel.classList.toggle("open", over);
    this.panel.inert = this.narrow.matches && !this.isOpen;
    this.main.inert = over;
    this.shade.hidden = !over;
    this.opener.setAttribute("aria-expanded", String(over));
  }
}
