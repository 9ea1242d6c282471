// Conversations in the browser: an IndexedDB of their records, and beside each the summary that the list shows. Where the
// browser allows none (a private window), they live as long as the page, and isLasting is false.
//
// What was deleted stays deleted: a conversation that was in storage once, and is not there any more, is not put again by
// an answer that was under way, or by another tab.

const NAME = "ibid", VERSION = 1;
const RECORDS = "conversations", SUMMARIES = "summaries";

function promised(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

// The end of a transaction. Requests may succeed and nothing be kept all the same: whether there is room is known at its
// end alone.
function ended(transaction) {
  const end = new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error ?? new Error("The browser keeps nothing."));
  });
  end.catch(() => {});  // whoever waits for it hears of it
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
  #known = new Set();  // ids of what was seen in storage
  #others = new BroadcastChannel("ibid-conversations");
  #hasAsked = false;

  // onOther(id): another tab has changed a conversation, or deleted it.
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

  // {id, title, changed} of all.
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

  // Whether it was in storage once and is no longer.
  async isDeleted(id) {
    return this.#known.has(id) && !await this.get(id);
  }

  // Puts a tree, united with what another tab may have put meanwhile; one that was deleted stays so. Throws where the
  // browser has no room, and what was kept before stays then.
  async put(tree) {
    return this.putAll([tree]);
  }

  // Puts all of them, or throws and puts none.
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

  // A browser that is short of room takes away what it was not asked to keep.
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
