// CHECK: states an internal invariant. A failed CHECK is a bug of ibid: it prints file, line, the condition and the
// streamed message, and aborts. External input is never CHECKed; it gets a Status. DCHECK is CHECK in debug builds and
// does nothing in release builds.
#pragma once

#include <sstream>

namespace ibid {

// Collects the message of a failed CHECK and aborts when destroyed.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Turns the stream expression into void, so that both arms of CHECK's ?: have the same type.
struct CheckVoidify {
  void operator&(std::ostream&) const {}
};

}  // namespace ibid

#define CHECK(condition)             \
  (condition) ? static_cast<void>(0) \
              : ::ibid::CheckVoidify() & ::ibid::CheckFailure(__FILE__, __LINE__, #condition).stream()

#define CHECK_EQ(a, b) CHECK((a) == (b)) << (a) << " vs " << (b) << ' '
#define CHECK_LE(a, b) CHECK((a) <= (b)) << (a) << " vs " << (b) << ' '
#define CHECK_LT(a, b) CHECK((a) < (b)) << (a) << " vs " << (b) << ' '
#define CHECK_GE(a, b) CHECK((a) >= (b)) << (a) << " vs " << (b) << ' '

#ifdef NDEBUG
#define DCHECK(condition) CHECK(true || (condition))
#else
#define DCHECK(condition) CHECK(condition)
#endif
