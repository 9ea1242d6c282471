// Status and Result<T>: the return types of calls that can fail for external reasons. No call throws instead.
//   const auto engine = ibid::Engine::load("model.gguf");
//   if (!engine.ok()) std::cerr << engine.status().message();
// A message is one sentence that names the culprit (file, field), the value found and the value expected. The code is
// for programs, the message for people. Both types are values: any number of threads may read a const one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

// IBID_EXPORT marks the names that the shared library exports; it hides all others.
#ifdef _WIN32
#define IBID_EXPORT
#else
#define IBID_EXPORT [[gnu::visibility("default")]]
#endif

namespace ibid {

enum class ErrorCode {
  kOk = 0,
  // Files and formats.
  kIo,              // the operating system reported an error; the message has its text
  kNotRegularFile,  // the path is a directory, a FIFO or a device
  kChangedOnDisk,   // the file was truncated or replaced while it was open
  kTruncated,       // the file is shorter than its header says
  kBadMagic,        // the file does not have the format that it claims
  kUnsupportedVersion,
  kBadHeader,      // malformed JSON, or the header breaks a rule of its format
  kLimitExceeded,  // a count or length is above a limit of the format or of ibid
  kBadString,      // a name contains NUL or invalid UTF-8, or has a hostile length
  kDuplicate,      // the same key or name occurs twice
  kBadType,        // a value or tensor has an unknown or unexpected type
  kBadNumber,      // a number that is not an integer where one is needed, or is out of range
  kBadShape,
  kOverflow,  // the product of sizes overflows
  kBadAlignment,
  kBadOffset,  // data are outside of the file, or overlap
  kMissingShard,
  kMismatch,  // two parts of a model or file that should agree differ
  kCorrupt,   // a checksum does not match
  kUnsafePath,
  kMissingKey,  // metadata that the model needs is absent
  kMissingTensor,
  kBadHyperparameter,  // a hyperparameter is out of range; name, value and allowed range in the message
  kNonFinite,          // a weight or logit is NaN or infinite
  kUnsupported,        // valid, but not supported: an architecture, tensor type or feature
  // Tokenizers and templates.
  kBadVocab,
  kBadMerge,
  kBadByteToken,
  kTooLong,
  kTemplateSyntax,  // a syntax error in the template; the message has its line
  kTemplateError,   // an operation that Jinja does not define
  kTemplateRaise,   // the template called raise_exception; the message is its text
  kTemplateBudget,  // the template takes too many steps or bytes, nests too deeply, or has too long a range
  // Running.
  kInvalidArgument,
  kContextFull,  // the context has too few positions; needed and available tokens in the message
  kOutOfMemory,  // a memory budget would be exceeded; needed and available bytes in the message
  kCancelled,
  kBusy,  // another call is using the session, which runs one turn at a time
  kNotFound,
  kDeadline,  // a time limit has passed
};

// The name of a code without the k: "BadMagic".
IBID_EXPORT std::string_view error_code_name(ErrorCode code);

class [[nodiscard]] IBID_EXPORT Status {
 public:
  Status() = default;  // ok
  // REQUIRES: code != kOk.
  Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {
    if (code == ErrorCode::kOk) misused("an error with the code of success");
  }

  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // The code and the message, for logs and tests: "BadMagic: model.gguf: ...".
  std::string to_string() const;

  // Writes `how` and the message to standard error and aborts: the program has a bug.
  [[noreturn]] void misused(const char* how) const;

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string message_;
};

// A T, or the Status of the failure.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit, so that `return value;` reads well
  Result(Status status) : status_(std::move(status)) {  // NOLINT
    if (status_.ok()) status_.misused("a result with neither a value nor an error");
  }
  Result(ErrorCode code, std::string message) : status_(code, std::move(message)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // REQUIRES: ok(); otherwise aborts.
  T& value() & {
    need_value();
    return *value_;
  }
  const T& value() const& {
    need_value();
    return *value_;
  }
  T&& value() && {
    need_value();
    return *std::move(value_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

 private:
  void need_value() const {
    if (!ok()) status_.misused("the value of an error was taken");
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace ibid
