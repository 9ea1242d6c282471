#include "runtime/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "runtime/out_of_heap.h"

namespace ibid {
namespace {

// A prompt that is alone is read in passes of up to a second: longer ones gain nothing, and this is how long
// somebody who comes meanwhile has to wait.
constexpr int64_t kAloneTargets = 25;
// Rows of prefill beside others while nothing is known of the model's speed.
constexpr size_t kFirstRows = 2 * kPrefillRows;
// Low priority waits for so long, then it counts as normal.
constexpr int64_t kPatienceNs = 1'000'000'000;
// A pass that reads a prompt waits for this part of the latency target for those who decode: who misses it waits for
// all of it. A pass of decoding waits for this part of a step: a step is what waiting can save.
constexpr int64_t kTargetParts = 8;
constexpr int64_t kStepParts = 2;
// While nothing is known of a step.
constexpr int64_t kFirstWaitNs = 200'000;
constexpr double kNewestAway = 0.25;

size_t n_logit_rows(WantLogits want, size_t n_rows) {
  switch (want) {
    case WantLogits::kNone: return 0;
    case WantLogits::kLast: return 1;
    case WantLogits::kAll: return n_rows;
  }
  return 0;
}

}  // namespace

struct Scheduler::Request {
  Stream* stream = nullptr;
  KvCacheEntry* entry = nullptr;
  TokenSpan tokens;
  WantLogits want = WantLogits::kNone;
  std::stop_token stop;
  Logits* logits = nullptr;

  int64_t since_ns = 0;
  size_t n_rows = 0;   // in the pass that took it
  bool taken = false;  // by a pass that is being run; the driver's until `done`
  bool done = false;
  Status status;

