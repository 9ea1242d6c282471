// ConversationTree: one conversation with all of its branches. Independent of page, network and storage.
//
// A node is one message. An edited message or a regenerated answer is a new sibling of the old node, so nothing is
// lost. Nodes are added and never removed or moved, so two tabs with the same conversation are synchronised by merging
// their nodes (merge()). The active path follows one chosen child at every node.
//
// The record (record()) is the format of storage and files: plain data in which parents come before their children.
//   {id, title, system, model, created, changed, nodes: [node ...], chosen: [[parent, child] ...]}
//   node: {id, parent, role, text, files, reasoning, calls, model, made, end, error, figures}

export const ROOT = "";  // the id that is the parent of every first message

let lastTime = 0;

// Returns a unique, increasing time, so that siblings are ordered by their creation.
export function nextTime() {
  lastTime = Math.max(Date.now(), lastTime + 1);
  return lastTime;
}

// Returns an id of 128 random bits. randomUUID() does not exist in pages that were loaded over plain HTTP from another
// machine.
export function newId() {
  const bits = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return [...bits].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Returns `content` as a fenced code block; the fence does not occur in it.
function fenced(content) {
  const longest = (content.match(/`+/g) ?? []).reduce((most, run) => Math.max(most, run.length), 0);
  const fence = "`".repeat(Math.max(3, longest + 1));
  return `${fence}\n${content}${content.endsWith("\n") ? "" : "\n"}${fence}`;
}

// Returns the user's message as it is sent to the model: its files, then its text. The same node always gives the same
// text, because after a changed byte the server would have to prefill everything again.
export function contentOf(node) {
  const files = (node.files ?? []).map((file) => `File ${file.name}:\n${fenced(file.text)}\n\n`);
  return files.join("") + node.text;
}

// True if any part of an answer has arrived.
export function hasContent(node) {
  return node.text !== "" || node.reasoning !== "" || node.calls.length > 0;
}

// True for an answer that has text and did not end by itself. Calls await their results, and reasoning alone is not
// sent, so it cannot be continued.
export function canContinue(node) {
  const endedByItself = node.end === "" || node.end === "stop" || node.end === "tool_calls";
  return node.role === "assistant" && node.text !== "" && node.calls.length === 0 && !endedByItself;
}

export class ConversationTree {
  #about;
  #nodes = new Map();
  #children = new Map([[ROOT, []]]);
  #chosen = new Map();

  // record: a result of record(), or checked by readConversations() (conversation_file.js).
  constructor(record) {
    const {nodes = [], chosen = [], ...about} = record;
    this.#about = {title: "", system: "", model: "", ...about};
    for (const node of nodes) this.#insert({...node});
    for (const [parent, child] of chosen) {
      if (this.#nodes.get(child)?.parent === parent) this.#chosen.set(parent, child);
    }
  }

  static create(about = {}) {
    const now = nextTime();
    return new ConversationTree({id: newId(), created: now, changed: now, ...about});
  }

  get id() { return this.#about.id; }
  get about() { return this.#about; }
  get size() { return this.#nodes.size; }

  // Sets title, system or model.
  describe(changes) {
    Object.assign(this.#about, changes, {changed: nextTime()});
  }

  node(id) { return this.#nodes.get(id); }
  children(id) { return this.#children.get(id) ?? []; }

  // Adds a message after `parent` and makes it part of the active path.
  add(parent, role, fields = {}) {
    const node = {
      id: newId(), parent, role, text: "", files: [], reasoning: "", calls: [], model: "", made: nextTime(), end: "",
      error: "", figures: null, ...fields,
    };
    this.#insert(node);
    this.choose(node.id);
    this.#about.changed = node.made;
    return node;
  }

  #insert(node) {
    if (node.parent !== ROOT && !this.#nodes.has(node.parent)) throw new Error("a node before its parent");
    this.#nodes.set(node.id, node);
    this.#children.set(node.id, []);
    const siblings = this.#children.get(node.parent);
    siblings.push(node);
    siblings.sort((a, b) => a.made - b.made || (a.id < b.id ? -1 : 1));
  }

  #childOnPath(id) {
    const chosen = this.#chosen.get(id);
    return chosen === undefined ? this.children(id).at(-1) : this.#nodes.get(chosen);
  }

  // Returns the messages of the active path, first to last.
  path() {
    const path = [];
    for (let node = this.#childOnPath(ROOT); node; node = this.#childOnPath(node.id)) path.push(node);
    return path;
  }

  // Returns the messages up to and including `id`.
  pathTo(id) {
    const path = [];
    for (let node = this.#nodes.get(id); node; node = this.#nodes.get(node.parent)) path.push(node);
    return path.reverse();
  }

  leaf() { return this.path().at(-1); }

  // Makes the path to this message active. Choices after this message stay.
  choose(id) {
    for (const node of this.pathTo(id)) this.#chosen.set(node.parent, node.id);
  }

  // Returns the position of a message among its siblings: {index, count}, starting at 1.
  place(id) {
    const siblings = this.children(this.#nodes.get(id).parent);
    return {index: siblings.findIndex((node) => node.id === id) + 1, count: siblings.length};
  }

  // Activates and returns the sibling at offset `by`; undefined if it does not exist.
  step(id, by) {
    const siblings = this.children(this.#nodes.get(id).parent);
    const next = siblings[siblings.findIndex((node) => node.id === id) + by];
    if (next) this.#chosen.set(next.parent, next.id);
    return next;
  }

  // Returns the messages up to `id` in the protocol's format. Reasoning is left out, as clients usually do.
  messages(id) {
    const messages = this.#about.system === "" ? [] : [{role: "system", content: this.#about.system}];
    for (const node of this.pathTo(id)) {
      const message = {role: node.role, content: node.role === "user" ? contentOf(node) : node.text};
      if (node.calls.length > 0) {
        message.tool_calls = node.calls.map((call) => (
          {id: call.id, type: "function", function: {name: call.name, arguments: call.arguments}}));
      }
      messages.push(message);
    }
    return messages;
  }

  // Merges another copy of this conversation. If both copies have a message, keeps the finished version, or else the
  // longer one. Returns true if anything changed.
  merge(record) {
    let changed = false;
    for (const other of record.nodes) {
      const mine = this.#nodes.get(other.id);
      if (!mine) {
        this.#insert({...other});
        changed = true;
      } else if (mine.end === "" && (other.end !== "" || other.text.length > mine.text.length)) {
        Object.assign(mine, other);
        changed = true;
      }
    }
    if (record.changed > this.#about.changed) {
      const {nodes, chosen, ...about} = record;
      Object.assign(this.#about, about);
      changed = true;
    }
    return changed;
  }

  record() {
    return {...this.#about, nodes: [...this.#nodes.values()].map((node) => ({...node})), chosen: [...this.#chosen]};
  }

  // Returns the layout of a drawing of all messages: {node, row, column, active}. A message is below its parent. The
  // first child is in its parent's column; each other child starts a new column.
  drawing() {
    const active = new Set(this.path().map((node) => node.id));
    const placed = [];
    let columns = 1;
    const waiting = this.children(ROOT).map((node, i) => ({node, column: i === 0 ? 0 : null})).reverse();
    while (waiting.length > 0) {
      const {node, column} = waiting.pop();
      const at = column ?? columns++;
      placed.push({node, row: placed.length, column: at, active: active.has(node.id)});
      const children = this.children(node.id).map((child, i) => ({node: child, column: i === 0 ? at : null}));
      waiting.push(...children.reverse());
    }
    return {placed, columns};
  }
}
