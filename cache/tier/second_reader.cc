#include "cache/tier/second_reader.h"

namespace ibid {

SecondReader::SecondReader() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

void SecondReader::share(const std::function<void()>& read) {
  bool offers = false;
  {
    const std::lock_guard lock(mutex_);
    offers = state_ == State::kFree;
    if (offers) {
      state_ = State::kOffered;
      read_ = &read;
    }
  }
  if (offers) offered_.notify_one();
  read();
  if (!offers) return;
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return state_ != State::kReading; });
  state_ = State::kFree;
  read_ = nullptr;
}

void SecondReader::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (offered_.wait(lock, stop, [this] { return state_ == State::kOffered; })) {
    state_ = State::kReading;
    const std::function<void()>& read = *read_;
    lock.unlock();
    read();
    lock.lock();
    state_ = State::kDone;
    done_.notify_all();
  }
}

}  // namespace ibid
