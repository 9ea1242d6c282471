// FaultyFileOps: the real file system, of which one call fails. Run a scenario without a fault, read
// calls(), and run it again for each of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file_ops.h"

namespace ibid {

class FaultyFileOps : public FileOps {
 public:
  explicit FaultyFileOps(FileOps& files = system_file_ops()) : files_(files) {}

  // The nth call from now on (0 is the next one) fails with kIo; a failing write leaves half of its bytes.
  void fail_call(int nth) { fail_at_ = calls_ + nth; }
  // From the failing call on, everything fails: a process that was killed there changes nothing any more.
  void crash_at_call(int nth) {
    fail_call(nth);
    crashing_ = true;
  }
  int calls() const { return calls_; }

  Result<std::unique_ptr<File>> open_to_read(const std::string& path) override;
  Result<std::unique_ptr<File>> create(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_directory(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;

  // Counts a call and says how it ends; for the files that this made.
  Status next_call();

 private:
  FileOps& files_;
  int calls_ = 0;
  std::optional<int> fail_at_;
  bool crashing_ = false;
};

}  // namespace ibid
