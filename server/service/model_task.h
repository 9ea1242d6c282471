// ModelTask: something short that is asked of a model, for which it computes nothing: how long a prompt is, the ids of
// a text, or that it is loaded. ModelTaskJob: such a task in RequestDesk's hands.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "runtime/out_of_heap.h"
#include "server/service/job.h"
#include "server/store/cache_namespace.h"

namespace ibid::serve {

struct ModelTask {
  std::string model = {};            // as in AnswerRequest, these four
  std::string cache_namespace = {};
  std::chrono::milliseconds deadline{0};
  std::optional<std::chrono::milliseconds> keep_alive = {};
  size_t n_bytes = 0;                // of its texts, about
  // Does it, on a work thread, and tells whoever asked. May throw std::bad_alloc before it does.
  std::function<void(const ModelLeasePtr& lease, const std::string& model)> run = {};
  // In its place, where it cannot be done. Errors: those of AnswerListener::end().
  std::function<void(const Status& status)> fail = {};
};

class ModelTaskJob final : public Job {
 public:
  ModelTaskJob(ModelTask task, std::stop_token gone, std::shared_ptr<Bell> bell)
      : Job({task.model, std::string(owner_of_namespace(task.cache_namespace)), task.deadline, task.n_bytes,
             task.keep_alive},
            std::move(bell)),
        task_(std::move(task)) {
    watch(std::move(gone));
  }
  ~ModelTaskJob() override { end_watch(); }

  bool computes() const override { return false; }
  KvReservations::Room room(const Engine& engine, size_t) const override { return {.engine = &engine}; }
  Status prepare(const Place&) override { return {}; }
  Status plan(const Place& place) override {
    const auto run = std::exchange(task_.run, nullptr);
    try {
      run(place.lease, place.model);
    } catch (const std::bad_alloc&) {
      return out_of_heap();
    }
    task_.fail = nullptr;
    return {};
  }
  Next advance(Conversations&) override { return Next::kOver; }
  void leave_queue(std::chrono::nanoseconds) override {}
  void refuse(const Status& busy, std::chrono::seconds) override { end(busy); }
  void end(const Status& status) override {
    const auto fail = std::exchange(task_.fail, nullptr);
    task_.run = nullptr;
    if (fail && !status.ok()) fail(status);
  }
  const Status& status() const override { return status_; }
  const Usage& usage() const override { return usage_; }

 private:
  ModelTask task_;
  const Status status_;
  const Usage usage_;
};

}  // namespace ibid::serve
