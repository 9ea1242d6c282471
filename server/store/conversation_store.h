// ConversationStore: one SQLite database of everything that the server stores for its clients: responses, which a
// client continues by their id; conversations as a resource of the API; and known histories (the tokens of the
// conversation of a client that sends its whole history each time).
//
// With a directory, the database is the file kStoreFileName in it (mode 0600, as SQLite's -wal and -shm beside it). It
// survives the process, and several processes may use it at once: each change is one short transaction, which waits for
// those of others for at most Database::kBusyTimeout. Without a directory it is in memory and ends with the process.
// Changes are atomic, whatever fails; a power loss may undo the most recent ones.
//
// Nothing is found across namespaces; of a namespace, which may be an API key, only a digest is written. All entries
// together have at most budget_bytes. Eviction: the least recently used entry of the owner with the most bytes, within
// the API key with the most bytes (server/store/cache_namespace.h), so that clients cannot evict each other's. Each
// entry has a checksum: a damaged one is an error (kCorrupt) and never another text.
//
// Thread-safe. A change holds the lock of the writing connection while it waits for the disk. Changes are made on the
// writing thread of Conversations (Backend::write_behind()), for which no token and no other request waits; in two rare
// cases on a planning thread: import of an earlier version's files, removal of an invalid known history. Reads use a
// second connection and wait for no change: handler threads and planning threads make them. A read is of a few rows and
// takes less than a millisecond; more only if another process was killed and the log is being repaired. find_item() has
// its own connection: it searches all texts of a namespace. Reads mark entries as used, with the next change.
//
// Further errors of all calls that return a Status or a Result: kIo, kCorrupt, kOutOfMemory, with the file's name and
// SQLite's message; nothing has changed then.
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
  std::string previous_id = {};      // the response that it continues; empty: none
  Json in_front = Json::array();     // all items before its own; stored with it if previous_id is gone
  Json items = Json::array();        // its own: first its input, then its output
  size_t n_output = 0;               // the number of output items, the last of `items`
  std::string conversation_id = {};  // the conversation that precedes its items; empty: none
  std::string response = {};         // the response object as it was sent
};

struct StoredConversation {
  std::string id;
  int64_t created = 0;
  int64_t version = 0;  // number of changes of its items; set by the store
  Json metadata = Json::object();
  Json items = Json::array();
};

// A known history as text. hashes: one for each of its prefixes, the shortest first; it is found by prefixes of at
// least `first` messages (0: it is not found).
struct StoredHistory {
  std::string name;
  int64_t numerics_version = 0;
  std::string text;
  std::vector<uint64_t> hashes = {};
  size_t first = 0;
};
struct FoundHistory {
  std::string name;
  size_t n = 0;  // number of messages that it shares with the wanted history
};

struct HistoryStats {
  uint64_t n_kept = 0, n_bytes = 0;                     // now
  uint64_t n_written = 0, n_failed = 0, n_refused = 0;  // written; failed to write; invalid
};

class TakenConversation;

class ConversationStore {
 public:
  static constexpr uint64_t kDefaultBytes = 256u << 20;

  struct Options {
    std::string directory = {};  // accessible to this user only; created if missing; empty: in memory
    uint64_t budget_bytes = kDefaultBytes;
    std::function<void(const std::string&)> remark = {};  // logs a line
    const char* vfs = nullptr;                            // SQLite's VFS; tests have their own
  };
  // Errors: those of open_store_file() (server/store/store_file.h). A reduced budget applies at once.
  static Result<std::unique_ptr<ConversationStore>> open(Options options);
  // As open(). If that fails, logs the error and opens a store in memory.
  static std::unique_ptr<ConversationStore> open_or_in_memory(Options options);
  ~ConversationStore();

  bool is_on_disk() const { return !options_.directory.empty(); }
  uint64_t budget_bytes() const { return options_.budget_bytes; }

  // --- responses

  // Error: kLimitExceeded: it does not fit. The other responses stay then.
  Status put_response(const std::string& cache_namespace, const StoredResponse& response);
  // in_front: the items of all responses that it continues. Error: kNotFound.
  Result<StoredResponse> find_response(const std::string& cache_namespace, const std::string& id);
  // The item with this id, of any response; null: none.
  Result<Json> find_item(const std::string& cache_namespace, const std::string& item_id);
  // Responses that continue it keep its items. Error: kNotFound.
  Status remove_response(const std::string& cache_namespace, const std::string& id);

