// ForwardQueue: one model, many sessions. LanguageModel::forward() is not re-entrant, so passes stand in
// line here, first come first served; waiting ends when the caller's stop token fires. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <stop_token>

#include "base/result.h"
#include "model/language_model.h"

namespace ibid {

class ForwardQueue {
 public:
  // `model` must outlive the queue.
  explicit ForwardQueue(LanguageModel& model) : model_(model) {}

  // LanguageModel::forward() when it is this caller's turn. Error, besides the model's: kCancelled.
  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits);

  const LanguageModel& model() const { return model_; }

 private:
  LanguageModel& model_;
  std::mutex mutex_;
  std::condition_variable_any moved_;
  std::deque<uint64_t> waiting_;  // tickets; the front one runs
  uint64_t next_ticket_ = 0;
};

}  // namespace ibid
