// One message of the conversation on the page, and its actions.

import {canContinue, contentOf, hasContent} from "./conversation_tree.js";
import {element, iconButton} from "./elements.js";
import {figuresLine, lostLines} from "./figures_line.js";
import {MarkdownView} from "./markdown_view.js";
import {patchChildren} from "./patch.js";
import {endInWords, estimatedTokens, number} from "./words.js";

export function fileChip(file, onRemove) {
  const size = `about ${number(estimatedTokens(file.text))} tokens`;
  const chip = element("details", {class: "file"},
    element("summary", {}, element("span", {class: "file-name"}, file.name), element("span", {class: "soft"}, size)),
    element("pre", {tabindex: "0"}, file.text.slice(0, 20000)));
  if (!onRemove) return chip;
  return element("div", {class: "file-row"}, chip, iconButton("close", `Remove ${file.name}`, onRemove));
}

// `actions`: {edit(node, text), regenerate(node), continue(node), step(node, by), place(node), roles(node),
// copy(button, text)}.
export class MessageView {
  constructor(node, actions) {
    this.node = node;
    this.actions = actions;
    this.isUser = node.role === "user";
    this.root = element("article", {class: `message ${node.role}`, "data-id": node.id});
    this.root.append(element("h3", {class: "hidden"}, this.isUser ? "You said" : "The answer"));
    this.foot = element("div", {class: "foot"});
    if (this.isUser) this.#buildQuestion();
    else this.#buildAnswer();
  }

  #buildQuestion() {
    this.body = element("div", {class: "bubble"});
    const {files, text} = this.node;
    if (files.length > 0) this.body.append(element("div", {class: "files"}, files.map((file) => fileChip(file))));
    if (text !== "") this.body.append(element("p", {class: "said"}, text));
    this.root.append(this.body, this.foot);
  }

  #buildAnswer() {
    this.thought = element("div", {class: "thought-text"});
    this.summary = element("summary", {}, "Thinking");
    this.thinking = element("details", {class: "thought", hidden: ""}, this.summary, this.thought);
    this.waiting = element("p", {class: "waiting", hidden: ""});
    this.text = element("div", {class: "prose"});
    this.calls = element("div", {class: "calls"});
    this.note = element("p", {class: "note", hidden: ""});
    this.below = element("div", {class: "below"}, this.foot);
    this.lost = element("div");
    this.root.append(this.thinking, this.waiting, this.text, this.calls, this.note, this.below, this.lost);
    this.markdown = new MarkdownView(this.text);
    this.thoughtMarkdown = new MarkdownView(this.thought);
  }

  // Updates the view. run: the node's running answer; undefined if it is not running.
  update(run) {
    if (!this.isUser) this.#updateAnswer(run);
    this.#updateFoot(run);
  }

  #updateAnswer(run) {
    const {node} = this;
    this.root.setAttribute("aria-busy", run ? "true" : "false");
    this.root.classList.toggle("running", Boolean(run));
    this.markdown.show(node.text);
    this.thinking.hidden = node.reasoning === "";
    if (node.reasoning !== "") {
      this.summary.textContent = run && node.text === "" ? "Thinking …" : "Thought first";
      this.thoughtMarkdown.show(node.reasoning);
    }
    this.waiting.hidden = !run || hasContent(node);
    if (!this.waiting.hidden) this.waiting.textContent = this.#waitingFor(run);
    patchChildren(this.calls, node.calls.map((call) => element("details", {class: "call", open: ""},
      element("summary", {}, "Calls ", element("code", {}, call.name || "…")),
      element("pre", {tabindex: "0"}, element("code", {}, call.arguments)))));
    const note = run ? "" : node.error || endInWords(node.end);
    this.note.hidden = note === "";
    this.note.textContent = note;
    this.note.classList.toggle("error", node.error !== "");
    this.below.querySelector(".figures")?.remove();
    this.below.prepend(...(run ? [] : figuresLine(node.figures)));
    this.lost.replaceChildren(...(run ? [] : lostLines(node.figures, this.actions.roles(node))));
  }

  #waitingFor(run) {
    const {progress} = run;
    if (!progress?.total || progress.done >= progress.total) return "Reading …";
    return `Reading ${number(progress.done)} of ${number(progress.total)} tokens …`;
  }

  // Recreate the buttons only if they change, because a recreated button loses the focus.
  #updateFoot(run) {
    const {index, count} = this.actions.place(this.node);
    const state = `${index}/${count}/${Boolean(run)}/${this.isUser || hasContent(this.node)}/${canContinue(this.node)}`;
    if (this.footState === state) return;
    this.footState = state;
    const active = document.activeElement;
    const focused = this.foot.contains(active) ? active.getAttribute("aria-label") : null;
    this.foot.replaceChildren(...(run ? [] : this.#buttons(index, count)));
    if (focused) this.foot.querySelector(`[aria-label="${focused}"]:not([disabled])`)?.focus();
  }

  #buttons(index, count) {
    const {node, actions} = this;
    const buttons = [];
    if (count > 1) {
      const what = this.isUser ? "version of this message" : "answer";
      const back = iconButton("left", `Previous ${what}`, () => actions.step(node, -1));
      const forth = iconButton("right", `Next ${what}`, () => actions.step(node, 1));
      back.disabled = index === 1;
      forth.disabled = index === count;
      const place = element("span", {class: "place", "aria-label": `${index} of ${count}`, role: "img"},
        `${index}/${count}`);
      buttons.push(element("span", {class: "branches"}, back, place, forth));
    }
    if (this.isUser) {
      buttons.push(iconButton("edit", "Edit this message", () => this.edit()));
    } else {
      if (canContinue(node)) buttons.push(iconButton("continue", "Continue this answer", () => actions.continue(node)));
      buttons.push(iconButton("again", "Another answer", () => actions.regenerate(node)));
    }
    const copied = this.isUser ? contentOf(node) : node.text;
    if (copied !== "") {
      const copy = iconButton("copy", this.isUser ? "Copy this message" : "Copy this answer",
        () => actions.copy(copy, copied));
      buttons.push(copy);
    }
    return buttons;
  }

  // Turns the message into a text field. Sending its text adds a new version of the message.
  edit() {
    if (this.form) return;
    const field = element("textarea", {"aria-label": "Edit this message", rows: "3"});
    field.value = this.node.text;
    const send = element("button", {type: "submit", class: "primary"}, "Send");
    const cancel = element("button", {type: "button", class: "quiet"}, "Cancel");
    const hint = element("p", {class: "soft"}, "The present text is kept as another branch.");
    this.form = element("form", {class: "editor"}, field, element("div", {class: "row"}, hint, cancel, send));
    const close = () => {
      this.form?.remove();
      this.form = null;
      this.body.hidden = this.foot.hidden = false;
    };
    cancel.addEventListener("click", () => {
      close();
      this.foot.querySelector("[aria-label='Edit this message']")?.focus();
    });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = field.value.trim();
      if (text === "" && this.node.files.length === 0) return;
      if (this.actions.edit(this.node, text)) close();
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        cancel.click();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.form.requestSubmit();
      }
    });
    this.body.hidden = this.foot.hidden = true;
    this.root.append(this.form);
    field.style.height = `${Math.min(field.scrollHeight + 4, 400)}px`;
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }
}
