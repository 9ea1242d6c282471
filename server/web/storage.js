// Stores conversations in the browser: their records in IndexedDB, and a summary of each for the list. If the browser
// allows no storage (a private window), conversations are kept in memory only, and isLasting is false.
//
// Deleted conversations stay deleted: one that was in storage before and is missing now is not stored again by a
// running answer or by another tab.

const NAME = "ibid", VERSION = 1;
const RECORDS = "conversations", SUMMARIES = "summaries";

function promised(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

// Resolves at the end of a transaction. A request may succeed although its data is not stored: only the end of the
// transaction shows whether there was enough space.
function ended(transaction) {
  const end = new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error ?? new Error("The browser could not store it."));
  });
  end.catch(() => {});  // avoids an unhandled rejection: the caller that waits for `end` gets the error
  return end;
}

function openDatabase() {
  const request = indexedDB.open(NAME, VERSION);
  request.onupgradeneeded = () => {
    for (const store of [RECORDS, SUMMARIES]) request.result.createObjectStore(store, {keyPath: "id"});
  };
  return promised(request);
}

const summaryOf = ({id, title, changed}) => ({id, title, changed});

export class Storage {
  #database = null;
  #memory = new Map();
  #known = new Set();  // ids that were seen in storage
  #others = new BroadcastChannel("ibid-conversations");
  #hasAsked = false;

  // onOther(id) is called when another tab has changed or deleted a conversation.
  static async open(onOther) {
    const storage = new Storage();
    try {
      storage.#database = await openDatabase();
      storage.#database.onversionchange = () => storage.#database.close();
    } catch {
      storage.#database = null;
    }
    storage.#others.onmessage = ({data}) => onOther(data);
    return storage;
  }

  get isLasting() { return this.#database !== null; }

  #read(store) {
    return this.#database.transaction(store, "readonly").objectStore(store);
  }

  #write() {
    return this.#database.transaction([RECORDS, SUMMARIES], "readwrite");
  }

  // Returns {id, title, changed} for all conversations.
  async summaries() {
    return this.isLasting ? promised(this.#read(SUMMARIES).getAll()) : [...this.#memory.values()].map(summaryOf);
  }

  async all() {
    return this.isLasting ? promised(this.#read(RECORDS).getAll()) : [...this.#memory.values()];
  }

  async get(id) {
    const record = this.isLasting ? await promised(this.#read(RECORDS).get(id)) : this.#memory.get(id);
    if (record) this.#known.add(id);
    return record;
  }

  // True if the conversation was in storage before and is missing now.
  async isDeleted(id) {
    return this.#known.has(id) && !await this.get(id);
  }

  // Stores a tree, merged with changes of other tabs. A deleted conversation stays deleted. Throws if the browser has
  // no space; the stored version then stays.
  async put(tree) {
    return this.putAll([tree]);
  }

  // Stores all trees, or throws and stores none.
  async putAll(trees) {
    if (this.isLasting) {
      await this.#putInOne(trees);
      this.#askToLast();
    } else {
      for (const tree of trees) {
        if (this.#memory.has(tree.id) || !this.#known.has(tree.id)) this.#memory.set(tree.id, tree.record());
      }
    }
    for (const tree of trees) {
      this.#known.add(tree.id);
      this.#others.postMessage(tree.id);
    }
  }

  async #putInOne(trees) {
    const transaction = this.#write();
    const end = ended(transaction);
    const records = transaction.objectStore(RECORDS), summaries = transaction.objectStore(SUMMARIES);
    for (const tree of trees) {
      const stored = await promised(records.get(tree.id));
      if (!stored && this.#known.has(tree.id)) continue;
      if (stored) tree.merge(stored);
      const record = tree.record();
      records.put(record);
      summaries.put(summaryOf(record));
    }
    await end;
  }

  // Requests persistence, because a browser that is short of space evicts data of other pages.
  #askToLast() {
    if (this.#hasAsked) return;
    this.#hasAsked = true;
    navigator.storage?.persist?.().catch(() => {});
  }

  async delete(id) {
    this.#known.add(id);
    this.#memory.delete(id);
    if (this.isLasting) {
      const transaction = this.#write();
      const end = ended(transaction);
      for (const store of [RECORDS, SUMMARIES]) transaction.objectStore(store).delete(id);
      await end;
    }
    this.#others.postMessage(id);
  }
}
