// ConversationStore: one SQLite database of everything that the server stores for its clients:
// - responses, which a client continues by their id;
// - conversations, a resource of the API;
// - known histories: the tokens of the conversation of a client that sends its whole history each time.
//
// File: with a directory, the database is the file kStoreFileName in the directory. This file and SQLite's -wal and
// -shm files have mode 0600. The database survives the process, and several processes may use it at once: each change
// is one short transaction, which waits for transactions of other processes for at most Database::kBusyTimeout. Without
// a directory, the database is in memory and ends with the process. A change is atomic, whatever fails; a power loss
// may undo the most recent changes. Each entry has a checksum, so reading a damaged entry returns an error (kCorrupt).
//
// Namespaces: an entry is found only in its own namespace. A namespace may be an API key, so only a digest of it is
// written.
//
// Eviction: all entries together have at most budget_bytes. The API key with the most bytes loses an entry: of its
// owners (server/store/cache_namespace.h) the one with the most bytes, and of that owner the least recently used entry.
// So a client cannot evict entries of others. Reading an entry counts as a use, which is written with the next change.
//
// Threads: thread-safe. A change holds the lock of the writing connection while it waits for the disk. So changes are
// made on the writing thread of Conversations (Backend::write_behind()), for which no token and no other request waits.
// Two rare changes are made on a planning thread: importing an earlier version's files, and removing an invalid known
// history. Reading uses a second connection and waits for no change, so handler threads and planning threads may read.
// Each call reads a few rows, in less than a millisecond, except while SQLite repairs the log of a killed process.
// find_item() searches all texts of a namespace, so it has a connection of its own.
//
// Errors of all calls that return a Status or a Result, besides those listed: kIo, kCorrupt, kOutOfMemory, with the
// file's name and SQLite's message; nothing has changed then.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "server/store/kept_rows.h"

namespace ibid::serve {

struct StoredResponse {
  std::string id;
  std::string previous_id = {};      // id of the response that this one continues; empty: none
  Json in_front = Json::array();     // items that precede `items`; stored only if the previous response is not
  Json items = Json::array();        // items of the response: first its input, then its output
  size_t n_output = 0;               // number of output items, which are the last of `items`
  std::string conversation_id = {};  // conversation whose items precede the response's; empty: none
  std::string response = {};         // the response object as it was sent
};

struct StoredConversation {
  std::string id;
  int64_t created = 0;
  int64_t version = 0;  // number of changes of `items`; set by the store
  Json metadata = Json::object();
  Json items = Json::array();
};

// A known history as text. hashes: one for each of its prefixes, the shortest first. The history is found by prefixes
// of at least `first` messages; 0: it is never found.
struct StoredHistory {
  std::string name;
  int64_t numerics_version = 0;
  std::string text;
  std::vector<uint64_t> hashes = {};
  size_t first = 0;
};
struct FoundHistory {
  std::string name;
  size_t n = 0;  // number of messages that the found and the wanted history share
};

struct HistoryStats {
  uint64_t n_kept = 0, n_bytes = 0;  // entries in the store now
  // Numbers of histories since the start: written; not written because of an error; removed because invalid.
  uint64_t n_written = 0, n_failed = 0, n_refused = 0;
};

class LockedConversation;

class ConversationStore {
 public:
  static constexpr uint64_t kDefaultBytes = 256u << 20;

  struct Options {
    std::string directory = {};  // a directory, created if missing, only for this user; empty: the store is in memory
    uint64_t budget_bytes = kDefaultBytes;
    std::function<void(const std::string&)> remark = {};  // logs a line
    const char* vfs = nullptr;                            // name of SQLite's VFS; tests use their own
  };
  // Opens the store. A budget that is smaller than before applies at once. Errors: those of KeptRows::open()
  // (server/store/kept_rows.h).
  static Result<std::unique_ptr<ConversationStore>> open(Options options);
  // Opens the store. If open() fails, logs the error and opens a store in memory.
  static std::unique_ptr<ConversationStore> open_or_in_memory(Options options);
  ~ConversationStore();

  bool is_on_disk() const { return !options_.directory.empty(); }
  uint64_t budget_bytes() const { return options_.budget_bytes; }

  // --- responses

  // Stores a response. Error: kLimitExceeded if it does not fit; the stored responses then stay.
  Status put_response(const std::string& cache_namespace, const StoredResponse& response);
  // Returns a response. Its in_front contains the items of all earlier responses that it continues. Error: kNotFound.
  Result<StoredResponse> find_response(const std::string& cache_namespace, const std::string& id);
  // Returns the item with this id, of any response; null if there is no such item.
  Result<Json> find_item(const std::string& cache_namespace, const std::string& item_id);
  // Removes a response. Responses that continue it keep its items. Error: kNotFound.
  Status remove_response(const std::string& cache_namespace, const std::string& id);

