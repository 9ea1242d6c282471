#include "server/service/queue.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace ibid::serve {
namespace {

using State = Scheduled::State;

constexpr size_t kMaxTasks = 16;  // maximum number of tasks that wait for a model or for the tasks' thread

bool counts_as_waiting(State state) { return state == State::kWaitingForTurn || state == State::kWaitingForMemory; }
bool waits(State state) { return counts_as_waiting(state) || state == State::kWaitingForModel; }

}  // namespace

size_t kv_bytes_for(const KvLayout& layout, size_t max_seq_len, const KvNeed& need) {
  const size_t n_read = std::min(need.n_prompt, max_seq_len);
  const size_t n_completion_tokens = std::min(need.n_answer, max_seq_len - n_read);
  // Count one page more for each answer: an answer may begin within the last page of the prompt, of which it needs a
  // copy.
  const size_t n_pages = KvLayout::pages_for(n_read) + KvLayout::pages_for(need.n_dropped) +
                         need.n_answers * (KvLayout::pages_for(n_completion_tokens) + 1);
  const size_t n_states = std::max<size_t>(need.n_answers, 1) * KvLayout::kStatesAtWork;
  return n_pages * layout.page_bytes() + n_states * layout.state_bytes();
}

Queue::Queue(const QueueLimits& limits)
    : answers_{limits}, tasks_{{kMaxTasks, limits.max_waiting, limits.max_waiting_prompt_bytes}} {}

void Queue::Turns::push(const ScheduledPtr& request) {
  const std::string& name = request->job->parameters().owner;
  auto owner = std::ranges::find(owners_, name, &Owner::name);
  if (owner == owners_.end()) owner = owners_.insert(owners_.end(), Owner{name, {}});
  owner->requests.push_back(request);
}

ScheduledPtr Queue::Turns::take() {
  Owner& first = owners_.front();
  ScheduledPtr request = std::move(first.requests.front());
  first.requests.pop_front();
  if (first.requests.empty()) {
    owners_.pop_front();
  } else {
    owners_.splice(owners_.end(), owners_, owners_.begin());
  }
  return request;
}

void Queue::Turns::remove(const Scheduled& request) {
  const auto owner = std::ranges::find(owners_, request.job->parameters().owner, &Owner::name);
  if (owner == owners_.end()) return;
  std::erase_if(owner->requests, [&](const ScheduledPtr& one) { return one.get() == &request; });
  if (owner->requests.empty()) owners_.erase(owner);
}

// Changes the state of a request. No other function does, because the counts must agree with the states.
void Queue::move(Scheduled& request, State to) {
  RequestClass& request_class = class_of(request);
  const size_t bytes = request.job->parameters().prompt_bytes;
  if (counts_as_waiting(request.state_)) {
    --request_class.n_waiting;
    request_class.waiting_bytes -= bytes;
  } else if (request.state_ != State::kOutside) {
    --request_class.n_running;
  }
  request.state_ = to;
  if (counts_as_waiting(to)) {
    ++request_class.n_waiting;
    request_class.waiting_bytes += bytes;
  } else if (to != State::kOutside) {
    ++request_class.n_running;
  }
}

Status Queue::enter(const ScheduledPtr& request) {
  RequestClass& request_class = class_of(*request);
  if (request_class.n_waiting > 0 && request_class.n_waiting >= request_class.limits.max_waiting) {
    return {ErrorCode::kBusy,
            "the queue is full: " + std::to_string(request_class.n_waiting) + " requests are waiting"};
  }
  const size_t n_bytes = request_class.waiting_bytes + request->job->parameters().prompt_bytes;
  if (request_class.n_waiting > 0 && n_bytes > request_class.limits.max_waiting_prompt_bytes) {
    return {ErrorCode::kBusy, "the queue is full: requests with prompts of " +
                                  std::to_string(request_class.waiting_bytes) + " bytes are waiting"};
  }
  requests_.push_back(request);
  request_class.turns.push(request);
  move(*request, State::kWaitingForTurn);
  return {};
}

ScheduledPtr Queue::admit() {
  for (RequestClass* request_class : {&answers_, &tasks_}) {
    if (!request_class->has_room() || request_class->turns.empty()) continue;
    ScheduledPtr next = request_class->turns.take();
    move(*next, State::kPlanning);
    return next;
  }
  return nullptr;
}

void Queue::run(Scheduled& request) {
  CHECK(request.state_ == State::kPlanning && request.holds_room_);
  move(request, State::kRunning);
}

void Queue::plan_again(Scheduled& request) {
  CHECK(request.state_ == State::kRunning);
  move(request, State::kPlanning);
}

void Queue::wait_for_model(Scheduled& request, uint64_t n_returned) {
  CHECK(request.state_ == State::kPlanning && !request.holds_room_);
  request.n_returned_ = n_returned;
  move(request, State::kWaitingForModel);
}

