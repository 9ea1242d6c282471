// SecondReader: a thread that helps whoever reads many pages. Neither disk nor memory is busy with one reader. The
// thread is made once, so that reading makes none; it sleeps while nobody reads.
//
// Thread-safe. It helps one caller at a time: another one reads alone.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace ibid {

class SecondReader {
 public:
  // Throws std::system_error when there is no thread, std::bad_alloc.
  SecondReader();
  SecondReader(const SecondReader&) = delete;
  SecondReader& operator=(const SecondReader&) = delete;

  // Calls `read` on the calling thread, and at the same time on the second one if that is free and awake in time.
  // Returns when neither calls it any more.
  // REQUIRES: read() throws nothing, and two calls at once share the work between them.
  void share(const std::function<void()>& read);

 private:
  void run(const std::stop_token& stop);

  // kFree -> kOffered, by a caller -> kReading, by the thread -> kDone -> kFree, by the same caller. A caller who has
  // read everything before the thread woke takes the offer back.
  enum class State { kFree, kOffered, kReading, kDone };

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any offered_;
  std::condition_variable done_;
  State state_ = State::kFree;
  const std::function<void()>* read_ = nullptr;  // of the caller that is helped

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace ibid
