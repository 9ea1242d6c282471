// AnswerJob: a request for answers: the conversation that it goes on from, the turns that answer it, and what its
// listener hears.
//
// A turn that finds no memory is begun again when there is some. Its prompt, options and seed are the same, so its
// events are, too; those that the listener has heard are passed over.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/session/dialogue.h"
#include "runtime/session/prefill_stream.h"
#include "runtime/session/turn_stream.h"
#include "server/service/answer_request.h"
#include "server/service/conversations.h"
#include "server/service/job.h"

namespace ibid::serve {

class AnswerJob final : public Job {
 public:
  // bell: rings when the client has gone, and when there is something to hear.
  AnswerJob(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token gone,
            std::shared_ptr<Bell> bell);
  ~AnswerJob() override;  // as if the client had gone; waits for the end of its turns

  KvReservations::Room room(const Engine& engine, size_t expected_answer) const override;
  // Finds the conversation, and plans its prompt.
  Status prepare(const Place& place) override;
  // Begins the turn; or, for several answers, the reading of the question, and their turns once that is over. The
  // listener hears of the beginning.
  Status plan(const Place& place) override;
  Next advance(Conversations& conversations) override;
  void leave_queue(std::chrono::nanoseconds waited) override;
  void refuse(const Status& busy, std::chrono::seconds retry_after) override;
  void end(const Status& status) override;
  const Status& status() const override { return status_; }
  bool is_cut_short() const override { return is_cut_short_; }
  // Sums over its answers.
  const Usage& usage() const override { return usage_; }

 private:
  struct Part {
    explicit Part(Conversation c) : conversation(std::move(c)) {}
    Conversation conversation;
    std::optional<TurnStream> stream;  // until it is over
    bool is_over = false;              // for good, and the conversation is put back
    // Events of the stream that is under way, and of all so far those that the listener has heard.
    size_t n_events = 0, n_told = 0;
  };
  Result<Conversation> find_conversation(const std::shared_ptr<Engine>& engine, Conversations& conversations) const;
  Status find_out(const Place& place);
  Status begin(const Place& place);
  Status begin_reading(const Place& place);
  void end_reading(Conversations& conversations);
  Status begin_turns(const Place& place);
  Status begin_turn(size_t i);
  void tell_begin(const Place& place, size_t n_prompt);
  Next after_reading(Conversations& conversations);
  void hear(size_t i, Conversations& conversations);
  void tell_events(size_t i);
  void finish(size_t i, Conversations& conversations);
  void add_reading(Turn& turn) const;
  void put_back(Conversation conversation, Conversations& conversations) const;
  void fail(Status status);

  AnswerRequest request_;
  std::shared_ptr<AnswerListener> listener_;  // until the end
  Json variables_;

  std::optional<Conversation> asked_;  // until its turns begin
  // The reading of the question that several answers share, and what it cost, its planning included. Times: by the
  // engine's clock.
  struct Reading {
    int64_t begin_ns = 0, end_ns = 0;
    double ms() const { return static_cast<double>(end_ns - begin_ns) * 1e-6; }
    Usage usage = {};
  };
  std::optional<PrefillStream> reading_;
  Reading read_;
  bool is_read_ = false;
  std::vector<std::unique_ptr<Part>> parts_;
  size_t n_side_by_side_ = 0;  // turns that were begun together
  Status status_;
  Usage usage_;
  PromptSize prompt_size_;
  size_t n_read_told_ = 0;
  bool has_left_queue_ = false;
  bool has_begun_ = false;
  bool is_cut_short_ = false;
};

}  // namespace ibid::serve
