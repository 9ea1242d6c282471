// ConversationStore: everything that the server stores for its clients:
// - responses, which a client continues by their id;
// - conversations, a resource of the API;
// - known histories: the tokens of the conversation of a client that sends its whole history each time.
//
// The entries are in an SQLite database, or on a key-value server that nodes share (server/store/kept_rows.h). The
// promises below hold for both. Each entry has a checksum or a seal, so reading a damaged entry returns an error
// (kCorrupt).
//
// Namespaces: an entry is found only in its own namespace. A namespace may be an API key, so only a digest of it is
// written.
//
// Eviction: all entries together have at most budget_bytes. The API key with the most bytes loses an entry: of its
// owners (server/store/cache_namespace.h) the one with the most bytes, and of that owner the least recently used entry.
// So a client cannot evict entries of others. Reading an entry counts as a use, which is written with the next change.
//
// Threads: thread-safe. A change waits for the disk or the server. So changes are made on the writing thread of
// Conversations (Backend::write_behind()), for which no token and no other request waits. Two rare changes are made on
// a planning thread: importing an earlier version's files, and removing an invalid known history. Reading waits for no
// change, so handler threads and planning threads may read.
//
// Errors of all calls that return a Status or a Result, besides those listed: kIo, kCorrupt, kOutOfMemory, with the
// name of the file or the server, and its message. Nothing has changed then, with one exception: if the connection to a
// server ended during a change, the change was made completely or not at all.
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
#include "net/shared_server.h"
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
    // Not null: the store is on this server, which may be unreachable now. Else it is an SQLite database.
    std::shared_ptr<net::SharedServer> server = {};
    std::string directory = {};  // a directory, created if missing, only for this user; empty: the store is in memory
    uint64_t budget_bytes = kDefaultBytes;
    std::function<void(const std::string&)> remark = {};  // logs a line
    const char* vfs = nullptr;                            // name of SQLite's VFS; tests use their own
  };
  // Opens the store. A budget that is smaller than before applies at once, on a server with the next change. Errors:
  // those of SqliteRows::open() (server/store/sqlite_rows.h).
  static Result<std::unique_ptr<ConversationStore>> open(Options options);
  // Opens the store. If open() fails, logs the error and opens a store in memory.
  static std::unique_ptr<ConversationStore> open_or_in_memory(Options options);
  ~ConversationStore();

  bool is_lasting() const { return rows_->is_lasting(); }       // the entries outlive the process
  bool is_local() const { return options_.server == nullptr; }  // the entries are in the process or on its disk
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
  uint64_t hash_seed() const { return rows_->hash_seed(); }
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
  // As KeptRows::history_versions().
  Result<std::vector<std::pair<int64_t, int64_t>>> history_versions() { return rows_->history_versions(); }

  Status forget(const std::string& cache_namespace);  // removes all entries of a namespace
  void say(const Status& error) const;                // logs an error; clients get a shorter message
  Result<uint64_t> bytes();                           // size of all entries, as the budget counts it
  HistoryStats stats();                               // never waits for a server; n_kept and n_bytes are 0 if unknown

 private:
  friend class LockedConversation;
  using Rows = std::vector<KeptRows::Row>;

  explicit ConversationStore(Options options) : options_(std::move(options)) {}
  // Runs `change` as one transaction, which is rolled back if it returns an error.
  Status write(const std::function<Status(KeptRows::Change&)>& change);
  void count_use(KeptRows::Key key);

  const Options options_;
  std::unique_ptr<KeptRows> rows_;
  std::mutex mutex_;                 // guards the following members; no other lock is taken while it is held
  std::vector<KeptRows::Key> used_;  // entries read since the last change, the most recently read last
  std::set<std::pair<std::string, std::string>> taken_;  // locked conversations, as pairs of namespace and id
  std::atomic<uint64_t> n_written_{0}, n_failed_{0}, n_refused_{0};
};

// A locked conversation: until this object is committed or destroyed, only it can change the conversation in this
// process. Of two processes or nodes that change one conversation at once, the first to commit succeeds, and the other
// gets an error; the items of two turns are never mixed.
class LockedConversation {
 public:
  ~LockedConversation() { release(); }
  LockedConversation(const LockedConversation&) = delete;
  LockedConversation& operator=(const LockedConversation&) = delete;

  // Returns the conversation as it was when it was locked.
  StoredConversation& conversation() { return conversation_; }
  // Replaces the items and ends the lock. Ok if the conversation was removed meanwhile: then nothing is stored. Errors:
  // kLimitExceeded; kBusy: another process or node has changed it meanwhile. REQUIRES: called once.
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
