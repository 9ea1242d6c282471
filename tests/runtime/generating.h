// Runs one answer from beginning to end on the calling thread; a helper of generation tests.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "runtime/generate/answer.h"
#include "runtime/scheduler/scheduler.h"

namespace ibid {

struct Told {
  std::function<void(size_t n_done, size_t n_total)> on_prefill = {};  // positions of the prompt
  std::function<void(std::string_view text)> on_text = {};
};

struct Generated : Generation {
  size_t n_sampled = 0;
  size_t n_drafted = 0;
  size_t n_accepted = 0;
};

// Outcome of the answer, also after an error.
struct Ran {
  Result<Generated> result = Status(ErrorCode::kUnsupported, "not run");
  AnswerProgress progress;
  TokenHistory history;
};

// Without callbacks no events are queued, and a cancelled answer ends at its current token.
inline Ran run_answer(Scheduler& scheduler, const Tokenizer& tokenizer, KvCacheEntry& entry, GenerateRequest request,
                      Sampler sampler, StopDetector stops, Clock& clock, const Told& told = {}) {
  const auto waker = std::make_shared<Waker>();
  const bool takes = told.on_prefill || told.on_text;
  request.delivery = takes ? Delivery::kUntilStop : Delivery::kNone;
  const size_t n_before = request.prompt_begin, n_total = request.prompt.size();
  Answer answer({tokenizer, scheduler.model(), clock}, entry, std::move(request), std::move(sampler), std::move(stops),
                waker);
  const TurnCallback listener = [&](const TurnEvent& event) {
    if (event.kind == TurnEvent::Kind::kText) {
      if (told.on_text) told.on_text(event.text);
    } else if (told.on_prefill) {
      told.on_prefill(event.n_done - n_before, n_total);
    }
  };
  const Status submitted = scheduler.submit(answer);
  CHECK(submitted.ok()) << submitted.to_string();
  while (!answer.is_drained()) {
    if (const std::optional<TurnEvent> event = answer.take_event()) {
      listener(*event);
    } else {
      waker->wait();
    }
  }
  Ran ran;
  Result<Generation> finished = answer.finish();
  if (finished.ok() && takes && finished->text.size() > finished->n_text_taken) {
    listener({.kind = TurnEvent::Kind::kText, .text = finished->text.substr(finished->n_text_taken)});
  }
  ran.progress = answer.progress();
  ran.history = answer.take_history();
  if (finished.ok()) {
    ran.result =
        Generated{*std::move(finished), ran.progress.n_sampled, ran.progress.n_drafted, ran.progress.n_accepted};
  } else {
    ran.result = finished.status();
  }
  return ran;
}

}  // namespace ibid
