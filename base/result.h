// Status and Result<T>: how every call that can fail for an outside reason says so.
//
// Use them for bytes from outside, I/O, capacity and user input. A broken invariant of our own is a
// CHECK (base/check.h), never a Status. Nothing throws across a module border.
//
// A message is one sentence that names the culprit (file, field), what was found and what was wanted;
// the code is for programs, the message for people.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace ibid {

enum class ErrorCode {
  kOk = 0,
  // Files and formats.
  kIo,                  // the operating system said no; the message holds its words
  kNotRegularFile,      // a directory, a FIFO, a device
  kChangedOnDisk,       // the file was truncated or replaced while it was open
  kTruncated,           // the file ends before its own header says so
  kBadMagic,            // not the format it claims to be
  kUnsupportedVersion,
  kBadHeader,           // malformed JSON or a rule of the container broken
  kLimitExceeded,       // a count or length beyond what the format or our budget allows
  kBadString,           // NUL, invalid UTF-8 or a hostile length in a name
  kDuplicate,           // the same key or name twice
  kBadType,             // a value or tensor of a type that is unknown or not the wanted one
  kBadNumber,           // not an integer where one is needed, or out of its range
  kBadShape,
  kOverflow,            // sizes whose product does not fit
  kBadAlignment,
  kBadOffset,           // data outside the file or overlapping
  kMissingShard,
  kMismatch,            // two parts that should agree and do not
  kCorrupt,             // bytes that are not those that were written: a checksum says so
  kUnsafePath,
  kMissingKey,          // metadata that the model needs is absent
  kMissingTensor,
  kBadHyperparameter,   // name, value and allowed range in the message
  kNonFinite,           // NaN or infinity where weights or logits must be finite
  kUnsupported,         // understood, and not supported: architecture, tensor type, feature
  // Tokenizers and templates.
  kBadVocab,
  kBadMerge,
  kBadByteToken,
  kTooLong,
  kTemplateSyntax,      // with the line
  kTemplateError,       // an operation that Jinja refuses
  kTemplateRaise,       // raise_exception: the message is the template's own text
  kTemplateBudget,      // steps, depth, bytes or range
  // Running.
  kInvalidArgument,
  kContextFull,         // both numbers in the message
  kOutOfMemory,         // a budget would be exceeded; wanted and available in the message
  kCancelled,
  kBusy,                // a concurrent call on a session that serves one turn at a time
  kNotFound,
};

// The name of a code without its k: "BadMagic".
std::string_view error_code_name(ErrorCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  // REQUIRES: code != kOk.
  Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {
    CHECK(code != ErrorCode::kOk);
  }

  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // "BadMagic: model.gguf: ..." for logs and tests.
  std::string to_string() const;

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string message_;
};

// A T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit, so that `return value;` reads well
  Result(Status status) : status_(std::move(status)) { CHECK(!status_.ok()); }  // NOLINT
  Result(ErrorCode code, std::string message) : status_(code, std::move(message)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok().
  T& value() & {
    CHECK(ok()) << status_.message();
    return *value_;
  }
  const T& value() const& {
    CHECK(ok()) << status_.message();
    return *value_;
  }
  T&& value() && {
    CHECK(ok()) << status_.message();
    return *std::move(value_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace ibid

#define IBID_CONCAT_INNER(a, b) a##b
#define IBID_CONCAT(a, b) IBID_CONCAT_INNER(a, b)

// Returns from the calling function when `expression` (a Status) is not ok.
#define TRY(expression)                                         \
  do {                                                          \
    if (::ibid::Status try_status = (expression); !try_status.ok()) return try_status; \
  } while (false)

// TRY_ASSIGN(auto x, f()): x is f()'s value, or the calling function returns f()'s Status.
#define TRY_ASSIGN(declaration, expression) \
  TRY_ASSIGN_IMPL(IBID_CONCAT(try_result_, __LINE__), declaration, expression)
#define TRY_ASSIGN_IMPL(result, declaration, expression) \
  auto result = (expression);                            \
  if (!result.ok()) return result.status();              \
  declaration = std::move(result).value()
