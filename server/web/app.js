// The chat page: connects the shown conversation with its views, the storage and the running answers.

import {Answering} from "./answering.js";
import {Composer} from "./composer.js";
import {ConversationList} from "./conversation_list.js";
import {ConversationTree, ROOT, hasContent} from "./conversation_tree.js";
import {download, downloadAll, readFileOfConversations} from "./conversation_transfer.js";
import {fillIcons} from "./elements.js";
import {ModelChoice} from "./model_choice.js";
import {Server} from "./server.js";
import {Settings, THEMES} from "./settings.js";
import {applyTheme, connectSettings} from "./settings_form.js";
import {SidePanel} from "./side_panel.js";
import {connectShortcuts} from "./shortcuts.js";
import {Storage} from "./storage.js";
import {ThreadView} from "./thread_view.js";
import {showTree} from "./tree_view.js";

const CURRENT_PLACE = "ibid.conversation";  // key in the tab's storage: a reload shows the same conversation
const SPOKEN = 2000;  // maximum characters of an answer that are announced to screen readers

const UNDER_WAY = "An answer is under way: Esc stops it.";

const at = (id) => document.getElementById(id);

class App {
  constructor() {
    this.settings = new Settings();
    this.server = new Server(() => this.settings.key);
    this.tree = this.#newTree();
  }

