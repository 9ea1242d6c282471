// ConversationStore: what the server keeps for its clients, in one SQLite database: responses that a client may go on
// from by their id, conversations that are a resource of their own, and known histories (which ids the conversation of
// a client consists of that sends its whole history each time).
//
// With a directory it is the file kStoreFileName in it (0600, and so are SQLite's -wal and -shm beside it). The file
// survives the process, and several processes may use it at once: a change is one short transaction, and waits for
// those of others for Database::kBusyTimeout at most. Without a directory it is in memory and ends with the process. A
// change is there whole or not at all, whatever fails; a power loss may take the last ones.
//
// Nothing is found across namespaces; of a namespace, which may be an API key, only a digest is written. All together
// has at most budget_bytes. What has to go for that is the least recently used of the owner who has the most, within
// the API key that has the most (server/store/cache_namespace.h), so that nobody's entries push out another's.
// An entry carries a checksum: a damaged one is an error (kCorrupt) and never another text.
//
// Thread-safe: one connection and one lock, which a call holds as long as the disk takes. So no thread calls it that
// other clients' tokens wait for, as the one that computes and the one that hears answers do. Callers are the writing
// thread of Conversations (Backend::write_behind()), for requests about what is kept and, behind an answer, for what is
// kept of it; and a handler thread for a response that goes on from what is kept. The planning threads look for known
// histories: find_history() and read_history() have a connection of their own and wait for no write. stats(), and the
// end of a TakenConversation without a commit(), wait for no disk.
//
// Errors of all calls that return a Status or a Result, besides those that are named: kIo, kCorrupt, kOutOfMemory; they
// name the file and have SQLite's words, and nothing has changed.
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
  std::string previous_id = {};      // the response that it goes on from; empty: none
  Json in_front = Json::array();     // all items before its own; they are kept with it where previous_id is gone
  Json items = Json::array();        // its own: those of its input, then those of its output
  size_t n_output = 0;               // of them
  std::string conversation_id = {};  // whose items stand in front of it; empty: none
  std::string response = {};         // its object, as it was sent
};

struct StoredConversation {
  std::string id;
  int64_t created = 0;
  Json metadata = Json::object();
  Json items = Json::array();
};

// A known history: text says what it consists of; hashes has a hash of each of its beginnings, the shortest first, and
// it is found by those of at least `first` messages (0: by none).
struct StoredHistory {
  std::string name;
  int64_t numerics_version = 0;
  std::string text;
  std::vector<uint64_t> hashes = {};
  size_t first = 0;
};
struct FoundHistory {
  std::string name;
  size_t n = 0;  // messages that it has in common with what was looked for
};

struct HistoryStats {
  uint64_t n_kept = 0, n_bytes = 0;                     // now
  uint64_t n_written = 0, n_failed = 0, n_refused = 0;  // that were written, could not be, were not sound
};

class TakenConversation;

class ConversationStore {
 public:
  static constexpr uint64_t kDefaultBytes = 256u << 20;

  struct Options {
    std::string directory = {};  // this user's alone, made where it is not there; empty: in memory
    uint64_t budget_bytes = kDefaultBytes;
    std::function<void(const std::string&)> remark = {};  // a line for who reads the log
    const char* vfs = nullptr;   // of SQLite; tests have their own
  };
  // As open_store_file() (server/store/store_file.h), with its errors. A smaller budget than before holds at once.
  static Result<std::unique_ptr<ConversationStore>> open(Options options);
  // As open(); where that fails, says so in a remark, and returns a store in memory.
  static std::unique_ptr<ConversationStore> open_or_in_memory(Options options);

  bool is_on_disk() const { return !options_.directory.empty(); }
  uint64_t budget_bytes() const { return options_.budget_bytes; }

  // --- responses

  // Error: kLimitExceeded: there is no room for it. The other responses stay then.
  Status put_response(const std::string& cache_namespace, const StoredResponse& response);
  // in_front: those of all responses that it goes on from. Error: kNotFound.
  Result<StoredResponse> find_response(const std::string& cache_namespace, const std::string& id);
  // Of all responses, the item that has this id; null: there is none. Costs a search of all texts of the namespace.
  Result<Json> find_item(const std::string& cache_namespace, std::string_view item_id);
  // Those that go on from it keep its items. Error: kNotFound.
  Status remove_response(const std::string& cache_namespace, const std::string& id) {
    return remove_entry(Kept::kResponse, holder_of(cache_namespace).space, id);
  }

