#include "cache/tier/resp_store.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <utility>

#include "base/check.h"

namespace ibid {

using net::ConnectionPool;
using net::RespClient;
using net::RespRequest;
using net::RespValue;

namespace {

// An epoch is the time at which it was drawn, so one far in the future is not sound: no larger one could follow.
constexpr int64_t kClocksDifferByNs = int64_t{24} * 3600 * 1'000'000'000;

// The error as RecordStore defines it. is_over: the caller's time is over.
Status store_error(const Status& status, bool is_over) {
  switch (status.code()) {
    case ErrorCode::kOk:
    case ErrorCode::kOutOfMemory: return status;
    case ErrorCode::kCancelled: return {ErrorCode::kDeadline, status.message()};
    case ErrorCode::kDeadline: return {is_over ? ErrorCode::kDeadline : ErrorCode::kIo, status.message()};
    default: return {ErrorCode::kIo, status.message()};
  }
}

// The error of answers as RecordStore defines it; ok if a key has a value of another type.
Status answer_error(std::span<const RespValue> answers) {
  Status status = net::status_of(answers);
  if (status.code() == ErrorCode::kBadType) return {};
  if (status.ok() || status.code() == ErrorCode::kLimitExceeded) return status;
  return {ErrorCode::kIo, status.message()};
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::string RespStore::record_key(const PageName& name, size_t which) const {
  return server_->key("r4", name.bytes, which);
}
std::string RespStore::tails_key(const PageName& name, size_t which) const {
  return server_->key("t4", name.bytes, which);
}
std::string RespStore::epoch_key(const Sha256Digest& name_space, size_t which) const {
  return server_->key("e", name_space, which);
}

TimeLimits RespStore::limits_of(const ReadTimer& timer) const {
  return TimeLimits{.stop = timer.stop()}.within(std::min<int64_t>(timer.left().count(), kAnswerNs), clock());
}

TimeLimits RespStore::limits_of_change() const { return TimeLimits{}.within(kChangeNs, clock()); }

Result<std::vector<RespValue>> RespStore::call(const RespRequest& request, ReadTimer& timer) {
  Result<std::vector<RespValue>> answers = server_->call(request, limits_of(timer));
  if (!answers.ok()) return store_error(answers.status(), timer.is_over());
  TRY(answer_error(*answers));
  return answers;
}

Status RespStore::change(const RespRequest& request) {
  const Result<std::vector<RespValue>> answers = server_->call(request, limits_of_change());
  if (!answers.ok()) return store_error(answers.status(), false);
  return answer_error(*answers);
}

// --- Records

// While one key of the key file replaces another, records may be stored under either: a pass under one key ends at the
// first record that is missing there, and the next pass continues under the other key.
Status RespStore::get(std::span<const PageName> names, ReadTimer& timer, const Take& take) {
  const size_t n_room = max_record_bytes_ + server_->overhead_bytes();
  const auto room = std::make_unique_for_overwrite<std::byte[]>(n_room);
  size_t n_done = 0, n_misses = 0;
  for (size_t which = 0; n_done < names.size() && n_misses < server_->n_keys();
       which = (which + 1) % server_->n_keys()) {
    Run run{names.subspan(n_done), which};
    TRY(get_run(run, timer, {room.get(), n_room},
                [&](std::span<const std::byte> record) { return take(n_done + run.n_taken, record); }));
    if (run.has_ended) return {};
    n_done += run.n_taken;
    n_misses = run.n_taken > 0 ? 1 : n_misses + 1;
  }
  return {};
}

Status RespStore::get_run(Run& run, ReadTimer& timer, std::span<std::byte> room, const TakeRun& take) {
  ConnectionPool& connections = server_->connections();
  Result<ConnectionPool::Lease> lease = connections.take(limits_of(timer));
  if (!lease.ok()) return store_error(lease.status(), timer.is_over());
  return receive_run(**lease, run, timer, room, take);
}

// After a missing record the remaining answers are received and ignored, so that the connection can be used again.
Status RespStore::receive_run(RespClient& client, Run& run, ReadTimer& timer, std::span<std::byte> room,
                              const TakeRun& take) {
  size_t n_sent = 0;
  bool is_missing = false;
  for (size_t n_answered = 0; n_answered < (is_missing ? n_sent : run.names.size()); ++n_answered) {
    const int64_t begin_ns = clock().steady_ns();
    const TimeLimits limits = limits_of(timer);
    RespRequest request;
    for (; !is_missing && n_sent < std::min(run.names.size(), n_answered + kWindow); ++n_sent) {
      const std::string key = record_key(run.names[n_sent], run.which_key);
      request.command(4).word("GETEX").word(key).word("EX").word(kRecordSeconds);
    }
    Status status = request.n_commands() > 0 ? client.send(request, limits) : Status();
    std::optional<RespValue> answer;
    if (status.ok()) {
      Result<RespValue> received = client.receive(limits, room);
      status = received.ok() ? net::status_of(*received) : received.status();
      if (received.ok()) answer = *std::move(received);
    }
    server_->report(status, begin_ns);
    if (!answer) return store_error(status, timer.is_over());
    TRY(answer_error({&*answer, 1}));
    is_missing = is_missing || answer->kind != RespValue::Kind::kInRoom;
    if (is_missing) continue;
    // A value that is not sound is an empty record, which its reader refuses and removes.
    const Result<std::span<std::byte>> record =
        server_->opened(record_key(run.names[n_answered], run.which_key), room.first(answer->n_bytes));
    run.has_ended = !take(record.ok() ? std::span<const std::byte>(*record) : std::span<const std::byte>());
    if (run.has_ended) return {};
    ++run.n_taken;
  }
  return {};
}

Status RespStore::put(const PageName& name, Pieces pieces, bool replaces) {
  const std::string key = record_key(name, 0);
  std::vector<std::byte> sealed;
  TRY_ASSIGN(const auto stored, server_->to_store(key, pieces, sealed));
  RespRequest request;
  request.command(replaces ? 5 : 6).word("SET").word(key).value(stored).word("EX").word(kRecordSeconds);
  if (!replaces) request.word("NX");
  return change(request);
}

Status RespStore::remove(const PageName& name, ReadTimer& timer) {
  RespRequest request;
  request.command(1 + server_->n_keys()).word("DEL");
  for (size_t which = 0; which < server_->n_keys(); ++which) request.word(record_key(name, which));
  return call(request, timer).status();
}

// --- Tails

Result<std::vector<std::vector<std::byte>>> RespStore::tails(const PageName& name, ReadTimer& timer) {
  RespRequest request;
  for (size_t which = 0; which < server_->n_keys(); ++which) {
    const std::string key = tails_key(name, which);
    request.command(4).word("LRANGE").word(key).word(int64_t{0}).word(static_cast<int64_t>(kMostTails) - 1);
    request.command(3).word("EXPIRE").word(key).word(kRecordSeconds);
  }
  TRY_ASSIGN(std::vector<RespValue> answers, call(request, timer));
  std::vector<std::vector<std::byte>> tails;
  for (size_t which = 0; which < server_->n_keys(); ++which) {
    for (const RespValue& element : answers[2 * which].elements) {
      if (tails.size() == kMostTails) break;
      std::vector<std::byte> stored = bytes_of(element.text);
      const auto tail = server_->opened(tails_key(name, which), stored);
      if (tail.ok()) tails.emplace_back(tail->begin(), tail->end());
    }
  }
  return tails;
}

Status RespStore::add_tail(const PageName& name, std::span<const std::byte> tail) {
  const std::string key = tails_key(name, 0);
  std::vector<std::byte> sealed;
  TRY_ASSIGN(const auto stored, server_->to_store(key, std::span(&tail, 1), sealed));
  RespRequest request;
  request.command(1).word("MULTI");
  request.command(3).word("LPUSH").word(key).value(stored);
  request.command(4).word("LTRIM").word(key).word(int64_t{0}).word(static_cast<int64_t>(kMostTails) - 1);
  request.command(3).word("EXPIRE").word(key).word(kRecordSeconds);
  request.command(1).word("EXEC");
  return change(request);
}

// --- Epochs

uint64_t RespStore::epoch_in(const std::string& key, const RespValue& answer) const {
  std::vector<std::byte> stored = bytes_of(answer.kind == RespValue::Kind::kBytes ? answer.text : std::string());
  const Result<std::span<std::byte>> digits = server_->opened(key, stored);
  if (!digits.ok()) return 0;
  uint64_t epoch = 0;
  const char* const begin = reinterpret_cast<const char*>(digits->data());
  const auto [end, error] = std::from_chars(begin, begin + digits->size(), epoch);
  const bool is_number = error == std::errc() && end == begin + digits->size();
  return is_number && epoch <= static_cast<uint64_t>(clock().unix_ns() + kClocksDifferByNs) ? epoch : 0;
}

Result<uint64_t> RespStore::epoch(const Sha256Digest& name_space, ReadTimer& timer) {
  RespRequest request;
  for (size_t which = 0; which < server_->n_keys(); ++which) {
    request.command(4).word("GETEX").word(epoch_key(name_space, which)).word("EX").word(kEpochSeconds);
  }
  TRY_ASSIGN(const std::vector<RespValue> answers, call(request, timer));
  uint64_t epoch = 0;
  for (size_t which = 0; which < answers.size(); ++which) {
    epoch = std::max(epoch, epoch_in(epoch_key(name_space, which), answers[which]));
  }
  return epoch;
}

Status RespStore::raise_epoch(const Sha256Digest& name_space, uint64_t epoch) {
  constexpr int kMaxTries = 8;  // another one is needed whenever another node has changed the epoch meanwhile
  const std::string key = epoch_key(name_space, 0);
  for (int i = 0; i < kMaxTries; ++i) {
    Result<ConnectionPool::Lease> lease = server_->connections().take(limits_of_change());
    if (!lease.ok()) return store_error(lease.status(), false);
    const int64_t begin_ns = clock().steady_ns();
    bool is_raised = false;
    const Status status = raise_epoch(**lease, key, epoch, is_raised);
    server_->report(status, begin_ns);
    if (!status.ok()) {
      return status.code() == ErrorCode::kLimitExceeded ? status : store_error(status, false);
    }
    if (is_raised) return {};
  }
  return {ErrorCode::kIo, "the epoch of the namespace changes all the time"};
}

// is_raised: set unless another node changed the epoch meanwhile.
Status RespStore::raise_epoch(RespClient& client, const std::string& key, uint64_t epoch, bool& is_raised) {
  const TimeLimits limits = limits_of_change();
  const std::string digits = std::to_string(epoch);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(digits))};
  std::vector<std::byte> sealed;
  TRY_ASSIGN(const auto stored, server_->to_store(key, pieces, sealed));
  RespRequest look;
  look.command(2).word("WATCH").word(key);
  look.command(2).word("GET").word(key);
  TRY_ASSIGN(const std::vector<RespValue> found, client.call_all(look, limits));
  TRY(net::status_of(found[0]));
  is_raised = epoch_in(key, found[1]) >= epoch;
  if (is_raised) return client.call(net::resp_command({"UNWATCH"}), limits).status();
  RespRequest change;
  change.command(1).word("MULTI");
  change.command(5).word("SET").word(key).value(stored).word("EX").word(kEpochSeconds);
  change.command(1).word("EXEC");
  TRY_ASSIGN(const std::vector<RespValue> answers, client.call_all(change, limits));
  TRY(net::status_of(answers));
  is_raised = answers.back().kind == RespValue::Kind::kList;
  return {};
}

}  // namespace ibid
