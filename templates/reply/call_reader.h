// CallReader: parses one tool call from a text that still grows, following the steps of the call's form. It reads each
// byte once, and fails at the first byte that no call of this form can have there. It does not own the text: the caller
// keeps the text from the call's first byte on. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/reply/call_steps.h"
#include "templates/reply/json_scanner.h"
#include "templates/reply/parameter_reader.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_format.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

class CallReader {
 public:
  enum class State { kOpen, kDone, kBad };

  // first_step: index of the first of steps.steps to read: 0, or steps.n_opening for a call in a section that is open
  // already. The other arguments must outlive the object.
  CallReader(const CallSteps& steps, const OfferedTools& tools, size_t first_step);

  // Continues with `text`, which begins at the call's first byte and has only grown since the last call. at_end: no
  // more text will come, so the result is not kOpen.
  State read(std::string_view text, bool at_end);

  size_t n_taken() const { return at_; }  // number of bytes read; of a complete call, its length
  // Returns the complete call. `text` is the argument of the last read().
  ParsedCall call(std::string_view text) const;

  // Returns the arguments read so far of an incomplete call. Empty if the name is not known yet, or if the arguments
  // have to be converted to JSON first.
  std::string_view arguments_so_far(std::string_view text) const;
  const std::string& name() const { return name_; }
  // Returns the call's id if it precedes the arguments.
  std::string early_id() const { return steps_.syntax.envelope ? std::string() : id_; }

 private:
  enum class Step { kDone, kMore, kBad };

  Step step(std::string_view text, bool at_end);
  Step read_word(std::string_view text, bool at_end);
  Step read_closing(std::string_view text, bool at_end);
  Step read_name(std::string_view text);
  Step read_id(std::string_view text);
  Step read_index(std::string_view text);
  Step read_arguments(std::string_view text, bool at_end);
  Step read_json(std::string_view text);
  Step read_loose(std::string_view text);
  Step read_envelope(std::string_view text);
  Step read_object(std::string_view text);
  Step begin_envelope(std::string_view text);
  bool check_members(std::string_view text);
  bool finish_envelope(std::string_view text);
  bool set_name(std::string_view name);
  // Reads up to the next byte that cannot be part of a name or id; kMore if the text ends before such a byte.
  Step read_until(std::string_view text, std::string_view stops, std::string& out);
  void skip_spaces(std::string_view text);
  bool only_closing_is_missing(std::string_view text) const;
  const CallStep& current() const { return steps_.steps[step_]; }

  const CallSteps& steps_;
  const OfferedTools& tools_;
  size_t step_;
  size_t at_ = 0;  // bytes read
  std::string name_, id_;
  size_t n_members_checked_ = 0;
  std::optional<JsonScanner> json_;
  size_t json_begin_ = 0;
  bool in_envelope_ = false;  // the JSON object that is being read has the tool's name as well as the arguments
  bool doubled_ = false;      // a second pair of braces is around this JSON object
  std::optional<LooseScanner> loose_;
  std::optional<ParameterReader> parameters_;
  // The arguments converted to JSON. If empty, the text from arguments_begin_ to arguments_end_ is JSON already.
  std::string arguments_;
  size_t arguments_begin_ = 0, arguments_end_ = 0;
  bool has_arguments_ = false;
};

}  // namespace ibid
