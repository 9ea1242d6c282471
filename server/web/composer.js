// The message field: the text, the attached files, and the button that sends or stops.

import {contentOf} from "./conversation_tree.js";
import {fileChip} from "./message_view.js";
import {estimatedTokens} from "./words.js";

export const MAX_FILE_BYTES = 1 << 20;
export const MAX_FILES = 16;

// Returns the text of a file. Throws an Error with a message for the user.
export async function readTextFile(file) {
  if (file.size > MAX_FILE_BYTES) throw new Error(`${file.name} is larger than 1 MB.`);
  let text;
  try {
    text = new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
  } catch {
    throw new Error(`${file.name} is not text in UTF-8.`);
  }
  if (text.includes("\u0000")) throw new Error(`${file.name} is not text.`);
  return {name: file.name.slice(0, 200), text};
}

export class Composer {
  #files = [];

  // form: contains the field, the picker (a file input), attach and send buttons, and a place for files. send({text,
  // files}) returns whether the message was accepted; stop() stops the answer; say(text) shows a notice; onChange() is
  // called when text or files have changed.
  constructor({form, send, stop, say, onChange}) {
    this.form = form;
    this.field = form.querySelector("textarea");
    this.button = form.querySelector("[type=submit]");
    this.place = form.querySelector(".files");
    const picker = form.querySelector("[type=file]");
    Object.assign(this, {send, stop, say, onChange});
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.isAnswering) this.stop();
      else this.submit();
    });
    form.querySelector(".attach").addEventListener("click", () => picker.click());
    picker.addEventListener("change", async () => {
      await this.addFiles([...picker.files]);
      picker.value = "";
    });
    this.field.addEventListener("input", () => {
      this.fit();
      this.onChange();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.isAnswering) this.submit();
    });
    this.field.addEventListener("paste", (event) => {
      if (event.clipboardData.files.length === 0) return;
      event.preventDefault();
      this.addFiles([...event.clipboardData.files]);
    });
    this.#takeDrops();
  }

  #takeDrops() {
    const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
    addEventListener("dragover", (event) => {
      if (!carriesFiles(event)) return;
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) document.body.classList.remove("dropping");
    });
    addEventListener("drop", (event) => {
      if (!carriesFiles(event)) return;
      event.preventDefault();
      document.body.classList.remove("dropping");
      this.addFiles([...event.dataTransfer.files]);
    });
  }

  async addFiles(files) {
    for (const file of files) {
      if (this.#files.length >= MAX_FILES) {
        this.say(`At most ${MAX_FILES} files go with a message.`);
        break;
      }
      try {
        this.#files.push(await readTextFile(file));
      } catch (error) {
        this.say(error.message);
      }
    }
    this.#showFiles();
    this.field.focus();
  }

  #showFiles() {
    this.place.replaceChildren(...this.#files.map((file) => fileChip(file, () => {
      this.#files = this.#files.filter((each) => each !== file);
      this.#showFiles();
      this.field.focus();
    })));
    this.place.hidden = this.#files.length === 0;
    this.onChange();
  }

  submit() {
    const text = this.field.value.trim();
    if (text === "" && this.#files.length === 0) return;
    if (!this.send({text, files: this.#files})) return;
    this.#files = [];
    this.#showFiles();
    this.field.value = "";
    this.fit();
  }

  // Fits the field's height to its text, up to a third of the window.
  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${Math.min(this.field.scrollHeight, Math.max(120, innerHeight / 3))}px`;
  }

  setAnswering(isAnswering) {
    this.isAnswering = isAnswering;
    this.button.setAttribute("aria-label", isAnswering ? "Stop the answer" : "Send");
    this.button.title = isAnswering ? "Stop the answer (Esc)" : "Send (Enter)";
    this.button.classList.toggle("stop", isAnswering);
    this.form.querySelector(".send-icon").hidden = isAnswering;
    this.form.querySelector(".stop-icon").hidden = !isAnswering;
  }

  focus() { this.field.focus(); }
  get pendingTokens() { return estimatedTokens(contentOf({text: this.field.value, files: this.#files})); }
  get isEmpty() { return this.field.value === ""; }
}

