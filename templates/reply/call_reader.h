// CallReader: reads one call of a tool from a text that still grows, by the steps of its form. It looks at a byte once,
// and gives up at the first byte that no call can have there. It owns no text: whoever calls it keeps the text from the
// call's first byte on. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "templates/reply/call_steps.h"
#include "templates/reply/json_scanner.h"
#include "templates/reply/loose_values.h"
#include "templates/reply/offered_tools.h"
#include "templates/reply/parameter_reader.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

class CallReader {
 public:
  enum class State { kOpen, kDone, kBad };

  // first_step: 0, or steps.n_opening for a call within a section. Both arguments must outlive it.
  CallReader(const CallSteps& steps, const OfferedTools& tools, size_t first_step);

  // Goes on with `text`, which begins where the call begins and has only grown since the last time. at_end: no more
  // text will come; then the state is not kOpen.
  State read(std::string_view text, bool at_end);

  size_t n_taken() const { return at_; }  // bytes; of a call that is done, its length
  // Of a call that is done. `text` is what read() had.
  ParsedCall call(std::string_view text) const;

  // Of a call that is still read: what is there of its arguments. Empty: the name is not known yet, or the arguments
  // have to be made JSON first.
  std::string_view arguments_so_far(std::string_view text) const;
  const std::string& name() const { return name_; }
  // As far as the text in front of the arguments says it.
  std::string early_id() const { return steps_.syntax.envelope ? std::string() : id_; }

 private:
  enum class Step { kDone, kMore, kBad };

  Step step(std::string_view text, bool at_end);
  Step read_word(std::string_view text);
  Step read_name(std::string_view text);
  Step read_id(std::string_view text);
  Step read_index(std::string_view text);
  Step read_arguments(std::string_view text, bool at_end);
  Step read_json(std::string_view text);
  Step read_loose(std::string_view text);
  Step read_envelope(std::string_view text);
  bool check_members(std::string_view text);
  bool finish_envelope(std::string_view text);
  bool set_name(std::string_view name);
  // Takes bytes up to one that ends names or ids; kMore: the text ends first.
  Step read_until(std::string_view text, std::string_view stops, std::string& out);
  void skip_spaces(std::string_view text);
  bool only_closing_is_missing(std::string_view text) const;
  const CallStep& current() const { return steps_.steps[step_]; }

  const CallSteps& steps_;
  const OfferedTools& tools_;
  size_t step_;
  size_t at_ = 0;            // bytes that were read
  std::string name_, id_;
  size_t n_members_checked_ = 0;
  std::optional<JsonScanner> json_;
  size_t json_begin_ = 0;
  std::optional<LooseScanner> loose_;
  std::optional<ParameterReader> parameters_;
  // The arguments: made JSON, or where they stand in the text.
  std::string arguments_;
  size_t arguments_begin_ = 0, arguments_end_ = 0;
  bool has_arguments_ = false;
};

}  // namespace ibid
