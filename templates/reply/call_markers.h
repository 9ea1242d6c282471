// CallMarkers: finds where calls begin and end in an answer. Immutable; it has no state of an answer.
#pragma once

#include <cstddef>
#include <string_view>

#include "templates/reply/call_steps.h"
#include "templates/reply/reply_format.h"

namespace ibid {

// True for a trigger (the first word of a call) that is one ordinary character: it begins a call only at the beginning
// of an answer.
inline bool is_plain_trigger(std::string_view trigger) { return trigger.size() == 1; }

// Returns whether the text begins with the marker.
WordMatch match_marker(std::string_view text, std::string_view marker);

class CallMarkers {
 public:
  explicit CallMarkers(const CallSyntax& syntax) : steps_(make_call_steps(syntax)) {}

  const CallSteps& steps() const { return steps_; }

  // Each function returns whether the text begins with the described words, and sets `length` to their length.

  // Matches the first word of a call. is_first: nothing else is before the word in the answer.
  WordMatch call(std::string_view text, bool is_first, size_t& length) const;
  // Matches the text between two calls: as the template writes it, or a comma or semicolon. The text may be empty.
  WordMatch separator(std::string_view text, size_t& length) const;
  // Matches the first word of a call that follows another call.
  WordMatch next_call(std::string_view text, size_t& length) const;
  // Matches the closing tag of a call, written once more: models repeat it by mistake. kNo if a call does not end with
  // a tag.
  WordMatch end_of_call(std::string_view text, size_t& length) const;
  // Matches the end of the section of calls. Some of its words may be missing.
  WordMatch section_end(std::string_view text, size_t& length) const;

 private:
  CallSteps steps_;
};

}  // namespace ibid
