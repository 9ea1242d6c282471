#include "runtime/scheduler/scheduler.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "base/thread_error.h"

namespace ibid {
namespace {

// Without other tasks a prompt is prefilled in passes of up to 25 times the latency target, which is one second by
// default. Longer passes are not faster, and a task that arrives meanwhile waits that long.
constexpr int64_t kAloneTargets = 25;
// Number of prefill rows of a pass with other tasks, until the model's speed is measured.
constexpr size_t kFirstRows = 2 * kPrefillRows;
// Low priority counts as normal after waiting this long.
constexpr int64_t kPatienceNs = 1'000'000'000;

size_t n_logit_rows(const SequenceChunk& chunk) {
  if (chunk.hidden != nullptr) return 0;
  switch (chunk.want) {
    case WantLogits::kNone: return 0;
    case WantLogits::kLast: return 1;
    case WantLogits::kAll: return chunk.tokens.size();
  }
  return 0;
}

// Returns the first n_rows of a chunk. A part without the last row needs no logits, unless the logits of all rows are
// wanted.
SequenceChunk first_part(const SequenceChunk& requested, size_t n_rows) {
  SequenceChunk part = requested;
  part.tokens = requested.tokens.first(n_rows);
  if (n_rows < requested.tokens.size() && requested.want != WantLogits::kAll) part.want = WantLogits::kNone;
  return part;
}

}  // namespace

Scheduler::Scheduler(LanguageModel& model, Clock& clock, const SchedulerOptions& options)
    : model_(model),
      clock_(clock),
      target_ns_(static_cast<int64_t>(options.latency_target_ms * 1e6)),
      process_(getpid()) {}

Result<std::unique_ptr<Scheduler>> Scheduler::create(LanguageModel& model, Clock& clock,
                                                     const SchedulerOptions& options) try {
  std::unique_ptr<Scheduler> scheduler(new Scheduler(model, clock, options));
  scheduler->thread_ = std::make_unique<std::thread>([s = scheduler.get()] { s->compute(); });
  return scheduler;
} catch (const std::system_error& error) {
  return no_thread("the compute thread", error.code());
}

Scheduler::~Scheduler() {
  if (thread_ == nullptr) return;
  if (!check_process().ok()) {
    (void)thread_.release();  // a child of fork() does not have the thread: leak its handle
    return;
  }
  CHECK(thread_->get_id() != std::this_thread::get_id()) << "the compute thread cannot end itself";
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.ring();
  thread_->join();
}

Status Scheduler::check_process() const {
  if (getpid() == process_) return {};
  return {ErrorCode::kUnsupported,
          "this process was forked after the model was loaded and has no compute thread: load the model after fork()"};
}

SchedulerStats Scheduler::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

Status Scheduler::submit(Task& task) {
  TRY(check_process());
  task.since_ns_ = clock_.steady_ns();
  {
    const std::lock_guard lock(mutex_);
    arrived_.push_back(&task);
    task.age_ = ++last_age_;
  }
  work_.ring();
  return {};
}

// --- the compute thread

void Scheduler::compute() noexcept {
  for (;;) {
    if (!take_arrivals()) return;
    if (tasks_.empty()) {
      work_.wait();
    } else {
      run_next_pass();
    }
  }
}

// Takes over the submitted tasks. Returns false if the scheduler is ending.
bool Scheduler::take_arrivals() {
  const std::lock_guard lock(mutex_);
  tasks_.splice(tasks_.end(), arrived_);
  CHECK(!ending_ || tasks_.empty()) << "no task may outlive its scheduler";
  return !ending_;
}

void Scheduler::run_next_pass() noexcept {
  if (ask_tasks() == 0) {
    CHECK(tasks_.empty()) << "tasks must not all wait for each other";
    return;
  }
  choose_members(clock_.steady_ns());
  run_pass();
}

// Asks each task for its next tokens, and removes tasks that are over. Returns how many tasks have tokens to feed; sets
// n_rows_ of these tasks to 1, of the others to 0.
size_t Scheduler::ask_tasks() noexcept {
  size_t n_candidates = 0;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    Task& task = **it;
    const Task::Action requested = task.next(task.chunk_);
    task.n_rows_ = requested == Task::Action::kFeed ? 1 : 0;
    n_candidates += task.n_rows_;
    if (requested != Task::Action::kOver) {
      ++it;
      continue;
    }
    it = tasks_.erase(it);
    retire(task);
  }
  return n_candidates;
}

