// ReplyParser: splits an answer into reasoning, content and tool calls while it arrives.
//
// ReplyParser parser(format, {.tools = &tools, .prompt_end = prompt_text});
// for (piece : answer) parser.feed(piece, [](const TurnEvent& event) { ... });
// parser.finish(on_event);
//
// The parts found do not depend on how the text is cut into pieces; only the lengths of the deltas do. Text that may be
// the beginning of a marker is held back until that is decided; finish() emits all held text. Text that is no valid
// call of an offered tool (JSON that is cut off or broken, another name, an unknown form) is content, as the model
// wrote it. Spaces and line breaks next to markers belong to the markers. docs/tools.md has all rules.
//
// The caller includes the text of special tokens that are markers ("[TOOL_CALLS]"; is_marker() in
// templates/reply/reply_format.h) and passes whole characters; any text is accepted. Time and memory are linear in the
// text. Not thread-safe. It owns copies of format and tools.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "ibid/turn.h"
#include "templates/reply/reply_format.h"

namespace ibid {

struct ParsedCall {
  std::string id = {};  // the call's id; empty: the model wrote no id
  std::string name = {};
  std::string arguments = {};  // a JSON object; if the model wrote JSON, in the spelling of the answer
  bool operator==(const ParsedCall&) const = default;
};

struct ParsedReply {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ParsedCall> calls = {};
  bool operator==(const ParsedReply&) const = default;
};

struct ReplyContext {
  // The offered tools, in the form passed to the template: [{"type": "function", "function": {"name", "parameters"}}]
  // or [{"name", "parameters"}]. Null or empty: no text is a call. If the model writes values without quotes, the types
  // of the parameters decide which values are strings.
  const Json* tools = nullptr;
  // The end of the prompt before the answer, as much of it as is available, or empty. The answer begins inside
  // reasoning if this text opens reasoning, or if begins_in_reasoning is set.
  std::string_view prompt_end = {};
  // True: calls are emitted while they arrive, and may turn out to be broken. False: only complete calls are emitted.
  bool stream_calls = false;
  bool begins_in_reasoning = false;
  // True: the request demanded a call. Then a call that is cut off by the end of the answer is dropped, and does not
  // become content.
  bool demands_call = false;
};

class ReplyParser {
 public:
  using Listener = std::function<void(const TurnEvent&)>;

  ReplyParser(const ReplyFormat& format, const ReplyContext& context);
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  void feed(std::string_view text, const Listener& on_event);
  // Ends the answer. A call that lacks only its closing marker counts as complete: a stop string or the end of the turn
  // may have removed the marker. REQUIRES: called once; no feed() after it.
  void finish(const Listener& on_event);

  // Returns the parts of the answer so far.
  const ParsedReply& reply() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// True if an answer to the prompt begins inside reasoning: the prompt ends with the marker that begins it.
bool opens_reasoning(const ReplyFormat& format, std::string_view prompt_end);

}  // namespace ibid
