// Queue: the requests of a service, each with its state (Scheduled::State), and the order in which they proceed.
//
// A request waits for its turn, perhaps for a model, and then for memory: it reserves the most that its keys, values
// and states need, so that answers wait instead of running out of memory. Owners take turns, for planning and for
// memory, so that one with many requests does not delay the others. A request above the limits is refused. KV that
// several requests share is counted for each. The only request of an engine may use all of its memory.
//
// Tasks (Job::computes()) have turns, limits and counts of their own, and need no memory.
//
// A container: it has no threads and no clock, allocates no memory of an engine, and uses only asked(), computes() and
// is_stopped() of a job. Not thread-safe.
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
    kOutside,    // has not entered yet, was refused, or has ended
    kForTurn,    // waits in its owner's queue
    kPlanning,   // a work thread has its job
    kForModel,   // waits until other requests return the leases of a model
    kForMemory,  // waits in its owner's queue of that engine; holds no reservation
    kRunning,    // the engine computes, and the event thread has its job; holds its reservation
  };

  explicit Scheduled(std::unique_ptr<Job> its) : job(std::move(its)) {}

  const std::unique_ptr<Job> job;
  // Constant after enter().
  std::string model = {};
  int64_t start_ns = 0;
  int64_t end_ns = INT64_MAX;  // the deadline
  // Used only by the thread that has the job.
  ModelLeasePtr lease = nullptr;
  // Guarded by the lock that guards the queue.
  int64_t queue_end_ns = INT64_MAX;  // when waiting in the queue times out

  State state() const { return state_; }
  const KvRoom& room() const { return room_; }  // that it holds or waits for

 private:
  friend class Queue;
  State state_ = State::kOutside;
  KvRoom room_;
  bool holds_room_ = false;
  bool has_retried_ = false;  // has waited for memory again after it had some
  uint64_t n_left_ = 0;       // Queue::n_left_ when it got its reservation
  uint64_t n_returned_ = 0;   // kForModel: as in wait_for_model()
};
using ScheduledPtr = std::shared_ptr<Scheduled>;

struct QueueLimits {
  size_t max_running = 64;   // planning, waiting for a model, or running
  size_t max_waiting = 512;  // for a turn, or for memory
  size_t max_waiting_prompt_bytes = 256u << 20;
};

class Queue {
 public:
  explicit Queue(const QueueLimits& limits);

  // -> kForTurn. Error: kBusy: a limit is reached. A request is never refused for its own size while no other waits.
  Status enter(const ScheduledPtr& request);
  // The next request in turn, now kPlanning; answers before tasks. nullptr: none waits, or max_running is reached.
  ScheduledPtr admit();
  // kPlanning -> kForModel. n_returned: the value of ModelHost::n_returned() before the attempt to get the model.
  void wait_for_model(Scheduled& request, uint64_t n_returned);
  // Reserves memory; the request stays kPlanning. False: it is kForMemory now, until leave() of another returns it.
  bool reserve(const ScheduledPtr& request, const KvRoom& room);
  // kPlanning -> kRunning.
  void run(Scheduled& request);
  // kRunning -> kPlanning.
  void plan_again(Scheduled& request);
  // Changes the size of its reservation. All reservations together may then exceed the budget.
  void correct(Scheduled& request, const KvRoom& room);
  // The request ran out of memory in spite of its reservation. kLater: it is kForMemory, for `room`; the second time,
  // for the whole budget. kNow: other reservations were returned meanwhile, or their holders wait too; it is kPlanning
  // and holds the whole budget. kNever: no other request held memory.
  enum class Retry { kLater, kNow, kNever };
  Retry wait_for_memory(const ScheduledPtr& request, const KvRoom& room);
  // -> kOutside. Returns the requests whose reservations fit now, kPlanning. The request counts for is_empty() until
  // forget().
  std::vector<ScheduledPtr> leave(Scheduled& request);
  void forget(const ScheduledPtr& request) { requests_.remove(request); }

  // kForModel -> kPlanning: returns the requests whose n_returned differs.
  std::vector<ScheduledPtr> take_for_models(uint64_t n_returned);
  // Removes the waiting requests whose jobs are stopped, -> kOutside; the caller still has to call leave().
  std::vector<ScheduledPtr> take_stopped();
  // The requests that have waited too long, or whose deadline is over. Their state does not change.
  std::vector<ScheduledPtr> late(int64_t now_ns) const;
  // In the order of entering.
  const std::list<ScheduledPtr>& all() const { return requests_; }
  // The requests that are kRunning.
  std::vector<ScheduledPtr> running() const;

  // Without tasks.
  size_t n_running() const { return answers_.n_running; }
  size_t n_waiting() const { return answers_.n_waiting; }
  bool is_empty() const { return requests_.empty(); }
  // The number of requests that hold memory of an engine.
  size_t n_holders(const Engine& engine) const;

 private:
  using State = Scheduled::State;

  // Waiting requests; owners take turns.
  class Turns {
   public:
    bool empty() const { return owners_.empty(); }
    void push(const ScheduledPtr& request);
    // REQUIRES of both: !empty(). take(): moves the owner to the end.
    const ScheduledPtr& next() const { return owners_.front().requests.front(); }
    ScheduledPtr take();
    void remove(const Scheduled& request);

   private:
    struct Owner {
      std::string name;
      std::deque<ScheduledPtr> requests;  // never empty
    };
    std::list<Owner> owners_;  // the first is next
  };

  // Answers, or tasks.
  struct Lane {
    QueueLimits limits;
    Turns turns = {};  // kForTurn
    size_t n_running = 0, n_waiting = 0, waiting_bytes = 0;
    bool has_room() const { return n_running < limits.max_running; }
  };
  // The memory of an engine.
  struct Memory {
    size_t n_holders = 0, n_bytes = 0;  // sums over reservations
    Turns turns = {};                   // kForMemory
  };

  Lane& lane_of(const Scheduled& request) { return request.job->computes() ? answers_ : tasks_; }
  void move(Scheduled& request, State to);
  bool try_hold(Scheduled& request);
  void give_back(Scheduled& request);
  void park(const ScheduledPtr& request, const KvRoom& room);
  std::vector<ScheduledPtr> take_what_fits();

  std::list<ScheduledPtr> requests_;  // all, in the order of entering
  Lane answers_, tasks_;
  std::map<const Engine*, Memory> memory_;
  uint64_t n_left_ = 0;  // how many reservations were returned
};

}  // namespace ibid::serve
