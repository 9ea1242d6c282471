// Queue: the requests of a service, each with its state (Scheduled::State), and the order in which they proceed.
//
// A request waits for its turn, perhaps for a model, and then for memory: it reserves the maximum that its keys, values
// and states need, so that answers wait instead of running out of memory. Owners take turns, for planning and for
// memory, so that an owner with many requests does not delay the others. A request above the limits is refused. KV that
// several requests share is counted for each of them. The only request of an engine may use all of the engine's memory.
//
// Tasks (jobs for which computes() is false) have turns, limits and counts of their own, and need no memory.
//
// A container: it has no threads and no clock, allocates no memory of an engine, and calls only parameters(),
// computes() and is_stopped() of a job. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/service/jobs.h"

namespace ibid::serve {

// A request: its job, its state, and the resources that it holds.
struct Scheduled {
  enum class State : uint8_t {
    kOutside,           // has not entered the queue yet, was refused, or has left
    kWaitingForTurn,    // waits in its owner's queue for its turn
    kPlanning,          // a work thread has its job
    kWaitingForModel,   // waits until other requests return the leases of a model
    kWaitingForMemory,  // waits in its owner's queue for memory of its engine; holds no reservation
    kRunning,           // the engine computes the request, and the event thread has its job; holds its reservation
  };

  explicit Scheduled(std::unique_ptr<Job> its) : job(std::move(its)) {}

  const std::unique_ptr<Job> job;
  // These members are constant after enter().
  std::string model = {};
  int64_t start_ns = 0;
  int64_t end_ns = INT64_MAX;  // deadline of the request
  // These members are used only by the thread that has the job.
  ModelLeasePtr lease = nullptr;
  // These members are guarded by the lock that guards the queue.
  int64_t queue_end_ns = INT64_MAX;  // time at which waiting in the queue times out

  State state() const { return state_; }
  const KvRoom& room() const { return room_; }  // memory that the request holds or waits for

 private:
  friend class Queue;
  State state_ = State::kOutside;
  KvRoom room_;
  bool holds_room_ = false;
  bool has_retried_ = false;  // the request ran out of its reserved memory once, and waited for more
  uint64_t n_releases_ = 0;   // value of Queue::n_releases_ when the request got its reservation
  uint64_t n_returned_ = 0;   // kWaitingForModel: the argument n_returned of wait_for_model()
};
using ScheduledPtr = std::shared_ptr<Scheduled>;

struct QueueLimits {
  size_t max_running = 64;   // maximum requests that are planning, waiting for a model, or running
  size_t max_waiting = 512;  // maximum requests that wait for a turn or for memory
  size_t max_waiting_prompt_bytes = 256u << 20;
};

class Queue {
 public:
  explicit Queue(const QueueLimits& limits);

  // Adds a request in state kWaitingForTurn. Error: kBusy if a limit is reached. If no other request waits, a request
  // is never refused for its size.
  Status enter(const ScheduledPtr& request);
  // Moves the next request to kPlanning and returns it; answers precede tasks. nullptr: no request waits, or
  // max_running is reached.
  ScheduledPtr admit();
  // Moves the request from kPlanning to kWaitingForModel. n_returned: value of ModelHost::n_returned() before the
  // attempt to get the model.
  void wait_for_model(Scheduled& request, uint64_t n_returned);
  // Reserves memory. Returns true if the request stays kPlanning with its reservation. Otherwise it becomes
  // kWaitingForMemory, until the leave() of another request returns it.
  bool reserve(const ScheduledPtr& request, const KvRoom& room);
  // Moves the request from kPlanning to kRunning.
  void run(Scheduled& request);
  // Moves the request from kRunning to kPlanning.
  void plan_again(Scheduled& request);
  // Changes the size of the request's reservation. The sum of all reservations may then exceed the budget.
  void correct(Scheduled& request, const KvRoom& room);
  // Call if a request ran out of memory in spite of its reservation. kLater: the request is now kWaitingForMemory and
  // waits for `room`; the second time, for the whole budget. kNow: the request is kPlanning again, because no other
  // request holds memory now, but others have returned memory since its attempt began. kNever: no other request held
  // memory during the attempt, so there will never be more.
  enum class Retry { kLater, kNow, kNever };
  Retry wait_for_memory(const ScheduledPtr& request, const KvRoom& room);
  // Moves the request to kOutside. Moves requests whose reservations fit now to kPlanning, and returns them. is_empty()
  // counts the request until forget().
  std::vector<ScheduledPtr> leave(Scheduled& request);
  void forget(const ScheduledPtr& request) { requests_.remove(request); }

  // Call with the present ModelHost::n_returned(). Moves the kWaitingForModel requests to kPlanning that were given
  // another value in wait_for_model(), and returns them: a model may now be free for them.
  std::vector<ScheduledPtr> take_for_models(uint64_t n_returned);
  // Moves the waiting requests whose jobs are stopped to kOutside, and returns them. The caller must call leave() for
  // each.
  std::vector<ScheduledPtr> take_stopped();
  // Returns the requests that have waited too long or are past their deadline. Does not change their state.
  std::vector<ScheduledPtr> late(int64_t now_ns) const;
  // Returns all requests, in the order of entering.
  const std::list<ScheduledPtr>& all() const { return requests_; }
  // Returns the requests that are kRunning.
  std::vector<ScheduledPtr> running() const;

  // Counts of requests for answers, without tasks.
  size_t n_running() const { return answers_.n_running; }
  size_t n_waiting() const { return answers_.n_waiting; }
  bool is_empty() const { return requests_.empty(); }
  // Number of requests that hold memory of the engine.
  size_t n_holders(const Engine& engine) const;

 private:
  using State = Scheduled::State;

  // Waiting requests; owners take turns.
  class Turns {
   public:
    bool empty() const { return owners_.empty(); }
    void push(const ScheduledPtr& request);
    // next() and take() REQUIRE: !empty(). take() also moves the owner to the end.
    const ScheduledPtr& next() const { return owners_.front().requests.front(); }
    ScheduledPtr take();
    void remove(const Scheduled& request);

   private:
    struct Owner {
      std::string name;
      std::deque<ScheduledPtr> requests;  // never empty
    };
    std::list<Owner> owners_;  // the owner whose turn is next is first
  };

  // State of the requests for answers, or of the tasks.
  struct RequestClass {
    QueueLimits limits;
    Turns turns = {};  // requests in state kWaitingForTurn
    size_t n_running = 0, n_waiting = 0, waiting_bytes = 0;
    bool has_room() const { return n_running < limits.max_running; }
  };
  // Reservations of memory of an engine.
  struct Memory {
    size_t n_holders = 0, n_bytes = 0;  // number of reservations, and their sum in bytes
    Turns turns = {};                   // requests in state kWaitingForMemory
  };

  RequestClass& class_of(const Scheduled& request) { return request.job->computes() ? answers_ : tasks_; }
  void move(Scheduled& request, State to);
  bool try_reserve(Scheduled& request);
  void give_back(Scheduled& request);
  void wait_in_memory_queue(const ScheduledPtr& request, const KvRoom& room);
  std::vector<ScheduledPtr> take_what_fits();

  std::list<ScheduledPtr> requests_;  // all requests, in the order of entering
  RequestClass answers_, tasks_;
  std::map<const Engine*, Memory> memory_;
  uint64_t n_releases_ = 0;  // number of requests that have left, or returned a reservation, so far
};

}  // namespace ibid::serve
