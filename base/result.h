// Status and Result<T> (ibid/result.h), and the macros that return an error to the caller.
//
// Use them for bytes from outside, I/O, capacity and user input. A broken invariant of our own is a CHECK
// (base/check.h), never a Status. Exceptions do not leave a module.
#pragma once

#include <new>

#include "base/check.h"
#include "ibid/result.h"

namespace ibid {

// Returns kOutOfMemory. The text is so short that std::string stores it without allocating.
inline Status out_of_heap() { return {ErrorCode::kOutOfMemory, "no heap memory"}; }

// Calls `body`, which returns a Status or a Result. If it throws std::bad_alloc, returns out_of_heap() instead. For the
// entry points of a module, which exceptions must not leave. Files compiled with -fno-exceptions do not have it.
#ifdef __cpp_exceptions
template <typename Body>
auto guarded(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
}
#endif

}  // namespace ibid

#define IBID_CONCAT_INNER(a, b) a##b
#define IBID_CONCAT(a, b) IBID_CONCAT_INNER(a, b)

// Returns from the calling function when `expression` (a Status) is not ok.
#define TRY(expression)                                                                \
  do {                                                                                 \
    if (::ibid::Status try_status = (expression); !try_status.ok()) return try_status; \
  } while (false)

// TRY_ASSIGN(auto x, f()): initialises x with f()'s value, or returns f()'s Status from the calling function.
#define TRY_ASSIGN(declaration, expression) TRY_ASSIGN_IMPL(IBID_CONCAT(try_result_, __LINE__), declaration, expression)
#define TRY_ASSIGN_IMPL(result, declaration, expression) \
  auto result = (expression);                            \
  if (!result.ok()) return result.status();              \
  declaration = std::move(result).value()
