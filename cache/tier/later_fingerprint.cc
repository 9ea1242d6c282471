#include "cache/tier/later_fingerprint.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace ibid {

LaterDigest::LaterDigest(std::function<Result<Sha256Digest>(const std::stop_token& stop)> compute)
    : process_(::getpid()),
      thread_(std::make_unique<std::jthread>([this, compute = std::move(compute)](const std::stop_token& stop) mutable {
        Result<Sha256Digest> digest = guarded([&] { return compute(stop); });
        compute = nullptr;  // frees what it holds, such as the mapping of a file
        const std::lock_guard lock(mutex_);
        digest_ = std::move(digest);
        done_.notify_all();
      })) {}

LaterDigest::~LaterDigest() {
  if (::getpid() != process_) (void)thread_.release();
}

Result<Sha256Digest> LaterDigest::get(const std::stop_token& stop, std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  const bool waits = ::getpid() == process_;
  if (waits) (void)done_.wait_for(lock, stop, limit, [this] { return digest_.has_value(); });
  if (digest_) return *digest_;
  if (!waits) return {ErrorCode::kUnsupported, "fingerprint: its thread is the parent's; fork() before loading"};
  if (stop.stop_requested()) return {ErrorCode::kCancelled, "fingerprint: cancelled"};
  return {ErrorCode::kDeadline, "fingerprint: the files of the model are still being hashed"};
}

Result<Fingerprint> LaterFingerprint::get(const std::stop_token& stop, std::chrono::nanoseconds limit) const {
  if (files_ == nullptr) return known_;
  TRY_ASSIGN(const Sha256Digest digest, files_->get(stop, std::min(limit, kNoLimit)));
  FingerprintBuilder builder;
  builder.add("settings", known_.bytes).add("files", digest);
  return builder.finish(known_.numerics_version);
}

}  // namespace ibid