  SequenceChunk chunk() const {
    return {entry, tokens.first(n_rows), n_rows == tokens.size() ? want : WantLogits::kNone};
  }
};

Scheduler::Stream::Stream(Scheduler& scheduler, Priority priority) : scheduler_(scheduler), priority_(priority) {
  const std::lock_guard lock(scheduler_.mutex_);
  age_ = ++scheduler_.last_age_;
  scheduler_.streams_.push_back(this);
}

Scheduler::Stream::~Stream() {
  const std::lock_guard lock(scheduler_.mutex_);
  scheduler_.streams_.remove(this);
  scheduler_.moved_.notify_all();
}

Scheduler::Scheduler(LanguageModel& model, Clock& clock, const SchedulerOptions& options)
    : model_(model), clock_(clock), target_ns_(static_cast<int64_t>(options.latency_target_ms * 1e6)) {}

Scheduler::~Scheduler() { CHECK(streams_.empty()) << "streams outlive their scheduler"; }

SchedulerStats Scheduler::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

Result<size_t> Scheduler::Stream::forward(KvCacheEntry& entry, TokenSpan tokens, WantLogits want,
                                          std::stop_token stop, Logits& logits) {
  CHECK(!tokens.empty());
  Request request{.stream = this, .entry = &entry, .tokens = tokens, .want = want, .stop = std::move(stop),
                  .logits = &logits};
  try {
    return scheduler_.wait_for_result(request);
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
}

// May throw std::bad_alloc; the request then waits no more.
Result<size_t> Scheduler::wait_for_result(Request& request) {
  std::unique_lock lock(mutex_);
  arrive(request);
  while (!request.done) {
    const auto may_go_on = [&] { return request.done || (!request.taken && !driving_); };
    moved_.wait(lock, request.stop, may_go_on);
    if (request.done) break;
    if (request.taken) {  // its rows are being computed; the driver is about to say what became of them
      moved_.wait(lock, [&] { return request.done; });
    } else if (request.stop.stop_requested()) {
      waiting_.remove(&request);
      moved_.notify_all();
      return {ErrorCode::kCancelled, "cancelled while waiting for the model"};
    } else {
      drive(lock, request);
    }
  }
  if (!request.status.ok()) return std::move(request.status);
  return request.n_rows;
}

void Scheduler::arrive(Request& request) {
  request.since_ns = clock_.steady_ns();
  Stream& stream = *request.stream;
  if (stream.expected_) {
    // Capped: one time that a busy machine kept it away says little, many say that it is slow.
    const int64_t longest_ns = 2 * target_ns_ / kTargetParts;
    const auto away = static_cast<double>(std::min(request.since_ns - stream.left_ns_, longest_ns));
    stream.away_ns_ += (stream.away_ns_ == 0 ? 1.0 : kNewestAway) * (away - stream.away_ns_);
    stream.expected_ = false;
  }
  waiting_.push_back(&request);
  moved_.notify_all();
}

// One pass, with whoever waits.
void Scheduler::drive(std::unique_lock<std::mutex>& lock, Request& own) {
  driving_ = true;
  wait_for_expected(lock, own);
  if (!waiting_.empty() && !own.stop.stop_requested()) {
    const int64_t start_ns = clock_.steady_ns();
    std::vector<Request*> members;
    try {
      members = take_members(start_ns);
    } catch (const std::bad_alloc&) {
      // Nobody was taken: another of those that wait drives next.
      waiting_.remove(&own);
      driving_ = false;
      moved_.notify_all();
      throw;
    }
    lock.unlock();
    run_pass(members);
    lock.lock();
    const int64_t end_ns = clock_.steady_ns();
    size_t n_decode = 0, n_prefill = 0;
    for (Request* member : members) {
      (member->tokens.size() <= kDecodeRows ? n_decode : n_prefill) += member->n_rows;
      member->done = true;
      // From here on, not from when its thread wakes: who drives is awake, and would be off with the next pass.
      member->stream->expected_ = member->status.ok();
      member->stream->left_ns_ = end_ns;
    }
    cost_.record(n_decode, n_prefill, end_ns - start_ns);
    ++stats_.n_passes;
    stats_.n_shared_passes += members.size() > 1 ? 1 : 0;
    stats_.n_rows += n_decode + n_prefill;
    stats_.most_sequences = std::max(stats_.most_sequences, members.size());
  }
  driving_ = false;
  moved_.notify_all();
}

// When the last of those that are expected back counts as late; now_ns or before: nobody is.
int64_t Scheduler::expected_until(int64_t now_ns) const {
  const size_t max_rows = model_.max_chunk();
  const bool reads = std::any_of(waiting_.begin(), waiting_.end(), [&](const Request* request) {
    return !PassLimits{.max_rows = max_rows}.decodes(request->tokens.size());
  });
  const int64_t step_ns = cost_.step_ns() == 0 ? kStepParts * kFirstWaitNs : cost_.step_ns();
  const int64_t patience_ns = reads ? target_ns_ / kTargetParts : step_ns / kStepParts;
  int64_t until = now_ns;
  for (const Stream* stream : streams_) {
    // Nobody is waited for who usually stays away for longer.
    if (!stream->expected_ || stream->away_ns_ > static_cast<double>(patience_ns)) continue;
    until = std::max(until, stream->left_ns_ + patience_ns);
  }
  return until;
}

void Scheduler::wait_for_expected(std::unique_lock<std::mutex>& lock, const Request& own) {
  for (;;) {
    const int64_t now_ns = clock_.steady_ns();
    const int64_t until_ns = expected_until(now_ns);
    if (until_ns <= now_ns) return;
    const bool all_here = moved_.wait_for(lock, own.stop, std::chrono::nanoseconds(until_ns - now_ns),
                                          [&] { return expected_until(now_ns) <= now_ns; });
    if (all_here || own.stop.stop_requested()) return;
    // Late, on a clock that may stand still: not expected any more.
    for (Stream* stream : streams_) stream->expected_ = false;
  }
}

// Takes out of the queue what the next pass runs. std::bad_alloc: takes nothing.
std::vector<Scheduler::Request*> Scheduler::take_members(int64_t now_ns) {
  std::vector<Request*> all(waiting_.begin(), waiting_.end());
  PassLimits limits{.max_rows = model_.max_chunk()};
  std::vector<PassRequest> wishes;
  size_t n_decode_rows = 0;
  for (const Request* request : all) {
    Priority priority = request->stream->priority_;
    if (priority == Priority::kLow && now_ns - request->since_ns > kPatienceNs) priority = Priority::kNormal;
    wishes.push_back({request->tokens.size(), priority, request->stream->age_});
    if (limits.decodes(wishes.back().n_rows)) n_decode_rows += wishes.back().n_rows;
  }
  limits.prefill_rows = prefill_rows_allowed(n_decode_rows);
  const std::vector<size_t> rows = plan_pass(wishes, limits);
  std::vector<Request*> members;
  members.reserve(all.size());  // nothing below fails
  for (size_t i = 0; i < all.size(); ++i) {
    if (rows[i] == 0) continue;
    all[i]->n_rows = rows[i];
    all[i]->taken = true;
    waiting_.remove(all[i]);
    members.push_back(all[i]);
  }
  return members;
}

size_t Scheduler::prefill_rows_allowed(size_t n_decode_rows) const {
  const bool alone = streams_.size() == 1 && streams_.front()->priority_ != Priority::kLow;
  const size_t rows = cost_.prefill_rows(n_decode_rows, alone ? kAloneTargets * target_ns_ : target_ns_);
  return rows == SIZE_MAX && !alone ? kFirstRows : rows;
}

// Without the lock: the members are the driver's.
void Scheduler::run_pass(std::span<Request* const> members) noexcept {
  if (members.size() == 1) {
    run_alone(*members.front());
  } else {
    run_shared(members);
  }
}

void Scheduler::run_alone(Request& request) noexcept {
  const SequenceChunk chunk = request.chunk();
  // A first part of a prompt wants no logits: those of the caller stay as they are.
  Logits& logits = chunk.want == WantLogits::kNone ? shared_logits_ : *request.logits;
  try {
    request.status = model_.forward({&chunk, 1}, request.stop, logits);
  } catch (const std::bad_alloc&) {
    request.status = out_of_heap();
  }
}

void Scheduler::run_shared(std::span<Request* const> members) noexcept {
  Status status;
  try {
    std::vector<SequenceChunk> batch;
    for (const Request* member : members) batch.push_back(member->chunk());
    status = model_.forward(batch, {}, shared_logits_);
  } catch (const std::bad_alloc&) {
    status = out_of_heap();
  }
  if (!status.ok()) {
    // One of them is the reason: alone, each gets its own answer.
    for (Request* member : members) run_alone(*member);
    return;
  }
  hand_out(members);
}

// Gives each its rows of the logits. Who has no memory for them has not been fed.
void Scheduler::hand_out(std::span<Request* const> members) noexcept {
  size_t row = 0;
  for (Request* member : members) {
    const SequenceChunk chunk = member->chunk();
    const size_t n = n_logit_rows(chunk.want, chunk.tokens.size());
    try {
      if (n > 0) member->logits->copy_rows(shared_logits_, row, n);
    } catch (const std::bad_alloc&) {
      member->status = out_of_heap();
      member->entry->slice_to_length(member->entry->length() - chunk.tokens.size());
    }
    row += n;
  }
}

}  // namespace ibid
