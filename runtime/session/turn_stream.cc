#include "runtime/session/turn_stream.h"

#include <algorithm>
#include <deque>
#include <new>
#include <stop_token>
#include <utility>

#include "base/check.h"
#include "runtime/out_of_heap.h"
#include "runtime/session/turn_call.h"

namespace ibid {

class TurnStream::Pulled {
 public:
  Pulled(ChatSession& session, TurnOptions options, std::shared_ptr<Bell> bell)
      : bell_(bell != nullptr ? std::move(bell) : std::make_shared<Bell>()),
        options_(std::move(options)),
        callers_stop_(std::exchange(options_.stop, stop_.get_token()), Stops{&stop_}),
        call_(std::in_place, session, options_, bell_) {}

  // begin(call): has it begin, or says why not.
  template <typename Begin>
  static std::unique_ptr<Pulled> make(ChatSession& session, TurnOptions&& options, std::shared_ptr<Bell>&& bell,
                                      const Begin& begin) {
    std::unique_ptr<Pulled> pulled;
    try {
      pulled = std::make_unique<Pulled>(session, std::move(options), std::move(bell));
      if (Status status = begin(*pulled->call_); !status.ok()) pulled->end(std::move(status));
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
    while (!events_.empty() && events_.front().kind != Event::Kind::kText) events_.pop_front();
    if (events_.empty()) return std::nullopt;
    std::string piece = std::move(events_.front().text);
    events_.pop_front();
    return piece;
  }

  std::optional<Event> poll_event() {
    wants_ = Wants::kEvents;
    look();
    if (events_.empty()) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  const Turn* begun() const { return call_ ? &call_->beginning() : nullptr; }

  bool is_over() {
    look();
    if (call_) return false;
    if (wants_ == Wants::kEvents) return events_.empty();
    return std::ranges::none_of(events_, [](const Event& event) { return event.kind == Event::Kind::kText; });
  }

  void wait() const { bell_->wait(); }

  // Takes what there is, and ends the turn once its answer is over.
  void look() {
    if (!call_) return;
    const bool over = call_->is_over();  // first: what was queued till then is there
    const bool in_parts = wants_ == Wants::kEvents && options_.parse_reply;
    const ReplyParser::Listener take_part = [this](const ReplyEvent& part) {
      events_.push_back({.kind = Event::Kind::kPart, .part = part});
    };
    try {
      for (AnswerEvent& event : call_->take_events()) {
        if (wants_ != Wants::kTexts && !event.logprobs.empty()) {
          events_.push_back({.kind = Event::Kind::kLogprobs, .logprobs = std::move(event.logprobs)});
        }
        if (event.kind == AnswerEvent::Kind::kText && in_parts) {
          call_->read_reply(event.text, take_part);
        } else if (event.kind == AnswerEvent::Kind::kText) {
          events_.push_back({.text = std::move(event.text)});
        } else if (wants_ != Wants::kTexts) {
          events_.push_back({.kind = Event::Kind::kPrefill, .n_done = event.n_done});
        }
      }
    } catch (const std::bad_alloc&) {
      return end(out_of_heap());
    }
    if (over) end(call_->finish({}, in_parts ? take_part : ReplyParser::Listener()));
  }

  void wait_for_end() {
    while (call_ && call_->check_process().ok()) {
      if (call_->is_over()) return look();
      bell_->wait();
    }
  }

  Result<Turn> take_outcome() {
    if (call_) TRY(call_->check_process());
    CHECK(outcome_.has_value()) << "finish() is called once";
    return *std::exchange(outcome_, std::nullopt);
  }

 private:
  // What its owner pulls. Until that is known, everything is kept.
  enum class Wants { kUnknown, kTexts, kEvents };
  struct Stops {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };

  void end(Result<Turn> outcome) {
    outcome_ = std::move(outcome);
    call_.reset();
  }

  const std::shared_ptr<Bell> bell_;
  std::stop_source stop_;
  TurnOptions options_;
  const std::stop_callback<Stops> callers_stop_;
  std::optional<TurnCall> call_;  // until the turn is over
  std::deque<Event> events_;
  Wants wants_ = Wants::kUnknown;
  std::optional<Result<Turn>> outcome_;
};

TurnStream::TurnStream(std::unique_ptr<Pulled> pulled) : pulled_(std::move(pulled)) {}
TurnStream::TurnStream(TurnStream&&) noexcept = default;
TurnStream::~TurnStream() = default;

TurnStream::TurnStream(ChatSession& session, std::string_view message, TurnOptions options,
                       std::shared_ptr<Bell> bell)
    : pulled_(Pulled::make(session, std::move(options), std::move(bell),
                           [&](TurnCall& call) { return call.send(message, {}, true); })) {}

TurnStream TurnStream::answer(ChatSession& session, TurnOptions options, std::shared_ptr<Bell> bell) {
  return TurnStream(Pulled::make(session, std::move(options), std::move(bell),
                                 [](TurnCall& call) { return call.answer({}, true); }));
}

TurnStream TurnStream::regenerate(ChatSession& session, TurnOptions options, std::shared_ptr<Bell> bell) {
  return TurnStream(Pulled::make(session, std::move(options), std::move(bell),
                                 [](TurnCall& call) { return call.regenerate({}, true); }));
}

TurnStream TurnStream::edit(ChatSession& session, size_t message, std::string_view text, TurnOptions options,
                            std::shared_ptr<Bell> bell) {
  return TurnStream(Pulled::make(session, std::move(options), std::move(bell),
                                 [&](TurnCall& call) { return call.edit(message, text, {}, true); }));
}

std::optional<std::string> TurnStream::poll() { return pulled_ == nullptr ? std::nullopt : pulled_->poll(); }

std::optional<TurnStream::Event> TurnStream::poll_event() {
  return pulled_ == nullptr ? std::nullopt : pulled_->poll_event();
}

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
