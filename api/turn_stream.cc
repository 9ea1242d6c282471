#include "ibid/turn_stream.h"

#include <new>
#include <utility>

#include "api/inside.h"
#include "runtime/out_of_heap.h"
#include "runtime/session/turn_stream.h"

namespace ibid::api {

Bell::Bell() : parts_(std::make_shared<Parts>()) {}
Bell::~Bell() = default;
void Bell::ring() noexcept { parts_->bell.ring(); }
void Bell::wait() noexcept { parts_->bell.wait(); }

// Null where there was no memory for it: a stream that is over.
struct TurnStream::Parts {
  ibid::TurnStream stream;

  template <typename Begin>
  static std::unique_ptr<Parts> make(const Begin& begin) {
    try {
      return std::unique_ptr<Parts>(new Parts{begin()});
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
};

TurnStream::TurnStream(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TurnStream::TurnStream(TurnStream&&) noexcept = default;
TurnStream::~TurnStream() = default;

TurnStream::TurnStream(ChatSession& session, std::string_view message, TurnOptions options,
                       std::shared_ptr<Bell> bell)
    : parts_(Parts::make([&] {
        return ibid::TurnStream(Inside::session(session), message, std::move(options), Inside::bell(bell));
      })) {}

TurnStream TurnStream::answer(ChatSession& session, TurnOptions options, std::shared_ptr<Bell> bell) {
  return TurnStream(Parts::make([&] {
    return ibid::TurnStream::answer(Inside::session(session), std::move(options), Inside::bell(bell));
  }));
}

TurnStream TurnStream::regenerate(ChatSession& session, TurnOptions options, std::shared_ptr<Bell> bell) {
  return TurnStream(Parts::make([&] {
    return ibid::TurnStream::regenerate(Inside::session(session), std::move(options), Inside::bell(bell));
  }));
}

TurnStream TurnStream::edit(ChatSession& session, size_t message, std::string_view text, TurnOptions options,
                            std::shared_ptr<Bell> bell) {
  return TurnStream(Parts::make([&] {
    return ibid::TurnStream::edit(Inside::session(session), message, text, std::move(options), Inside::bell(bell));
  }));
}

std::optional<std::string> TurnStream::next() { return parts_ == nullptr ? std::nullopt : parts_->stream.next(); }
std::optional<std::string> TurnStream::poll() { return parts_ == nullptr ? std::nullopt : parts_->stream.poll(); }
bool TurnStream::is_over() { return parts_ == nullptr || parts_->stream.is_over(); }

void TurnStream::cancel() {
  if (parts_ != nullptr) parts_->stream.cancel();
}

Result<Turn> TurnStream::finish() {
  if (parts_ == nullptr) return out_of_heap();
  return parts_->stream.finish();
}

}  // namespace ibid::api
