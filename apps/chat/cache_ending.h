// Ends a program with a cache directory. It writes what waits to be written there, for no longer than a person
// waits for a prompt, and says what was not written.
#pragma once

#include <memory>

#include "apps/chat/screen.h"
#include "runtime/engine/engine.h"

namespace ibid {

class CacheEnding {
 public:
  // `screen` must outlive this. Made before the conversation: it ends after it.
  CacheEnding(std::shared_ptr<Engine> engine, Screen& screen);
  ~CacheEnding();
  CacheEnding(const CacheEnding&) = delete;
  CacheEnding& operator=(const CacheEnding&) = delete;

 private:
  const std::shared_ptr<Engine> engine_;
  Screen& screen_;
};

}  // namespace ibid