  // --- conversations. Errors: kNotFound; kLimitExceeded: there is no room, and it is as before.

  Status create_conversation(const std::string& cache_namespace, const StoredConversation& conversation);
  Result<StoredConversation> find_conversation(const std::string& cache_namespace, const std::string& id);
  Status set_metadata(const std::string& cache_namespace, const std::string& id, const Json& metadata);
  Status remove_conversation(const std::string& cache_namespace, const std::string& id) {
    return remove_entry(Kept::kConversation, holder_of(cache_namespace).space, id);
  }
  // Takes it for a change of its items. Error: kBusy while somebody else of this process has it. REQUIRES: the store
  // outlives what was taken.
  Result<std::unique_ptr<TakenConversation>> take_conversation(const std::string& cache_namespace,
                                                               const std::string& id);

  // --- known histories

  // What hashes of histories begin with: secret, so that nobody can make two meet, and the same for all processes.
  uint64_t hash_seed() const { return hash_seed_; }
  // Takes the place of the holder's history of the same name. Error: kLimitExceeded.
  Status put_history(const Holder& holder, const StoredHistory& history);
  // The one that shares most beginnings, more than n_known.
  Result<std::optional<FoundHistory>> find_history(const Holder& holder, std::span<const uint64_t> hashes,
                                                   size_t n_known);
  // Its text. It counts as no use: the next answer is put in its place. Error: kNotFound.
  Result<std::string> read_history(const Holder& holder, const std::string& name);
  // Removes one that is of no use, and counts it as refused.
  Status refuse_history(const Holder& holder, const std::string& name);
  void count_refused() { ++n_refused_; }  // one that never was in the store
  // The numerics versions that histories were kept with, and how many with each.
  Result<std::vector<std::pair<int64_t, int64_t>>> history_versions();

  Status forget(const std::string& cache_namespace);  // all of a namespace
  void say(const Status& error) const;  // in a remark: clients get fewer words
  Result<uint64_t> bytes();  // of all entries, as the budget counts them
  HistoryStats stats() const;

 private:
  friend class TakenConversation;
  ConversationStore(Options options, std::unique_ptr<Database> db);
  // With the lock: runs `change` as one transaction, which its error undoes.
  Status write(const std::function<Status()>& change);
  Result<std::vector<std::string>> items_before(const std::string& space, const KeptRows::Row& response);
  Result<StoredConversation> read_conversation(const std::string& space, const std::string& id, int64_t& version);
  Status commit_items(const std::string& space, const std::string& id, int64_t version, const Json& items);
  Status remove_entry(Kept kind, const std::string& space, const std::string& name);
  void release(const std::string& space, const std::string& id);
  // What histories are looked for in, and its lock.
  KeptRows& reading() { return reading_ != nullptr ? *reading_ : rows_; }
  std::mutex& reading_mutex() { return reading_ != nullptr ? reading_mutex_ : mutex_; }

  const Options options_;
  uint64_t hash_seed_ = 0;
  std::mutex mutex_;  // guards the rows
  KeptRows rows_;
  std::mutex reading_mutex_;  // guards what follows
  std::unique_ptr<KeptRows> reading_;  // a second connection to the file; nullptr: there is none
  std::mutex taken_mutex_;  // guards what follows
  std::set<std::pair<std::string, std::string>> taken_;  // space, id
  std::atomic<uint64_t> n_kept_{0}, n_bytes_{0}, n_written_{0}, n_failed_{0}, n_refused_{0};
};

// A conversation that nobody else of this process changes until this is committed or goes.
class TakenConversation {
 public:
  ~TakenConversation() { release(); }
  TakenConversation(const TakenConversation&) = delete;
  TakenConversation& operator=(const TakenConversation&) = delete;

  // As it was when it was taken.
  StoredConversation& conversation() { return conversation_; }
  // Ends it with these items. Ok where the conversation was removed meanwhile: then nothing is kept. Errors:
  // kLimitExceeded; kBusy: another process has changed it meanwhile. REQUIRES: is called once.
  Status commit(const Json& items);

 private:
  friend class ConversationStore;
  TakenConversation(ConversationStore& store, std::string space, std::string id)
      : store_(&store), space_(std::move(space)), id_(std::move(id)) {}
  void release();

  ConversationStore* store_;  // nullptr: it is over
  const std::string space_, id_;
  int64_t version_ = 0;
  StoredConversation conversation_;
};

}  // namespace ibid::serve