std::vector<ScheduledPtr> Queue::leave(Scheduled& request) {
  give_back(request);
  ++n_releases_;
  move(request, State::kOutside);
  return take_what_fits();
}

std::vector<ScheduledPtr> Queue::take_for_models(uint64_t n_returned) {
  std::vector<ScheduledPtr> again;
  for (const ScheduledPtr& request : requests_) {
    if (request->state_ != State::kWaitingForModel || request->n_returned_ == n_returned) continue;
    move(*request, State::kPlanning);
    again.push_back(request);
  }
  return again;
}

std::vector<ScheduledPtr> Queue::take_stopped() {
  std::vector<ScheduledPtr> stopped;
  for (const ScheduledPtr& request : requests_) {
    if (!waits(request->state_) || !request->job->is_stopped()) continue;
    if (request->state_ == State::kWaitingForTurn) class_of(*request).turns.remove(*request);
    if (request->state_ == State::kWaitingForMemory) memory_[request->room_.engine].turns.remove(*request);
    move(*request, State::kOutside);
    stopped.push_back(request);
  }
  return stopped;
}

std::vector<ScheduledPtr> Queue::late(int64_t now_ns) const {
  std::vector<ScheduledPtr> late;
  for (const ScheduledPtr& request : requests_) {
    const int64_t end_ns = waits(request->state_) ? std::min(request->end_ns, request->queue_end_ns) : request->end_ns;
    if (now_ns >= end_ns) late.push_back(request);
  }
  return late;
}

std::vector<ScheduledPtr> Queue::running() const {
  std::vector<ScheduledPtr> running;
  std::ranges::copy_if(requests_, std::back_inserter(running),
                       [](const ScheduledPtr& request) { return request->state_ == State::kRunning; });
  return running;
}

size_t Queue::n_holders(const Engine& engine) const {
  const auto found = memory_.find(&engine);
  return found == memory_.end() ? 0 : found->second.n_holders;
}

bool Queue::try_reserve(Scheduled& request) {
  Memory& memory = memory_[request.room_.engine];
  const KvRoom& room = request.room_;
  if (memory.n_holders > 0 && memory.n_bytes + room.n_bytes > room.budget_bytes) return false;
  ++memory.n_holders;
  memory.n_bytes += room.n_bytes;
  request.holds_room_ = true;
  request.n_releases_ = n_releases_;
  return true;
}

void Queue::give_back(Scheduled& request) {
  if (!std::exchange(request.holds_room_, false)) return;
  Memory& memory = memory_[request.room_.engine];
  memory.n_bytes -= request.room_.n_bytes;
  --memory.n_holders;
}

bool Queue::reserve(const ScheduledPtr& request, const KvRoom& room) {
  CHECK(request->state_ == State::kPlanning && !request->holds_room_);
  request->room_ = room;
  if (memory_[room.engine].turns.empty() && try_reserve(*request)) return true;
  wait_in_memory_queue(request, room);
  return false;
}

void Queue::correct(Scheduled& request, const KvRoom& room) {
  if (!request.holds_room_) return;
  memory_[request.room_.engine].n_bytes += room.n_bytes - request.room_.n_bytes;
  request.room_.n_bytes = room.n_bytes;
}

Queue::Retry Queue::wait_for_memory(const ScheduledPtr& request, const KvRoom& room) {
  if (n_holders(*request->room_.engine) <= 1) {
    if (std::exchange(request->n_releases_, n_releases_) == n_releases_) return Retry::kNever;
    move(*request, State::kPlanning);
    return Retry::kNow;
  }
  give_back(*request);
  ++n_releases_;  // the request's memory is free now, so another request that ran out of memory may try again
  KvRoom wanted = room;
  if (std::exchange(request->has_retried_, true)) wanted.n_bytes = room.budget_bytes;
  wait_in_memory_queue(request, wanted);
  return Retry::kLater;
}

void Queue::wait_in_memory_queue(const ScheduledPtr& request, const KvRoom& room) {
  request->room_ = room;
  memory_[room.engine].turns.push(request);
  move(*request, State::kWaitingForMemory);
}

// Reserves memory for waiting requests, and returns those that got it. If an engine's next request does not fit, its
// later ones wait too.
std::vector<ScheduledPtr> Queue::take_what_fits() {
  std::vector<ScheduledPtr> fit;
  for (auto& [engine, memory] : memory_) {
    Turns& turns = memory.turns;
    while (!turns.empty() && class_of(*turns.next()).has_room() && try_reserve(*turns.next())) {
      fit.push_back(turns.take());
      move(*fit.back(), State::kPlanning);
    }
  }
  std::erase_if(memory_, [](const auto& entry) { return entry.second.n_holders == 0 && entry.second.turns.empty(); });
  return fit;
}

}  // namespace ibid::serve
