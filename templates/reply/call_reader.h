// CallReader: parses one tool call from a text that still grows, following the steps of the call's form. It reads each
// byte once, and fails at the first byte that no call of this form can have there. It does not own the text: the caller
// keeps the text from the call's first byte on. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "templates/reply/json_scanner.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_format.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

// --- CallSteps: a CallSyntax converted to the steps of a reader, in order. Immutable plain data.

struct CallStep {
  enum class Kind { kWord, kName, kId, kIndex, kArguments, kEnvelope };
  Kind kind = Kind::kWord;
  std::string word = {};  // kWord: may be preceded by spaces
  // kWord: number of steps, this one included, to skip if the word is missing; 0: it is required.
  size_t n_optional = 0;
};

struct CallSteps {
  std::vector<CallStep> steps;
  // Number of first steps, which open the section of calls; later calls of the section start after them.
  size_t n_opening = 0;
  std::vector<std::string> separator, section_end;  // words
  CallSyntax syntax;
  // The texts of ParameterSyntax, split into words.
  std::vector<std::string> before_key, before_value, before_other_value, after_value;
  bool names_in_ids = false;        // the form has no separate name: the name is part of the id ("functions.NAME:0")
  std::string id_begin, id_middle;  // texts of ids that are made from name and index; empty: ids have another form
};

CallSteps make_call_steps(const CallSyntax& syntax);

// Returns the words that begin a call, for CallSyntax::triggers.
std::vector<std::string> call_triggers(const CallSyntax& syntax);

// --- ParameterReader: parses arguments between markers from a text that still grows:
// <parameter=city>Paris</parameter>. Part of a CallReader. It reads a byte a bounded number of times.

class ParameterReader {
 public:
  enum class State { kOpen, kDone, kBad };

  // `end`: the words after the last argument; not empty. All other arguments must outlive the object.
  ParameterReader(const CallSteps& steps, std::vector<std::string> end, const OfferedTools& tools, std::string tool);

  // Continues at text[n_taken()..]. If the result is kDone, n_taken() is the position of the first word of `end`.
  State read(std::string_view text, bool at_end);
  size_t n_taken() const { return at_; }
  void begin_at(size_t at) { at_ = at; }

  // Returns the arguments read so far, as a JSON object.
  std::string json() const { return json_.empty() ? "{}" : json_ + "}"; }

 private:
  enum class Match { kYes, kMore, kNo };
  enum class Wants { kKeyMarker, kKey, kValueMarker, kEdge, kValue };

  // Matches words at position `at`, with spaces allowed between words, and moves `at` past the last one.
  static Match match(std::string_view text, const std::vector<std::string>& words, size_t& at);
  State read_key_marker(std::string_view text);
  State read_key(std::string_view text);
  State read_value_marker(std::string_view text);
  State skip_edge(std::string_view text);
  State read_value(std::string_view text, bool at_end);
  // A marker that ends values may also be part of a value. It ends the value only if a next key or the end of the call
  // follows. Returns whether that is so.
  Match goes_on(std::string_view text, size_t at) const;
  void end_value(std::string_view value);

  const CallSteps& steps_;
  const std::vector<std::string> end_;
  const OfferedTools& tools_;
  const std::string tool_;
  Wants wants_ = Wants::kKeyMarker;
  size_t at_ = 0;
  size_t key_begin_ = 0, value_begin_ = 0;
  std::string key_;
  bool is_other_ = false;  // the marker before the value says that it is not a string
  std::string json_;
};

class CallReader {
 public:
  enum class State { kOpen, kDone, kBad };

  // first_step: 0, or steps.n_opening for a call within a section. The other arguments must outlive the object.
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
  // Reads up to a byte that cannot be part of a name or id; kMore if the text ends before one.
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
  std::optional<LooseScanner> loose_;
  std::optional<ParameterReader> parameters_;
  // The arguments converted to JSON, or their position in the text.
  std::string arguments_;
  size_t arguments_begin_ = 0, arguments_end_ = 0;
  bool has_arguments_ = false;
};

}  // namespace ibid
