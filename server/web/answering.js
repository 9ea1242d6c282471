// Runs answers: at most one per conversation. Answers continue while another conversation is shown, and are saved every
// few seconds.

import {hasContent} from "./conversation_tree.js";
import {AnswerChunks} from "./stream.js";

const SAVE_EVERY_MS = 2000;

export class Answering {
  #running = new Map();  // id of a conversation -> {tree, node, controller, progress}

  // save(tree) stores the tree and never throws. onChange(tree, node, what) is called when a part of an answer has
  // arrived; what: "begin", "text", "reasoning", "call", "progress", "end".
  constructor({server, settings, save, onChange}) {
    Object.assign(this, {server, settings, save, onChange});
  }

  running(conversation) { return this.#running.get(conversation); }
  get count() { return this.#running.size; }

  stop(conversation) {
    this.#running.get(conversation)?.controller.abort();
  }

  // Answers the message `question` in a new child node. Returns when the answer has ended; an error is stored in the
  // node.
  async answer(tree, question, model) {
    if (this.#running.has(tree.id)) return;
    const messages = tree.messages(question.id);
    await this.#run(tree, tree.add(question.id, "assistant", {model, figures: {}}), messages, model);
  }

  // Continues an answer that was cut off: sends it as the last message of the request.
  async continue(tree, node, model) {
    if (this.#running.has(tree.id)) return;
    const messages = tree.messages(node.id);
    Object.assign(node, {end: "", error: "", figures: {}});
    await this.#run(tree, node, messages, model);
  }

  async #run(tree, node, messages, model) {
    const request = {model, messages, ...this.settings.request()};
    const run = {tree, node, controller: new AbortController(), progress: null, began: performance.now()};
    this.#running.set(tree.id, run);
    this.onChange(tree, node, "begin");
    try {
      await this.#hear(run, request);
      node.end ||= "stop";
    } catch (error) {
      const stopped = error.name === "AbortError";
      node.end = stopped ? "stopped" : "error";
      if (!stopped) node.error = error.words ?? error.message;
      run.status = error.status;
    }
    node.figures.totalMs = performance.now() - run.began;
    this.#running.delete(tree.id);
    await this.save(tree);
    this.onChange(tree, node, "end", run.status);
  }

  async #hear(run, request) {
    const {tree, node} = run;
    const chunks = new AnswerChunks(node);
    let saved = performance.now();
    for await (const chunk of this.server.answer(request, run.controller.signal)) {
      const what = chunks.add(chunk);
      run.progress = chunks.progress;
      if (what === "") continue;
      const now = performance.now();
      if (what !== "progress") node.figures.firstMs ??= now - run.began;
      this.onChange(tree, node, what);
      if (hasContent(node) && now - saved > SAVE_EVERY_MS) {
        saved = now;
        this.save(tree);
      }
    }
  }
}
