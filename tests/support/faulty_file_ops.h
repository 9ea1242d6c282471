// FaultyFileOps: a file system (by default the real one) in which one call fails. Run a scenario without a fault, read
// calls(), and run it again with a fault at each call. Thread-safe, except for the functions that set the fault.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_ops.h"

namespace ibid {

class FaultyFileOps : public FileOps {
 public:
  explicit FaultyFileOps(FileOps& files = system_file_ops()) : files_(files) {}

  // Makes the nth call from now on (0 is the next one) fail with kIo and the message of `error_number`. If it is a
  // write, half of its bytes are written.
  void fail_call(int nth, int error_number = EIO) {
    error_number_ = error_number;
    fail_at_ = calls_ + nth;
  }
  // Makes the nth call and all later ones fail, as if the process had been killed there.
  void crash_at_call(int nth) {
    fail_call(nth);
    crashing_ = true;
  }
  // Makes all calls succeed again.
  void recover() {
    fail_at_ = -1;
    crashing_ = false;
  }
  int calls() const { return calls_; }

  Result<std::unique_ptr<File>> open_to_read(const std::string& path) override;
  Result<std::unique_ptr<File>> create(const std::string& path) override;
  Result<std::unique_ptr<File>> create_new(const std::string& path) override;
  Result<FileInfo> info(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_directory(const std::string& path) override;
  Result<std::unique_ptr<Directory>> open_directory(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;

  // Called before each call, on its thread, with the call's name ("write", "list" ...). Set it before the first call.
  std::function<void(std::string_view what)> before_call;

  // Counts a call and returns its result. The files and directories that this object opened call it.
  Status next_call(std::string_view what);

 private:
  FileOps& files_;
  std::atomic<int> calls_{0};
  std::atomic<int> fail_at_{-1};
  std::atomic<int> error_number_{EIO};
  std::atomic<bool> crashing_{false};
};

}  // namespace ibid
