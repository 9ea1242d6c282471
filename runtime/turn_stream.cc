#include "runtime/turn_stream.h"

#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "runtime/out_of_heap.h"

namespace ibid {

TurnStream::TurnStream(ChatSession& session, std::string message, TurnOptions options) {
  try {
    start([&session, message = std::move(message)](const TurnOptions& own, const TurnCallback& on_event) {
            return session.send(message, own, on_event);
          },
          std::move(options));
  } catch (const std::bad_alloc&) {
    end(out_of_heap());
  }
}

TurnStream::TurnStream(Ask ask, TurnOptions options) { start(std::move(ask), std::move(options)); }

void TurnStream::start(Ask ask, TurnOptions options) {
  try {
    stop_ = std::stop_source();
    thread_ = std::thread([this, ask = std::move(ask), options = std::move(options)]() mutable { run(ask, options); });
  } catch (const std::bad_alloc&) {
    end(out_of_heap());
  } catch (const std::system_error&) {
    end({ErrorCode::kOutOfMemory, "no thread left"});
  }
}

TurnStream::~TurnStream() {
  cancel();
  if (thread_.joinable()) thread_.join();
}

void TurnStream::run(const Ask& ask, TurnOptions& options) {
  const std::stop_callback callers_stop(options.stop, [this] { stop_.request_stop(); });
  options.stop = stop_.get_token();
  end(ask(options, [this](const TurnEvent& event) {
    if (event.kind != TurnEvent::Kind::kText) return;
    const std::lock_guard lock(mutex_);
    pieces_.emplace_back(event.text);
    moved_.notify_one();
  }));
}

void TurnStream::end(Result<Turn> turn) {
  const std::lock_guard lock(mutex_);
  outcome_ = std::move(turn);
  over_ = true;
  moved_.notify_one();
}

std::optional<std::string> TurnStream::next() {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [this] { return over_ || !pieces_.empty(); });
  if (pieces_.empty()) return std::nullopt;
  std::string piece = std::move(pieces_.front());
  pieces_.pop_front();
  return piece;
}

Result<Turn> TurnStream::finish() {
  if (thread_.joinable()) thread_.join();
  CHECK(outcome_.has_value()) << "finish() is called once";
  return *std::exchange(outcome_, std::nullopt);
}

}  // namespace ibid