// Reports the task as over. From then on its owner may destroy it, so only the waker is used after that.
void Scheduler::retire(Task& task) noexcept {
  const std::shared_ptr<Waker> waker = std::move(task.waker_);
  task.over_.store(true, std::memory_order_release);
  waker->ring();
}

// Chooses the tasks of the next pass. Without memory for a plan, chooses only one task: the first of the highest
// priority.
void Scheduler::choose_members(int64_t now_ns) noexcept try {
  only_member_ = nullptr;
  plan_members(now_ns);
} catch (const std::bad_alloc&) {
  for (Task* task : tasks_) {
    if (task->n_rows_ == 0) continue;
    if (only_member_ == nullptr || task->priority_ < only_member_->priority_) only_member_ = task;
  }
  only_member_->n_rows_ = std::min(only_member_->chunk_.tokens.size(), model_.max_chunk());
}

void Scheduler::plan_members(int64_t now_ns) {
  members_.clear();
  std::vector<PassRequest> wishes;
  PassLimits limits{.max_rows = model_.max_chunk()};
  size_t n_decode_rows = 0;
  for (Task* task : tasks_) {
    if (task->n_rows_ == 0) continue;
    Priority priority = task->priority_;
    if (priority == Priority::kLow && now_ns - task->since_ns_ > kPatienceNs) priority = Priority::kNormal;
    members_.push_back(task);
    wishes.push_back({task->chunk_.tokens.size(), priority, task->age_, task->gives_way()});
    const bool decodes = !task->gives_way() && limits.decodes(wishes.back().n_rows);
    if (decodes) n_decode_rows += wishes.back().n_rows;
  }
  const bool alone = members_.size() == 1 && members_.front()->priority_ != Priority::kLow;
  limits.prefill_rows = prefill_rows_allowed(alone, n_decode_rows);
  limits.score_rows = score_share_.rows(cost_.decode_pass_ns());
  const std::vector<size_t> rows = plan_pass(wishes, limits);
  for (size_t i = 0; i < rows.size(); ++i) members_[i]->n_rows_ = rows[i];
  std::erase_if(members_, [](const Task* task) { return task->n_rows_ == 0; });
}

size_t Scheduler::prefill_rows_allowed(bool alone, size_t n_decode_rows) const {
  const size_t rows = cost_.prefill_rows(n_decode_rows, alone ? kAloneTargets * target_ns_ : target_ns_);
  return rows == SIZE_MAX && !alone ? kFirstRows : rows;
}

void Scheduler::run_pass() noexcept {
  if (only_member_ != nullptr) {
    run_alone(*only_member_);
  } else if (members_.size() == 1) {
    run_alone(*members_.front());
  } else if (!run_shared()) {
    // One of the tasks made the pass fail. Feed each task alone, so that each gets its own result.
    for (Task* member : members_) run_alone(*member);
  }
}

void Scheduler::run_alone(Task& task) noexcept {
  const SequenceChunk chunk = first_part(task.chunk_, task.n_rows_);
  Status status = forward({&chunk, 1}, task.stop_);
  if (status.code() == ErrorCode::kOutOfMemory && drop_spare_states()) status = forward({&chunk, 1}, task.stop_);
  Task* const member = &task;
  if (status.ok()) read_rows({&member, 1});
  record_pass({&member, 1}, status.ok());
  if (status.code() == ErrorCode::kOutOfMemory && end_idle_readings(task)) return;
  const size_t n_computed = status.ok() ? task.n_rows_ : 0;
  task.computed(n_computed, std::move(status), {logits_, 0});
}

