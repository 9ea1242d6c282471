// FaultyVfs: SQLite's own file system, in which one call fails. Run a scenario with each call failing in turn, until
// none has failed. Not thread-safe.
#pragma once

#include <sqlite3.h>

#include <functional>

namespace ibid::serve {

class FaultyVfs {
 public:
  FaultyVfs();
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  const char* name() const { return vfs_.zName; }

  // Makes the nth call from now fail (0: the next one); a write that fails writes half of its bytes. is_full: only
  // writes count, and the error is a full disk. for_good: all later calls fail too, as if the process were killed.
  void fail_call(int nth, bool is_full = false, bool for_good = false) {
    is_full_ = is_full, for_good_ = for_good;
    fail_at_ = (is_full ? n_writes_ : n_calls_) + nth;
  }
  void recover() { fail_at_ = -1; }
  bool has_failed() const { return fail_at_ >= 0 && (is_full_ ? n_writes_ : n_calls_) > fail_at_; }

  // Called before each write.
  std::function<void()> before_write;

  // True if this call fails. is_write: it is a write.
  bool fails(bool is_write);
  int write_error() const { return is_full_ ? SQLITE_FULL : SQLITE_IOERR_WRITE; }
  sqlite3_vfs* real() const { return real_; }

 private:
  sqlite3_vfs* const real_;
  sqlite3_vfs vfs_;
  int n_calls_ = 0, n_writes_ = 0, fail_at_ = -1;
  bool is_full_ = false, for_good_ = false;
};

}  // namespace ibid::serve