  // --- conversations. Errors: kNotFound; kLimitExceeded: the conversation does not fit, and nothing has changed.

  Status create_conversation(const std::string& cache_namespace, const StoredConversation& conversation);
  Result<StoredConversation> find_conversation(const std::string& cache_namespace, const std::string& id);
  Status set_metadata(const std::string& cache_namespace, const std::string& id, const Json& metadata);
  Status remove_conversation(const std::string& cache_namespace, const std::string& id);
  // Locks a conversation for a change of its items. Error: kBusy: it is already locked in this process. REQUIRES: the
  // store outlives the result.
  Result<std::unique_ptr<LockedConversation>> take_conversation(const std::string& cache_namespace,
                                                                const std::string& id);

  // --- known histories

  // The seed of the hash chains of histories. It is secret, so that clients cannot construct collisions, and equal in
  // all processes that use the store.
  uint64_t hash_seed() const { return hash_seed_; }
  // Stores a history, in place of the holder's history of the same name. Error: kLimitExceeded.
  Status put_history(const Holder& holder, const StoredHistory& history);
  // Returns the history that shares the longest prefix with `hashes`, if that prefix has more than n_known messages.
  Result<std::optional<FoundHistory>> find_history(const Holder& holder, std::span<const uint64_t> hashes,
                                                   size_t n_known);
  // Returns the history's text. Does not mark it as used, because the next answer replaces it. Error: kNotFound.
  Result<std::string> read_history(const Holder& holder, const std::string& name);
  // Removes an invalid history and counts it in n_refused.
  Status refuse_history(const Holder& holder, const std::string& name);
  void count_refused() { ++n_refused_; }  // counts an invalid history that was not in the store
  // Returns the numerics versions of the stored histories, and the number of histories with each version.
  Result<std::vector<std::pair<int64_t, int64_t>>> history_versions();

  Status forget(const std::string& cache_namespace);  // removes all entries of a namespace
  void say(const Status& error) const;                // logs an error; clients get a shorter message
  Result<uint64_t> bytes();                           // size of all entries, as counted for the budget
  HistoryStats stats();                               // n_kept and n_bytes are 0 if they cannot be read

 private:
  friend class LockedConversation;
  struct Connection {
    std::mutex mutex;  // guards `rows`
    std::unique_ptr<KeptRows> rows;
  };
  using Rows = std::vector<KeptRows::Row>;

  explicit ConversationStore(Options options) : options_(std::move(options)) {}
  // Locks the connection that reads. A store in memory has only one connection.
  std::pair<std::unique_lock<std::mutex>, KeptRows&> reading() {
    Connection& reader = reader_.rows != nullptr ? reader_ : writer_;
    return {std::unique_lock(reader.mutex), *reader.rows};
  }
  // Runs `change` as one transaction, which is rolled back if it returns an error.
  Status write(const std::function<Status(KeptRows&)>& change);
  Status remove(Kept kind, const std::string& space, const std::string& name);
  Result<Rows> find(Kept kind, const std::string& space, const std::string& name);
  void count_use(int64_t id);

  const Options options_;
  uint64_t hash_seed_ = 0;
  Connection writer_, reader_;  // reader_.rows is null if the store is in memory
  std::mutex mutex_;            // guards the following members; no other lock is taken while this lock is held
  std::vector<int64_t> used_;   // rows read since the last change, the most recently read last
  std::set<std::pair<std::string, std::string>> taken_;  // locked conversations, as pairs of namespace and id
  std::atomic<uint64_t> n_written_{0}, n_failed_{0}, n_refused_{0};
};

// A locked conversation: until this object is committed or destroyed, only it can change the conversation in this
// process.
class LockedConversation {
 public:
  ~LockedConversation() { release(); }
  LockedConversation(const LockedConversation&) = delete;
  LockedConversation& operator=(const LockedConversation&) = delete;

  // Returns the conversation as it was when it was locked.
  StoredConversation& conversation() { return conversation_; }
  // Replaces the items and ends the lock. Ok if the conversation was removed meanwhile: then nothing is stored. Errors:
  // kLimitExceeded; kBusy: another process has changed it meanwhile. REQUIRES: called once.
  Status commit(const Json& items);

 private:
  friend class ConversationStore;
  LockedConversation(ConversationStore& store, Holder holder, std::string id)
      : store_(&store), holder_(std::move(holder)), conversation_{.id = std::move(id)} {}
  void release();

  ConversationStore* store_;  // nullptr after the end of the lock
  const Holder holder_;
  StoredConversation conversation_;
};

}  // namespace ibid::serve