// Drops states that no sequence of these tasks needs to continue (SequenceState::drop_spare()), to free memory for
// another sequence's pass. Returns true if a state was dropped.
bool Scheduler::drop_spare_states() noexcept {
  bool any = false;
  for (const Task* task : tasks_) {
    if (task->chunk_.entry != nullptr) any = task->chunk_.entry->state().drop_spare() || any;
  }
  return any;
}

// Cancels tasks of low priority that may hold the memory that `task` lacks. Returns true if there were such tasks;
// `task` is then retried once they are over.
bool Scheduler::end_idle_readings(const Task& task) noexcept {
  if (task.priority_ == Priority::kLow) return false;
  bool any = false;
  for (Task* other : tasks_) {
    if (other->priority_ != Priority::kLow || !other->is_preemptible()) continue;
    other->cancel();
    any = true;
  }
  return any;
}

// Runs a pass with the rows of all members. Returns false if it failed; then no task was fed.
bool Scheduler::run_shared() noexcept {
  try {
    batch_.clear();
    first_rows_.clear();
    size_t n_rows = 0;
    for (const Task* member : members_) {
      batch_.push_back(first_part(member->chunk_, member->n_rows_));
      first_rows_.push_back(n_rows);
      n_rows += n_logit_rows(batch_.back());
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!forward(batch_, {}).ok()) return false;
  read_rows(members_);
  record_pass(members_, true);
  model_.for_each(members_.size(), [this](size_t i) {
    members_[i]->computed(members_[i]->n_rows_, Status(), {logits_, first_rows_[i]});
  });
  return true;
}

Status Scheduler::forward(std::span<const SequenceChunk> batch, std::stop_token stop) noexcept {
  start_ns_ = clock_.steady_ns();
  return guarded([&] { return model_.forward(batch, std::move(stop), logits_); });
}

// Calls read_row() for all scored rows. Its time counts as time of the pass, because reducing a row of a large
// vocabulary takes about as long as a layer of a small model.
void Scheduler::read_rows(std::span<Task* const> members) noexcept {
  for (size_t m = 0; m < members.size(); ++m) {
    Task& task = *members[m];
    if (!task.gives_way() || task.chunk_.want != WantLogits::kAll) continue;
    const size_t first_row = members.size() == 1 ? 0 : first_rows_[m];
    const size_t first_position = task.chunk_.entry->length() - task.n_rows_;
    const auto read = [&](size_t i) { task.read_row(first_position + i, logits_.row(first_row + i)); };
    model_.for_each(task.n_rows_, std::cref(read));  // by reference: a copy would allocate
  }
}

// Updates cost estimates and statistics. Called before computed(), so that a caller that has its answer finds its
// passes counted.
void Scheduler::record_pass(std::span<Task* const> members, bool was_whole) noexcept {
  const int64_t now_ns = clock_.steady_ns();
  size_t n_decode = 0, n_prefill = 0, n_score = 0;
  for (Task* member : members) {
    const bool decodes = member->chunk_.tokens.size() <= kDecodeRows;
    (member->gives_way() ? n_score : decodes ? n_decode : n_prefill) += member->n_rows_;
    member->since_ns_ = now_ns;
  }
  const int64_t duration_ns = now_ns - start_ns_;
  if (was_whole && n_decode > 0) score_share_.record(n_score, n_prefill > 0, duration_ns, cost_.decode_pass_ns());
  if (was_whole && (n_decode == 0 || n_score == 0)) cost_.record(n_decode, n_prefill + n_score, duration_ns);
  prefill_row_ns_ = cost_.row_ns();
  const std::lock_guard lock(mutex_);
  ++stats_.n_passes;
  stats_.n_shared_passes += members.size() > 1 ? 1 : 0;
  stats_.n_rows += n_decode + n_prefill + n_score;
  stats_.n_scored_rows += n_score;
  stats_.n_sequences += members.size();
  stats_.most_sequences = std::max(stats_.most_sequences, members.size());
}

}  // namespace ibid
