// LaterFingerprint: the fingerprint of a model whose files may still be hashed, because hashing takes as long as
// loading and runs beside it. Only the first look-up in a tier, or the first saved session, waits for it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/result.h"
#include "cache/tier/kv_record.h"

namespace ibid {

// A digest that a thread of its own computes. Thread-safe. In a child of fork() only a digest that was known before the
// fork can be got, and the destructor leaks the thread, which is the parent's.
class LaterDigest {
 public:
  // compute: throws nothing but std::bad_alloc; ends soon after a stop request. Throws std::system_error if no thread
  // can be started.
  explicit LaterDigest(std::function<Result<Sha256Digest>(const std::stop_token& stop)> compute);
  // Stops the thread.
  ~LaterDigest();
  LaterDigest(const LaterDigest&) = delete;
  LaterDigest& operator=(const LaterDigest&) = delete;

  // Waits for the digest. Errors: those of computing it; kCancelled after a stop request; kDeadline after `limit`.
  Result<Sha256Digest> get(const std::stop_token& stop, std::chrono::nanoseconds limit);

 private:
  const pid_t process_;
  std::mutex mutex_;
  std::condition_variable_any done_;
  std::optional<Result<Sha256Digest>> digest_;  // guarded by mutex_
  std::unique_ptr<std::jthread> thread_;        // last, because it uses all other members
};

// Thread-safe; copies share one thread.
class LaterFingerprint {
 public:
  static constexpr std::chrono::nanoseconds kNoLimit = std::chrono::hours(24 * 365);
  // Limit at the end of a turn: with a longer wait, the user would wait, and without any, a turn that ends while the
  // last bytes are hashed would not be written.
  static constexpr std::chrono::nanoseconds kBrief = std::chrono::milliseconds(200);

  LaterFingerprint() = default;  // a fingerprint of zeros
  // NOLINTNEXTLINE(google-explicit-constructor): a known fingerprint is one that needs no waiting.
  LaterFingerprint(const Fingerprint& known) : known_(known) {}
  // The fingerprint of files with this digest, used with these settings. The settings' version of the numerics is that
  // of the fingerprint.
  LaterFingerprint(const Fingerprint& settings, std::shared_ptr<LaterDigest> files)
      : known_(settings), files_(std::move(files)) {}

  uint32_t numerics_version() const { return known_.numerics_version; }

  // Waits for the fingerprint. Errors: those of LaterDigest::get().
  Result<Fingerprint> get(const std::stop_token& stop = {}, std::chrono::nanoseconds limit = kNoLimit) const;

 private:
  Fingerprint known_;                   // the fingerprint; if files_ is set, that of the settings
  std::shared_ptr<LaterDigest> files_;  // null: known_ is the whole fingerprint
};

}  // namespace ibid
