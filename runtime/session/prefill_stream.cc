#include "runtime/session/prefill_stream.h"

#include <utility>

#include "base/result.h"
#include "runtime/session/prefill_ahead.h"
#include "runtime/session/session_state.h"

namespace ibid {

struct PrefillStream::Parts {
  explicit Parts(SessionState& s) : state(s), guard(s) {}

  SessionState& state;
  const SessionGuard guard;
  std::unique_ptr<PrefillAhead> prefill;  // null: nothing to prefill
};

PrefillStream::PrefillStream(ChatSession& session, Priority priority, std::stop_token stop,
                             std::shared_ptr<Waker> waker)
    : status_(begin(session, priority, std::move(stop), std::move(waker))) {
  if (!status_.ok()) parts_.reset();
}

PrefillStream::PrefillStream(PrefillStream&&) noexcept = default;

PrefillStream::~PrefillStream() {
  // In a child of fork() no thread can end the prefill, so leak it.
  if (parts_ != nullptr && !parts_->state.engine->state().check_process().ok()) (void)parts_.release();
}

Status PrefillStream::begin(ChatSession& session, Priority priority, std::stop_token stop,
                            std::shared_ptr<Waker> waker) {
  return guarded([&]() -> Status {
    parts_ = std::make_unique<Parts>(session.state());
    TRY(parts_->guard.status());
    TRY_ASSIGN(parts_->prefill, parts_->state.begin_prefill_ahead(priority, std::move(stop), std::move(waker)));
    return {};
  });
}

const Usage* PrefillStream::begun() const {
  return parts_ == nullptr || parts_->prefill == nullptr ? nullptr : &parts_->prefill->usage();
}

bool PrefillStream::is_over() const {
  return parts_ == nullptr || parts_->prefill == nullptr || parts_->prefill->is_over();
}

Result<Usage> PrefillStream::finish() {
  TRY(status_);
  const std::unique_ptr<Parts> parts = std::move(parts_);
  CHECK(parts != nullptr) << "finish() is called once";
  if (parts->prefill == nullptr) return Usage{};
  return guarded([&] { return parts->state.branch.cache.end_prefill(*parts->prefill); });
}

}  // namespace ibid
