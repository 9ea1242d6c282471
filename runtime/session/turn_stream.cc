#include "ibid/turn_stream.h"

#include <algorithm>
#include <deque>
#include <new>
#include <stop_token>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "runtime/session/session_state.h"

namespace ibid {

class TurnStream::Pulled {
 public:
  Pulled(ChatSession& session, TurnOptions options, std::shared_ptr<Waker> bell)
      : bell_(bell != nullptr ? std::move(bell) : std::make_shared<Waker>()),
        options_(std::move(options)),
        callers_stop_(std::exchange(options_.stop, stop_.get_token()), Stops{&stop_}),
        call_(std::in_place, session.state(), options_, bell_) {}

  static std::unique_ptr<Pulled> begin(ChatSession& session, const TurnStart& start, TurnOptions&& options,
                                       std::shared_ptr<Waker>&& bell) {
    std::unique_ptr<Pulled> pulled;
    try {
      pulled = std::make_unique<Pulled>(session, std::move(options), std::move(bell));
      if (Status status = pulled->call_->begin(start, {}, true); !status.ok()) pulled->end(std::move(status));
    } catch (const std::bad_alloc&) {
      if (pulled != nullptr) pulled->end(out_of_heap());
    }
    return pulled;
  }

  ~Pulled() {
    stop_.request_stop();
    wait_for_end();
  }
  Pulled(const Pulled&) = delete;
  Pulled& operator=(const Pulled&) = delete;

  void cancel() { stop_.request_stop(); }

  std::optional<std::string> poll() {
    if (wants_ == Wants::kUnknown) wants_ = Wants::kTexts;
    look();
    while (!events_.empty() && events_.front().kind != TurnEvent::Kind::kText) events_.pop_front();
    if (events_.empty()) return std::nullopt;
    std::string piece = std::move(events_.front().text);
    events_.pop_front();
    return piece;
  }

  std::optional<TurnEvent> poll_event() {
    wants_ = Wants::kEvents;
    look();
    if (events_.empty()) return std::nullopt;
    TurnEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  const Turn* begun() const { return call_ ? &call_->turn().beginning() : nullptr; }

  bool is_over() {
    look();
    if (call_) return false;
    if (wants_ == Wants::kEvents) return events_.empty();
    return std::ranges::none_of(events_, [](const TurnEvent& event) { return event.kind == TurnEvent::Kind::kText; });
  }

  void wait() const { bell_->wait(); }

  // Takes the new events, and finishes the turn if its answer is over.
  void look() {
    if (!call_) return;
    RunningTurn& turn = call_->turn();
    const bool over = turn.is_over();  // first: all earlier events are queued by then
    const bool in_parts = wants_ == Wants::kEvents && options_.parse_reply;
    const ReplyParser::Listener keep = [this](const TurnEvent& part) { events_.push_back(part); };
    try {
      for (TurnEvent& event : turn.take_events()) {
        const bool is_text = event.kind == TurnEvent::Kind::kText;
        if (!is_text && wants_ == Wants::kTexts) continue;
        if (is_text && wants_ != Wants::kTexts && !event.logprobs.empty()) {
          events_.push_back({.kind = TurnEvent::Kind::kLogprobs, .logprobs = std::move(event.logprobs)});
        }
        if (is_text && in_parts) {
          turn.read_reply(event.text, keep);
        } else {
          events_.push_back(std::move(event));
        }
      }
    } catch (const std::bad_alloc&) {
      return end(out_of_heap());
    }
    if (over) end(call_->finish({}, in_parts ? keep : ReplyParser::Listener()));
  }

  void wait_for_end() {
    while (call_ && call_->check_process().ok()) {
      if (call_->turn().is_over()) return look();
      bell_->wait();
    }
  }

  Result<Turn> take_outcome() {
    if (call_) TRY(call_->check_process());
    CHECK(outcome_.has_value()) << "finish() is called once";
    return *std::exchange(outcome_, std::nullopt);
  }

 private:
  // Kind of events that the owner pulls. All events are kept until the first pull.
  enum class Wants { kUnknown, kTexts, kEvents };
  struct Stops {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };

  void end(Result<Turn> outcome) {
    outcome_ = std::move(outcome);
    call_.reset();
  }

  const std::shared_ptr<Waker> bell_;
  std::stop_source stop_;
  TurnOptions options_;
  const std::stop_callback<Stops> callers_stop_;
  std::optional<TurnCall> call_;  // until the turn is over
  std::deque<TurnEvent> events_;
  Wants wants_ = Wants::kUnknown;
  std::optional<Result<Turn>> outcome_;
};

TurnStream::TurnStream(TurnStream&&) noexcept = default;
TurnStream::~TurnStream() = default;

TurnStream::TurnStream(ChatSession& session, const TurnStart& start, TurnOptions options, std::shared_ptr<Waker> bell)
    : pulled_(Pulled::begin(session, start, std::move(options), std::move(bell))) {}

std::optional<std::string> TurnStream::poll() { return pulled_ == nullptr ? std::nullopt : pulled_->poll(); }

std::optional<TurnEvent> TurnStream::poll_event() { return pulled_ == nullptr ? std::nullopt : pulled_->poll_event(); }

const Turn* TurnStream::begun() const { return pulled_ == nullptr ? nullptr : pulled_->begun(); }

std::optional<std::string> TurnStream::next() {
  for (;;) {
    if (std::optional<std::string> piece = poll()) return piece;
    if (is_over()) return std::nullopt;
    pulled_->wait();
  }
}

bool TurnStream::is_over() { return pulled_ == nullptr || pulled_->is_over(); }

void TurnStream::cancel() {
  if (pulled_ != nullptr) pulled_->cancel();
}

Result<Turn> TurnStream::finish() {
  if (pulled_ == nullptr) return out_of_heap();
  pulled_->wait_for_end();
  return pulled_->take_outcome();
}

}  // namespace ibid
