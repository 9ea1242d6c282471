// RespStore: a RecordStore on a server that nodes share and that speaks RESP (Redis, Valkey).
//
// What it keeps there, under names that the server learns only without a key (SharedServer::key()):
//   ibid:r4:NAME    a record, format 4
//   ibid:t4:NAME    the tails of a text, a list with the newest first
//   ibid:e:NAME     the epoch of a namespace in decimal digits
// With a key all values are sealed. All have a time to live, which reads renew. A look-up reads an epoch before any
// record, and epochs live longer, so an epoch is not lost before its records unless the server evicts it.
//
// Commands: GETEX, SET, DEL, LPUSH, LTRIM, LRANGE, EXPIRE, GET, WATCH, UNWATCH, MULTI, EXEC; no scripts.
//
// Thread-safe. Calls hold a connection of the server's pool, and report to its circuit breaker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time_limits.h"
#include "cache/tier/record_store.h"
#include "net/shared_server.h"

namespace ibid {

class RespStore : public RecordStore {
 public:
  static constexpr int64_t kRecordSeconds = int64_t{24} * 3600, kEpochSeconds = 30 * kRecordSeconds;
  // A server that needs longer for an answer is not waited for: a record would be computed again in that time.
  static constexpr int64_t kAnswerNs = 500'000'000;
  // Limit of the calls without a timer, which change the store.
  static constexpr int64_t kChangeNs = 1'000'000'000;
  static constexpr size_t kWindow = 8;  // records that are asked for before the first of them has come

  // max_record_bytes: of records that are read; larger ones end a look-up.
  RespStore(std::shared_ptr<net::SharedServer> server, size_t max_record_bytes)
      : server_(std::move(server)), max_record_bytes_(max_record_bytes) {}

  Status get(std::span<const PageName> names, ReadTimer& timer, const Take& take) override;
  Status put(const PageName& name, Pieces pieces, bool replaces) override;
  Status remove(const PageName& name, ReadTimer& timer) override;
  Result<std::vector<std::vector<std::byte>>> tails(const PageName& name, ReadTimer& timer) override;
  Status add_tail(const PageName& name, std::span<const std::byte> tail) override;
  Result<uint64_t> epoch(const Sha256Digest& name_space, ReadTimer& timer) override;
  Status raise_epoch(const Sha256Digest& name_space, uint64_t epoch) override;

 private:
  // One pass over consecutive records under one key of the key file.
  struct Run {
    std::span<const PageName> names;
    size_t which_key;
    size_t n_taken = 0;
    bool has_ended = false;  // no further record is wanted
  };
  using TakeRun = std::function<bool(std::span<const std::byte> record)>;

  Status get_run(Run& run, ReadTimer& timer, std::span<std::byte> room, const TakeRun& take);
  Status receive_run(net::RespClient& client, Run& run, ReadTimer& timer, std::span<std::byte> room,
                     const TakeRun& take);
  // The time to wait for the next answer.
  TimeLimits limits_of(const ReadTimer& timer) const;
  TimeLimits limits_of_change() const;
  // Calls the server. Errors: as of RecordStore, also for an error that the server reports, unless a key has a value of
  // another type.
  Result<std::vector<net::RespValue>> call(const net::RespRequest& request, ReadTimer& timer);
  Status change(const net::RespRequest& request);
  Status raise_epoch(net::RespClient& client, const std::string& key, uint64_t epoch, bool& is_raised);
  // The epoch that is stored under `key`; 0 for an answer without a sound one.
  uint64_t epoch_in(const std::string& key, const net::RespValue& answer) const;

  std::string record_key(const PageName& name, size_t which) const;
  std::string tails_key(const PageName& name, size_t which) const;
  std::string epoch_key(const Sha256Digest& name_space, size_t which) const;
  Clock& clock() const { return server_->connections().clock(); }

  const std::shared_ptr<net::SharedServer> server_;
  const size_t max_record_bytes_;
};

}  // namespace ibid
