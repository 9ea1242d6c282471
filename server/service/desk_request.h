// DeskRequest: a request in RequestDesk's hands: its job, and what it has of the server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "server/service/job.h"
#include "server/service/kv_reservations.h"
#include "server/service/model_host.h"

namespace ibid::serve {

struct DeskRequest {
  explicit DeskRequest(std::unique_ptr<Job> its) : job_(std::move(its)), job(*job_) {}

  // Immutable once it has entered.
  int64_t start_ns = 0;
  int64_t end_ns = INT64_MAX;
  std::string model;

  // Whoever works on the job has these.
  ModelLeasePtr lease;
  uint64_t n_returned = 0;  // leases, in front of its last attempt to get one

  // WaitingRooms has these.
  KvReservations::Room room;
  int64_t queue_end_ns = INT64_MAX;  // as long as it may wait where it waits now
  uint64_t n_left = 0;      // how often room was given back when it was given its own
  bool has_retried = false;  // it waited for room once more after it had some
  enum class Place { kQueue, kRunning, kParked };
  Place place = Place::kQueue;

 private:
  const std::unique_ptr<Job> job_;

 public:
  Job& job;
};

using DeskRequestPtr = std::shared_ptr<DeskRequest>;

}  // namespace ibid::serve