  // --- conversations. Errors: kNotFound; kLimitExceeded: it does not fit, and is as before.

  Status create_conversation(const std::string& cache_namespace, const StoredConversation& conversation);
  Result<StoredConversation> find_conversation(const std::string& cache_namespace, const std::string& id);
  Status set_metadata(const std::string& cache_namespace, const std::string& id, const Json& metadata);
  Status remove_conversation(const std::string& cache_namespace, const std::string& id);
  // Locks it for a change of its items. Error: kBusy: it is locked in this process. REQUIRES: the store outlives the
  // result.
  Result<std::unique_ptr<TakenConversation>> take_conversation(const std::string& cache_namespace,
                                                               const std::string& id);

  // --- known histories

  // The start of the hash chain of histories: secret, so that clients cannot construct collisions; equal in all
  // processes.
  uint64_t hash_seed() const { return hash_seed_; }
  // Replaces the holder's history of the same name. Error: kLimitExceeded.
  Status put_history(const Holder& holder, const StoredHistory& history);
  // The history that shares the longest prefix, of more than n_known messages.
  Result<std::optional<FoundHistory>> find_history(const Holder& holder, std::span<const uint64_t> hashes,
                                                   size_t n_known);
  // Its text. Does not mark it as used: the next answer replaces it. Error: kNotFound.
  Result<std::string> read_history(const Holder& holder, const std::string& name);
  // Removes an invalid history, and counts it as refused.
  Status refuse_history(const Holder& holder, const std::string& name);
  void count_refused() { ++n_refused_; }  // an invalid one that was never in the store
  // The numerics versions of the stored histories, and the number of histories with each.
  Result<std::vector<std::pair<int64_t, int64_t>>> history_versions();

  Status forget(const std::string& cache_namespace);  // removes all entries of a namespace
  void say(const Status& error) const;                // logs an error; clients get a shorter message
  Result<uint64_t> bytes();                           // of all entries, as the budget counts them
  HistoryStats stats();                               // n_kept and n_bytes are 0 if they cannot be read

 private:
  friend class TakenConversation;
  struct Connection {
    std::mutex mutex;  // guards the rows
    std::unique_ptr<KeptRows> rows;
  };
  using Rows = std::vector<KeptRows::Row>;

  explicit ConversationStore(Options options) : options_(std::move(options)) {}
  // In memory there is only one connection.
  Connection& reader() { return reader_.rows != nullptr ? reader_ : writer_; }
  Result<std::unique_ptr<KeptRows>> connect_to_read() const;
  // Runs `change` as one transaction, which is rolled back if it returns an error.
  Status write(const std::function<Status(KeptRows&)>& change);
  Status remove(Kept kind, const std::string& space, const std::string& name);
  Result<Rows> find(Kept kind, const std::string& space, const std::string& name);
  void count_use(int64_t id);

  const Options options_;
  uint64_t hash_seed_ = 0;
  Connection writer_, reader_;  // reader_ has no rows if the store is in memory
  std::mutex mutex_;            // guards what follows; held without other locks
  std::vector<int64_t> used_;   // rows that were read since the last change, the most recent last
  std::set<std::pair<std::string, std::string>> taken_;  // locked conversations: namespace, id
  std::atomic<uint64_t> n_written_{0}, n_failed_{0}, n_refused_{0};
};

// A conversation that nothing else in this process changes until this object is committed or destroyed.
class TakenConversation {
 public:
  ~TakenConversation() { release(); }
  TakenConversation(const TakenConversation&) = delete;
  TakenConversation& operator=(const TakenConversation&) = delete;

  // Its state when it was locked.
  StoredConversation& conversation() { return conversation_; }
  // Replaces its items and ends the lock. Ok if the conversation was removed meanwhile: then nothing is stored. Errors:
  // kLimitExceeded; kBusy: another process changed it meanwhile. REQUIRES: called once.
  Status commit(const Json& items);

 private:
  friend class ConversationStore;
  TakenConversation(ConversationStore& store, Holder holder, std::string id)
      : store_(&store), holder_(std::move(holder)), conversation_{.id = std::move(id)} {}
  void release();

  ConversationStore* store_;  // nullptr: the lock has ended
  const Holder holder_;
  StoredConversation conversation_;
};

}  // namespace ibid::serve
