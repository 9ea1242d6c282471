// WaitingRooms: where requests wait: in their owner's queue until they may run; then perhaps for a model that others
// have to give back first; then for memory. Owners take turns in the queue and for memory.
//
// Tasks for which no model computes have a queue of their own, and need no memory.
//
// Plain data and lists: it knows no threads and no clock. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "server/service/admission.h"
#include "server/service/desk_request.h"
#include "server/service/kv_reservations.h"
#include "server/service/turn_queue.h"

namespace ibid::serve {

class WaitingRooms {
 public:
  explicit WaitingRooms(const AdmissionLimits& limits);

  // Into its owner's queue. Errors: those of Admission::enter().
  Status enter(const DeskRequestPtr& request);
  // The next that may run. Nothing: nobody waits, or as many run as may.
  std::optional<DeskRequestPtr> admit();
  // It is over. Returns those that waited for its memory and may go on now.
  std::vector<DeskRequestPtr> leave(DeskRequest& request);

  // Reserves the room that it needs. False: it waits, and does not count as running, until leave() of another returns
  // it.
  bool reserve(const DeskRequestPtr& request, const KvReservations::Room& room);
  // It turns out to need more room.
  void correct(DeskRequest& request, const KvReservations::Room& room) { reservations_.correct(request.room, room); }
  // It found too little memory, and waits for this room, or where that was too little before, until it is alone with
  // its engine. kNow: others have left since it was given its room, or wait themselves, and it has all of the memory
  // now. kNever: it was alone already.
  enum class Retry { kLater, kNow, kNever };
  Retry wait_for_room(const DeskRequestPtr& request, const KvReservations::Room& room);

  void wait_for_model(const DeskRequestPtr& request) { for_models_.push_back(request); }
  // Those whose last attempt to get a model was in front of another number of leases that were given back.
  std::vector<DeskRequestPtr> take_for_models(uint64_t n_returned);

  // Those that wait anywhere and whose jobs are stopped.
  std::vector<DeskRequestPtr> take_stopped();
  // Those that wait anywhere and have waited too long. They stay.
  std::vector<DeskRequestPtr> late(int64_t now_ns);

  // Without tasks.
  size_t n_running() const { return admission_.n_running(); }
  size_t n_waiting() const { return admission_.n_waiting(); }

 private:
  Admission<DeskRequestPtr>& gate_of(const DeskRequest& request);
  void park(const DeskRequestPtr& request);
  std::vector<DeskRequestPtr> take_what_fits();
  template <typename Predicate>
  std::vector<DeskRequestPtr> take_if(const Predicate& goes);

  Admission<DeskRequestPtr> admission_;
  Admission<DeskRequestPtr> tasks_;
  KvReservations reservations_;
  std::map<const Engine*, TurnQueue<DeskRequestPtr>> for_memory_;  // parked
  std::list<DeskRequestPtr> for_models_;
  uint64_t n_left_ = 0;
};

}  // namespace ibid::serve
