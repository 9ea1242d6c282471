#include "server/service/waiting_rooms.h"

#include <iterator>
#include <utility>

namespace ibid::serve {
namespace {

constexpr size_t kMostTasks = 16;  // that wait for a model, or for their thread, outside of the queue

void append(std::vector<DeskRequestPtr>& all, std::vector<DeskRequestPtr> some) {
  all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
}

}  // namespace

WaitingRooms::WaitingRooms(const AdmissionLimits& limits)
    : admission_(limits), tasks_({kMostTasks, limits.max_waiting, limits.max_waiting_prompt_bytes}) {}

Admission<DeskRequestPtr>& WaitingRooms::gate_of(const DeskRequest& request) {
  return request.job.computes() ? admission_ : tasks_;
}

Status WaitingRooms::enter(const DeskRequestPtr& request) {
  const Job::Asked& asked = request->job.asked();
  return gate_of(*request).enter(asked.owner, asked.prompt_bytes, request);
}

std::optional<DeskRequestPtr> WaitingRooms::admit() {
  std::optional<DeskRequestPtr> next = admission_.next();
  if (!next) next = tasks_.next();
  if (next) (*next)->place = DeskRequest::Place::kRunning;
  return next;
}

std::vector<DeskRequestPtr> WaitingRooms::leave(DeskRequest& request) {
  reservations_.give_back(request.room);
  ++n_left_;
  Admission<DeskRequestPtr>& gate = gate_of(request);
  if (request.place == DeskRequest::Place::kRunning) gate.leave();
  if (request.place == DeskRequest::Place::kParked) gate.leave_parked(request.job.asked().prompt_bytes);
  return take_what_fits();
}

// --- memory

bool WaitingRooms::reserve(const DeskRequestPtr& request, const KvReservations::Room& room) {
  request->room = room;
  request->n_left = n_left_;
  if (!for_memory_.contains(room.engine) && reservations_.try_reserve(request->room)) return true;
  park(request);
  return false;
}

WaitingRooms::Retry WaitingRooms::wait_for_room(const DeskRequestPtr& request, const KvReservations::Room& room) {
  if (reservations_.n_holders(request->room) <= 1) {
    return std::exchange(request->n_left, n_left_) == n_left_ ? Retry::kNever : Retry::kNow;
  }
  reservations_.give_back(request->room);
  ++n_left_;  // another that found too little at the same time has more now
  request->room = room;
  if (std::exchange(request->has_retried, true)) request->room.n_bytes = room.budget_bytes;
  park(request);
  return Retry::kLater;
}

void WaitingRooms::park(const DeskRequestPtr& request) {
  const Job::Asked& asked = request->job.asked();
  admission_.park(asked.prompt_bytes);
  request->place = DeskRequest::Place::kParked;
  for_memory_[request->room.engine].push(asked.owner, request);
}

// Of each engine, none goes before the one whose turn it is, however much that needs.
std::vector<DeskRequestPtr> WaitingRooms::take_what_fits() {
  std::vector<DeskRequestPtr> fit;
  for (auto it = for_memory_.begin(); it != for_memory_.end();) {
    TurnQueue<DeskRequestPtr>& queue = it->second;
    while (!queue.empty() && admission_.has_room() && reservations_.try_reserve(queue.next()->room)) {
      fit.push_back(queue.take());
      fit.back()->place = DeskRequest::Place::kRunning;
      fit.back()->n_left = n_left_;
      admission_.go_on(fit.back()->job.asked().prompt_bytes);
    }
    it = queue.empty() ? for_memory_.erase(it) : std::next(it);
  }
  return fit;
}

// --- all that wait

std::vector<DeskRequestPtr> WaitingRooms::take_for_models(uint64_t n_returned) {
  std::vector<DeskRequestPtr> again;
  for (auto it = for_models_.begin(); it != for_models_.end();) {
    if ((*it)->n_returned == n_returned) {
      ++it;
      continue;
    }
    again.push_back(std::move(*it));
    it = for_models_.erase(it);
  }
  return again;
}

template <typename Predicate>
std::vector<DeskRequestPtr> WaitingRooms::take_if(const Predicate& goes) {
  std::vector<DeskRequestPtr> taken = admission_.remove_if(goes);
  append(taken, tasks_.remove_if(goes));
  for (auto& [engine, queue] : for_memory_) append(taken, queue.remove_if(goes));
  std::erase_if(for_memory_, [](const auto& entry) { return entry.second.empty(); });
  for (auto it = for_models_.begin(); it != for_models_.end();) {
    const auto here = it++;
    if (!goes(*here)) continue;
    taken.push_back(*here);
    for_models_.erase(here);
  }
  return taken;
}

std::vector<DeskRequestPtr> WaitingRooms::take_stopped() {
  return take_if([](const DeskRequestPtr& request) { return request->job.is_stopped(); });
}

std::vector<DeskRequestPtr> WaitingRooms::late(int64_t now_ns) {
  std::vector<DeskRequestPtr> late;
  (void)take_if([&](const DeskRequestPtr& request) {
    if (now_ns >= request->queue_end_ns) late.push_back(request);
    return false;
  });
  return late;
}

}  // namespace ibid::serve
