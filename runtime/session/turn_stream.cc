#include "ibid/turn_stream.h"

#include <deque>
#include <stop_token>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "runtime/session/session_state.h"

namespace ibid {

class TurnStream::Pulled {
 public:
  Pulled(ChatSession& session, TurnOptions options, std::shared_ptr<Waker> waker)
      : waker_(waker != nullptr ? std::move(waker) : std::make_shared<Waker>()),
        options_(std::move(options)),
        callers_stop_(std::exchange(options_.stop, stop_.get_token()), Stops{&stop_}),
        call_(std::in_place, session.state(), options_, waker_) {}

  static std::unique_ptr<Pulled> begin(ChatSession& session, const TurnStart& start, TurnOptions&& options,
                                       std::shared_ptr<Waker>&& waker) {
    std::unique_ptr<Pulled> pulled;
    Status status = guarded([&]() -> Status {
      pulled = std::make_unique<Pulled>(session, std::move(options), std::move(waker));
      return pulled->call_->begin(start, Delivery::kAll);
    });
    if (pulled != nullptr && !status.ok()) pulled->end(std::move(status));
    return pulled;
  }

  ~Pulled() {
    stop_.request_stop();
    finish();
  }
  Pulled(const Pulled&) = delete;
  Pulled& operator=(const Pulled&) = delete;

  void cancel() { stop_.request_stop(); }

  std::optional<std::string> poll() {
    if (form_ == Form::kUnknown) form_ = Form::kTexts;
    while (std::optional<TurnEvent> event = take_event()) {
      if (event->kind == TurnEvent::Kind::kText) return std::move(event->text);
    }
    return std::nullopt;
  }

  std::optional<TurnEvent> poll_event() {
    form_ = Form::kEvents;
    return take_event();
  }

  const Turn* begun() const { return call_ ? &call_->turn().beginning() : nullptr; }

  bool is_over() {
    finish_if_computed();
    return !call_ && events_.empty();
  }

  void wait() const { waker_->wait(); }

  // Waits for the end of the turn, except in a child of fork().
  void finish() {
    if (call_ && call_->check_process().ok()) end(call_->finish());
  }

  Result<Turn> take_outcome() {
    if (call_) TRY(call_->check_process());
    CHECK(outcome_.has_value()) << "finish() is called once";
    return *std::exchange(outcome_, std::nullopt);
  }

 private:
  struct Stops {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };

  // How the owner takes the turn's events: as texts with poll(), or as events with poll_event(). Unknown until the
  // owner's first call.
  enum class Form { kUnknown, kTexts, kEvents };

  std::optional<TurnEvent> take_event() {
    finish_if_computed();
    std::optional<TurnEvent> event;
    if (call_) {
      Status status = guarded([&]() -> Status {
        event = take_from_turn();
        return {};
      });
      if (!status.ok()) end(std::move(status));
    } else if (!events_.empty()) {
      event = std::move(events_.front());
      events_.pop_front();
    }
    return event;
  }

  std::optional<TurnEvent> take_from_turn() {
    if (form_ != Form::kTexts) call_->turn().split_events();
    return call_->turn().take_event();
  }

  // If all tokens of the turn are computed, finishes the turn and keeps its remaining events in the owner's form. Does
  // nothing while this form is unknown and the options require parsed replies.
  void finish_if_computed() {
    if (!call_ || !call_->turn().is_computed()) return;
    if (form_ == Form::kUnknown && options_.parse_reply) return;
    Status status = guarded([&]() -> Status {
      while (std::optional<TurnEvent> event = take_from_turn()) {
        if (form_ != Form::kTexts || event->kind == TurnEvent::Kind::kText) events_.push_back(*std::move(event));
      }
      return {};
    });
    if (!status.ok()) return end(std::move(status));
    finish();
  }

  void end(Result<Turn> outcome) {
    outcome_ = std::move(outcome);
    call_.reset();
  }

  const std::shared_ptr<Waker> waker_;
  std::stop_source stop_;
  TurnOptions options_;
  const std::stop_callback<Stops> callers_stop_;
  std::optional<TurnCall> call_;  // unset when the turn is over
  Form form_ = Form::kUnknown;
  std::deque<TurnEvent> events_;  // events of a finished turn that the owner has not taken yet
  std::optional<Result<Turn>> outcome_;
};

TurnStream::TurnStream(TurnStream&&) noexcept = default;
TurnStream::~TurnStream() = default;

TurnStream::TurnStream(ChatSession& session, const TurnStart& start, TurnOptions options, std::shared_ptr<Waker> waker)
    : pulled_(Pulled::begin(session, start, std::move(options), std::move(waker))) {}

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
  pulled_->finish();
  return pulled_->take_outcome();
}

}  // namespace ibid