  async start() {
    applyTheme(this.settings.values.theme);
    fillIcons(document);
    this.storage = await Storage.open((id) => this.#changedElsewhere(id));
    const {server, settings, storage} = this;
    this.answering = new Answering({
      server, settings, save: (tree) => this.#save(tree), onChange: (tree, node, what, status) => this.#onAnswer(tree, node, what, status)});
    this.#makeViews();
    this.#connectHeader();
    this.#connectDialogs();
    connectShortcuts(this);
    let current = null;
    try {
      current = sessionStorage.getItem(CURRENT_PLACE);
    } catch {
      // Session storage is not allowed, so the page starts with a new conversation.
    }
    if (!current || !await this.open(current)) this.show();
    this.list.show();
    this.composer.focus();
    await this.loadModels();
    if (!storage.isLasting) this.say("This browser has no storage: conversations are lost when the page is closed.");
  }

  #newTree() {
    return ConversationTree.create({system: this.settings.values.system, model: this.settings.values.model});
  }

  #makeViews() {
    this.thread = new ThreadView({
      scroller: at("scroller"), place: at("thread"), toEnd: at("to-end"),
      actions: {
        edit: (node, text) => this.edit(node, text),
        regenerate: (node) => this.regenerate(node),
        continue: (node) => this.continue(node),
        step: (node, by) => this.step(node, by),
        place: (node) => this.tree.place(node.id),
        roles: (node) => this.tree.messages(node.parent).map((message) => message.role),
        run: (node) => {
          const run = this.answering.running(this.tree.id);
          return run?.node === node ? run : null;
        },
        copy: (button, text) => this.copy(button, text),
      },
    });
    this.composer = new Composer({
      form: at("composer"), send: (message) => this.send(message), stop: () => this.stop(),
      say: (text) => this.say(text), onChange: () => this.model.showGauge(this.tree, this.composer.pendingTokens)});
    this.list = new ConversationList({
      place: at("list"), search: at("search"), storage: this.storage,
      open: (id) => this.open(id).then(() => this.side.close()),
      isAnswering: (id) => Boolean(this.answering.running(id))});
    this.model = new ModelChoice({
      select: at("model"), gauge: at("gauge"), server: this.server,
      choose: (name) => {
        this.settings.set({model: name});
        this.describe({model: name});
      }});
    this.side = new SidePanel({panel: at("side"), shade: at("shade"), opener: at("open-side"), closer: at("close-side"),
                               main: at("main")});
  }

  #connectHeader() {
    at("new").addEventListener("click", () => this.begin());
    at("title").addEventListener("change", ({target}) => this.describe({title: target.value.trim()}));
    at("title").addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.composer.focus();
    });
    at("system").addEventListener("change", ({target}) => this.describe({system: target.value.trim()}));
    at("export").addEventListener("click", () => download([this.tree.record()], this.tree.about.title));
    at("delete").addEventListener("click", () => this.delete());
    at("theme").addEventListener("click", () => {
      const theme = THEMES[(THEMES.indexOf(this.settings.values.theme) + 1) % THEMES.length];
      this.settings.set({theme});
      applyTheme(theme);
      at("settings").elements.theme.value = theme;
      this.announce({auto: "Theme of the system", light: "Light", dark: "Dark"}[theme]);
    });
  }

  #connectDialogs() {
    connectSettings(at("settings"), this.settings, {
      onTheme: () => applyTheme(this.settings.values.theme), onKey: () => this.loadModels()});
    at("settings").addEventListener("submit", (event) => event.preventDefault());
    at("open-settings").addEventListener("click", () => at("settings-dialog").showModal());
    at("open-keys").addEventListener("click", () => at("keys-dialog").showModal());
    at("open-tree").addEventListener("click", () => this.openTree());
    at("import").addEventListener("click", () => at("import-file").click());
    at("import-file").addEventListener("change", async ({target}) => {
      if (target.files.length > 0) await this.import([...target.files]);
      target.value = "";
    });
    at("export-all").addEventListener("click", async () => downloadAll(await this.storage.all()));
    // A click outside a dialog closes it.
    for (const dialog of document.querySelectorAll("dialog")) {
      dialog.addEventListener("click", (event) => {
        if (event.target === dialog) dialog.close();
      });
    }
  }

  // Shows a notice to the user; "" hides it.
  say(text) {
    at("notice").textContent = text;
    at("notice").hidden = text === "";
  }

  // Announces a text to screen readers only.
  announce(text) {
    at("live").textContent = text;
  }

  async loadModels() {
    try {
      await this.model.load();
      this.say("");
    } catch (error) {
      this.#sayError(error);
    }
    this.model.show(this.tree, this.composer.pendingTokens);
  }

  #sayError(error) {
    if (error.status === 401) {
      this.say("The server requires an API key: enter it in the settings.");
    } else {
      this.say(error.words ?? error.message);
    }
  }

  // Renders the current tree.
  show() {
    const {about} = this.tree;
    const path = this.tree.path();
    at("title").value = about.title;
    if (document.activeElement !== at("system")) at("system").value = about.system;
    at("system-place").open ||= about.system !== "" && path.length === 0;
    at("empty").hidden = path.length > 0;
    document.title = about.title === "" ? "ibid" : `${about.title} · ibid`;
    this.list.current = this.tree.id;
    this.thread.show(path);
    this.composer.setAnswering(Boolean(this.answering.running(this.tree.id)));
    this.model.show(this.tree, this.composer.pendingTokens);
  }

  // Starts a new conversation, which is stored once it has a message.
  begin() {
    this.tree = this.#newTree();
    this.#remember();
    at("system-place").open = false;
    this.say("");
    this.show();
    this.list.show();
    this.side.close();
    this.composer.focus();
  }

  #remember() {
    try {
      sessionStorage.setItem(CURRENT_PLACE, this.tree.id);
    } catch {
      // Session storage is not allowed, so a reload starts with a new conversation.
    }
  }

  async open(id) {
    const running = this.answering.running(id)?.tree;
    const record = running ? null : await this.storage.get(id);
    if (!running && !record) return false;
    this.tree = running ?? new ConversationTree(record);
    this.#closeUnended();
    this.#remember();
    at("system-place").open = false;
    this.thread.follows = true;
    this.show();
    this.list.show();
    return true;
  }

  // Marks as ended the answers that were running when the page was closed.
  #closeUnended() {
    if (this.answering.running(this.tree.id)) return;
    for (const node of this.tree.path()) if (node.role === "assistant" && node.end === "") node.end = "closed";
  }

  async #changedElsewhere(id) {
    this.list.show();
    if (await this.storage.isDeleted(id)) {
      this.answering.stop(id);
      if (id !== this.tree.id) return;
      this.begin();
      this.say("This conversation was deleted in another tab.");
      return;
    }
    if (id !== this.tree.id || this.answering.running(id)) return;
    const record = await this.storage.get(id);
    if (record && this.tree.merge(record)) this.show();
  }

  async describe(changes) {
    this.tree.describe(changes);
    if (this.tree.size > 0) await this.#save();
    this.show();
  }

  async #save(tree = this.tree) {
    try {
      await this.storage.put(tree);
    } catch {
      const which = tree.id === this.tree.id ? "this conversation" : `“${tree.about.title}”`;
      this.say(`The browser could not keep ${which}: its storage may be full. Export it, or delete others.`);
    }
    this.list.show();
  }

  // True if an answer can be started now; otherwise shows the reason.
  #canAsk() {
    if (this.answering.running(this.tree.id)) {
      this.say(UNDER_WAY);
      return false;
    }
    if (this.model.isEmpty) this.loadModels();
    return true;
  }

  send({text, files}) {
    if (!this.#canAsk()) return false;
    // If the path ends with questions without an answer, these are not part of the history: the new message becomes the
    // sibling of the first of them.
    let last = this.tree.leaf();
    while (last && (last.role === "user" || !hasContent(last))) last = this.tree.node(last.parent);
    this.#ask(last?.id ?? ROOT, text, files);
    return true;
  }

  edit(node, text) {
    if (!this.#canAsk()) return false;
    this.#ask(node.parent, text, node.files);
    this.composer.focus();
    return true;
  }

  #ask(parent, text, files) {
    const question = this.tree.add(parent, "user", {text, files});
    if (this.tree.about.title === "") {
      this.tree.describe({title: (text || files[0].name).replace(/\s+/g, " ").slice(0, 60)});
    }
    this.#remember();
    this.#answer(question);
  }

  regenerate(answer) {
    if (this.#canAsk()) this.#answer(this.tree.node(answer.parent));
  }

  async continue(answer) {
    if (!this.#canAsk()) return;
    this.say("");
    this.thread.follows = true;
    await this.answering.continue(this.tree, answer, this.model.name);
  }

  regenerateLast() {
    const last = this.tree.leaf();
    if (last && this.#canAsk()) this.#answer(last.role === "user" ? last : this.tree.node(last.parent));
  }

  editLast() {
    const last = this.tree.path().findLast((node) => node.role === "user");
    if (last) this.thread.view(last.id).edit();
  }

  async #answer(question) {
    this.say("");
    this.thread.follows = true;
    const {name} = this.model;
    if (this.tree.about.model !== name) this.tree.describe({model: name});
    const done = this.answering.answer(this.tree, question, name);
    this.#save();
    await done;
  }

  stop() {
    this.answering.stop(this.tree.id);
  }

  #onAnswer(tree, node, what, status) {
    const isShown = tree.id === this.tree.id;
    if (what === "end" && at("notice").textContent === UNDER_WAY) this.say("");
    if (what === "begin" || what === "end") {
      if (isShown) this.show();
      this.list.show();
    } else if (isShown) {
      this.thread.touch(node.id);
    }
    if (!isShown) return;
    if (what === "begin") this.announce("The answer begins");
    if (what === "end") this.#announceEnd(node, status);
  }

  #announceEnd(node, status) {
    if (status === 401) this.#sayError({status});
    const spoken = node.error || (node.end === "stopped" ? "Stopped. " : "Answer: ") + node.text.slice(0, SPOKEN);
    this.announce(spoken);
    // The model may have been loaded for this answer; then its context size is known now.
    if (this.model.context === null) this.loadModels();
  }

  async step(node, by) {
    const next = this.tree.step(node.id, by);
    if (!next) return;
    this.thread.follows = false;
    this.show();
    // The buttons now belong to another message. Focus the same button there, or if it is disabled, the other one.
    const [back, forth] = this.thread.view(next.id).root.querySelectorAll(".branches button");
    (forth.disabled || (by < 0 && !back.disabled) ? back : forth).focus();
    this.announce(`${this.tree.place(next.id).index} of ${this.tree.place(next.id).count}`);
    if (!this.answering.running(this.tree.id)) await this.#save();
  }

  openTree() {
    const dialog = at("tree-dialog");
    const focusActive = showTree(at("tree"), this.tree, async (id) => {
      dialog.close();
      this.tree.choose(id);
      this.thread.follows = false;
      this.show();
      this.thread.goTo(id);
      if (!this.answering.running(this.tree.id)) await this.#save();
    });
    dialog.showModal();
    focusActive();
  }

  async copy(button, text) {
    let said = "Copied";
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      said = "The browser does not allow copying here";
    }
    this.announce(said);
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), 1200);
  }

  // Imports all of the files, or none.
  async import(files) {
    try {
      const records = [];
      for (const file of files) records.push(...await readFileOfConversations(file));
      await this.storage.putAll(records.map((record) => new ConversationTree(record)));
      if (records.length > 0) await this.open(records[0].id);
      this.announce(`${records.length} imported`);
    } catch (error) {
      this.say(`Nothing was imported. ${error.message}`);
    }
    at("settings-dialog").close();
  }

  async delete() {
    const dialog = at("confirm-dialog");
    const title = this.tree.about.title || "New conversation";
    at("confirm-text").textContent = `Delete “${title}” with all of its branches?`;
    dialog.returnValue = "no";
    dialog.showModal();
    await new Promise((resolve) => dialog.addEventListener("close", resolve, {once: true}));
    if (dialog.returnValue !== "yes") return;
    const {id} = this.tree;
    this.stop();
    await this.storage.delete(id);
    this.begin();
  }
}

new App().start();
