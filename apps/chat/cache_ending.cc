#include "apps/chat/cache_ending.h"

#include <utility>

#include "cache/tier/kv_tier.h"

namespace ibid {

CacheEnding::CacheEnding(std::shared_ptr<Engine> engine, Screen& screen)
    : engine_(std::move(engine)), screen_(screen) {}

CacheEnding::~CacheEnding() {
  if (engine_->tier() == nullptr) return;
  const Status status = engine_->tier()->flush(KvTier::kEndingNs);
  if (status.ok()) return;
  // Some errors have no words: there was no memory for them.
  const std::string reason = status.message().empty() ? "no memory" : status.message();
  screen_.note("not all keys and values are on disk, the rest will be read again (" + reason + ")");
}

}  // namespace ibid
