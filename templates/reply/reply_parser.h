// ReplyParser: splits an answer into reasoning, content and tool calls while it arrives.
//
//   ReplyParser parser(format, {.tools = &tools, .prompt_end = prompt_text});
//   for (piece : answer) parser.feed(piece, [](const TurnEvent& event) { ... });
//   parser.finish(on_event);
//
// Events do not depend on how the text is cut into pieces: only the cuts of deltas differ. Text that may turn out to
// be a marker is held back until that is decided; finish() emits all of it. Text that is no valid call of an
// offered tool (JSON that is cut off or broken, another name, an unknown form) is content, as the model wrote it.
// Spaces and line breaks next to markers belong to the markers.
//
// The text of an answer includes the text of those special tokens that are markers: "[TOOL_CALLS]" is
// one (is_marker() in templates/reply/reply_format.h). It has whole characters; any text is accepted.
//
// Time and memory are linear in the text. Not thread-safe. It owns copies of format and tools.
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
  std::string id = {};  // empty: the model wrote none
  std::string name = {};
  std::string arguments = {};  // a JSON object; in the model's own spelling if it wrote JSON
  bool operator==(const ParsedCall&) const = default;
};

struct ParsedReply {
  std::string reasoning = {};
  std::string content = {};
  std::vector<ParsedCall> calls = {};
  bool operator==(const ParsedReply&) const = default;
};

struct ReplyContext {
  // The tools that were offered, as the template had them: [{"type": "function", "function": {"name", "parameters"}}]
  // or [{"name", "parameters"}]. Null or empty: none, and nothing is a call. Where values are written without quotes,
  // the types of the parameters decide which values are strings.
  const Json* tools = nullptr;
  // The end of the prompt before the answer, as much of it as is available, or empty. It decides whether the answer
  // begins inside reasoning; so does begins_in_reasoning.
  std::string_view prompt_end = {};
  // True: calls are emitted while they arrive, and may turn out to be broken. False: only complete calls are emitted.
  bool stream_calls = false;
  bool begins_in_reasoning = false;
};

class ReplyParser {
 public:
  using Listener = std::function<void(const TurnEvent&)>;

  ReplyParser(const ReplyFormat& format, const ReplyContext& context);
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  void feed(std::string_view text, const Listener& on_event);
  // Ends the answer. A call that lacks only its closing marker is complete: a stop string or the end of the
  // turn may have removed that. REQUIRES: called once, and feed() not after it.
  void finish(const Listener& on_event);

  // The answer so far.
  const ParsedReply& reply() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// True if an answer to the prompt begins inside reasoning: the prompt ends with the marker that begins it.
bool opens_reasoning(const ReplyFormat& format, std::string_view prompt_end);

}  // namespace ibid
