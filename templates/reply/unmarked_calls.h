// UnmarkedCalls: recognises an answer that consists of nothing but calls as JSON objects, although the model was to
// write them in another form: one or more objects, bare or each in its own code fence (```), or one list of objects.
// Each object has the name of an offered tool and arguments that the tool's schema accepts, and no other member. It
// reads each byte once, and fails at the first byte that no such answer can have there. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "templates/reply/json_scanner.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_format.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

class UnmarkedCalls {
 public:
  enum class State { kOpen, kDone, kBad };

  // Both arguments must outlive the object.
  UnmarkedCalls(const CallSyntax& syntax, const OfferedTools& tools) : syntax_(syntax), tools_(tools) {}

  // True if such an answer may begin with `text`, which is not empty.
  static bool may_begin(std::string_view text);

  // Continues with `text`, which has only grown since the last call. The result is kDone only if at_end is true.
  State read(std::string_view text, bool at_end);
  const std::vector<ParsedCall>& calls() const { return calls_; }

 private:
  enum class Expected {
    kUnit,
    kFence,
    kLanguage,
    kInner,
    kObject,
    kSecondBrace,
    kFirstElement,
    kElement,
    kNext,
    kAfterUnit
  };

  // Each function reads the next bytes of the answer, and returns false at a byte that cannot follow.
  bool take(std::string_view text);
  bool take_brace(std::string_view text);
  bool take_in_object(std::string_view text);
  bool take_after_unit(char c);
  bool keys_fit(std::string_view text) const;
  bool end_object(std::string_view text);

  const CallSyntax& syntax_;
  const OfferedTools& tools_;
  Expected expected_ = Expected::kUnit;
  size_t at_ = 0;
  size_t n_ticks_ = 0;  // number of backticks of the current fence
  bool in_fence_ = false, in_list_ = false, is_doubled_ = false;
  bool may_go_on_ = true;  // another object may follow; false after a list, which is the whole answer
  size_t object_begin_ = 0;
  std::optional<JsonScanner> json_;
  std::vector<ParsedCall> calls_;
};

}  // namespace ibid
