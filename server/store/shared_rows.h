// SharedRows: the entries of a ConversationStore on a key-value server that nodes share (net/shared_server.h): an entry
// that one node has stored is found by all, and an entry that one node removes is gone for all. Entries are sealed, and
// names are hidden, if there is a key file. server/store/shared_records.h lists the keys. No key expires: the budget
// evicts entries in the same order as SqliteRows.
//
// A change is an optimistic transaction (server/store/shared_change.h). It is made completely or not at all, and made
// again if another node was faster. Of two nodes that write the same entry at once, the last complete one stays, unless
// the change itself compares versions (LockedConversation::commit()).
//
// The server may be down at any time, also at the start. No call waits longer than its limit below; while the circuit
// breaker of the server is open, calls fail at once. The first failure, and the first success after it, are logged.
//
// If the key file has two keys, the entries stay under the names of the key under which they were begun, and get the
// seal of the first key when they are written. When that key is removed from the file, they cannot be found any more.
//
// Thread-safe. Errors: those of SharedSession (server/store/shared_change.h).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "net/shared_server.h"
#include "server/store/kept_rows.h"
#include "server/store/shared_change.h"

namespace ibid::serve {

class SharedRows final : public KeptRows {
 public:
  // Limits of calls, in nanoseconds: a change with all its attempts; a read; a read for a known history, for which a
  // prompt waits.
  static constexpr int64_t kChangeNs = 3'000'000'000, kReadNs = 1'000'000'000, kLookUpNs = 250'000'000;

  // Does not connect. remark: logs a line.
  SharedRows(std::shared_ptr<net::SharedServer> server, uint64_t budget_bytes,
             std::function<void(const std::string&)> remark);

  Status change(const std::function<Status(Change&)>& change) override;
  Result<std::vector<Row>> find(const Key& key) override;
  Status visit_responses(const std::string& space, const std::string& item_id,
                         const std::function<Result<bool>(const Row&)>& visit) override;
  Result<std::optional<FoundHistory>> find_history(const std::string& space, std::span<const uint64_t> hashes,
                                                   size_t n_known) override;
  Result<std::vector<std::pair<int64_t, int64_t>>> history_versions() override {
    return std::vector<std::pair<int64_t, int64_t>>();
  }
  Result<Sizes> sizes() override;
  Sizes known_sizes() override;  // as of this node's last change
  // Without a key file the number is no secret.
  uint64_t hash_seed() const override { return hash_seed_; }
  bool is_lasting() const override { return true; }

 private:
  TimeLimits limits(int64_t ns) const;
  // Returns the names that the entries have: those of the key under which there is a root.
  Result<SharedNames> names(SharedSession& session);
  Status change_within(const TimeLimits& limits, const std::function<Status(Change&)>& change);
  Result<std::vector<Row>> find_within(const TimeLimits& limits, const Key& key);
  Result<std::optional<FoundHistory>> find_in(SharedSession& session, const std::string& space,
                                              std::span<const uint64_t> hashes, size_t n_known);
  // Logs that the server has failed or is back, and returns the result.
  template <typename Outcome>
  Outcome noted(Outcome outcome);
  void note(const Status& status);
  void remember(const SharedRoot& root);

  const std::shared_ptr<net::SharedServer> server_;
  const uint64_t budget_bytes_;
  const std::function<void(const std::string&)> remark_;
  const uint64_t hash_seed_;
  std::mutex changing_;         // held during a change, so that changes of one node do not refuse each other
  std::atomic<int> which_{-1};  // number of the key under which the entries have their names; -1: not known yet
  std::atomic<bool> is_down_{false};
  std::mutex mutex_;  // guards the following member
  Sizes known_;
};

}  // namespace ibid::serve
