// Conversations in the browser: an IndexedDB of their records, and beside each the summary that the list shows. Where the
// browser allows none (a private window), they live as long as the page, and isLasting is false.

const NAME = "ibid", VERSION = 1;
const RECORDS = "conversations", SUMMARIES = "summaries";

function promised(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
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
  #others = new BroadcastChannel("ibid-conversations");

  // onOther(id): another tab has changed or deleted a conversation.
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

  // {id, title, changed} of all.
  async summaries() {
    return this.isLasting ? promised(this.#read(SUMMARIES).getAll()) : [...this.#memory.values()].map(summaryOf);
  }

  async all() {
    return this.isLasting ? promised(this.#read(RECORDS).getAll()) : [...this.#memory.values()];
  }

  async get(id) {
    return this.isLasting ? promised(this.#read(RECORDS).get(id)) : this.#memory.get(id);
  }

  // Puts a tree, united with what another tab may have put meanwhile. Throws where the browser has no room.
  async put(tree) {
    if (!this.isLasting) {
      this.#memory.set(tree.id, tree.record());
      return;
    }
    const transaction = this.#database.transaction([RECORDS, SUMMARIES], "readwrite");
    const stored = await promised(transaction.objectStore(RECORDS).get(tree.id));
    if (stored) tree.merge(stored);
    const record = tree.record();
    await Promise.all([promised(transaction.objectStore(RECORDS).put(record)),
                       promised(transaction.objectStore(SUMMARIES).put(summaryOf(record)))]);
    this.#others.postMessage(tree.id);
  }

  async delete(id) {
    this.#memory.delete(id);
    if (this.isLasting) {
      const transaction = this.#database.transaction([RECORDS, SUMMARIES], "readwrite");
      await Promise.all([RECORDS, SUMMARIES].map((store) => promised(transaction.objectStore(store).delete(id))));
    }
    this.#others.postMessage(id);
  }
}
