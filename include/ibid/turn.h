// The options of a turn, its events while it runs, and its result. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/constraint.h"
#include "ibid/result.h"
#include "ibid/sampler_options.h"
#include "ibid/token.h"
#include "ibid/usage.h"

namespace ibid {

// Why an answer ended.
enum class FinishReason {
  kStop,        // the model ended its turn
  kLength,      // max_tokens, or the context is full
  kStopString,  // a stop string of the options
  kCancelled,   // the stop token
  kRepetition,  // the answer has begun to repeat itself
};
// "stop", "length", "stop_string", "cancelled", "repetition".
IBID_EXPORT std::string_view finish_reason_name(FinishReason reason);

// Whose rows come first in the passes that sessions share.
enum class Priority {
  kHigh,    // before others
  kNormal,
  kLow,     // work that nobody waits for: when there is nothing else to do
};

enum class StopMode {
  kKeepPartial,  // a cancelled answer is an answer: it stays in the history as far as it came
  kDiscard,      // a cancelled turn never happened: the call returns kCancelled
};

struct TurnOptions {
  SamplerOptions sampler = {};
  // Tokens whose text holds one of these are sampler.dry_breakers too, while DRY is on.
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  std::optional<size_t> n_logprobs = {};       // Turn::logprobs with the n likeliest, at most 20
  std::shared_ptr<const TokenConstraint> constraint = {};  // what the answer may consist of; a prototype
  size_t max_tokens = 0;                       // 0: as many as the context has room for
  size_t min_tokens = 0;                       // the model cannot end its turn earlier; SIZE_MAX: never by itself
  std::vector<std::string> stop_strings = {};  // not part of the answer
  // An answer that repeats itself (a span of ids at least 8 times in a row, 256 ids together) ends there, with
  // kRepetition. It keeps its text, as at max_tokens.
  bool stop_repetition = false;
  // The answer is split into reasoning, content and calls of tools: the fields of Turn of these names. Its text then
  // shows special tokens that are markers of these, and no others. Tools are those of the session's variables
  // ("tools"); what is no sound call of one of them is content. An answer that calls tools is kept as a message with
  // `tool_calls`, for which the template writes what the model wrote, wherever it can.
  bool parse_reply = false;
  bool parse_calls = true;                     // if false, parse_reply takes what looks like a call for content
  bool speculate = true;                       // verify guesses from the conversation: the same answer, sooner
  Priority priority = Priority::kNormal;       // among the sessions of the engine
  std::stop_token stop = {};
  StopMode stop_mode = StopMode::kKeepPartial;
  // If true, an answer for whose next token there is no memory ends there, as at max_tokens (kLength), and keeps its
  // text. If false, the turn fails with kOutOfMemory and leaves nothing behind.
  bool keep_when_out_of_memory = false;
};

// What a full context took from the history. All 0: nothing.
struct LeftOut {
  size_t n_messages = 0;  // whole messages that are gone
  size_t n_bytes = 0;     // of messages that stay, cut out of their middles

  bool any() const { return n_messages > 0 || n_bytes > 0; }
};

// A guess from the text around the first difference.
enum class LostCause {
  kMessageChanged,   // a message is not what it was
  kThinkingRemoved,  // the template shows thinking of the last answer only
  kDateChanged,      // a date or a time in front of everything
  kToolsChanged,     // other tools, or the same in another order
  kTemplate,         // the template writes something else there now
  kOtherTokens,      // the same text, encoded otherwise
  // Not a guess: the ids are the same, and no differing text is told.
  kStateGone,        // the recurrent state that the turn would have gone on from was not kept any more
  kWindowGone,       // the rows that a sliding window needs were evicted
};
inline constexpr LostCause kLastLostCause = LostCause::kWindowGone;
// "the message was changed", "its thinking was removed" ...
IBID_EXPORT std::string_view lost_cause_text(LostCause cause);

// Why ids that had keys and values are not used again: where the prompt first differs from what the conversation
// held, and what probably made the difference. For people who wonder why a turn took long.
struct IBID_EXPORT LostPrefix {
  size_t n_tokens = 0;      // ids with keys and values that were given up
  size_t message = 0;       // the first message whose rendering differs (its number in the history)
  size_t byte = 0;          // the first differing byte of the rendered text
  size_t token = 0;         // the first differing id's position; or the first that is read again
  std::string was, now;     // up to 40 bytes of either text from there on
  std::string was_token, now_token;  // the text of the ids at that position
  LostCause cause = LostCause::kTemplate;
  std::string to_string() const;  // one sentence
};

// One call of a tool in an answer.
struct ToolCall {
  std::string id;         // as the model wrote it; where it wrote none, nine letters and digits that the seed decides
  std::string name;
  std::string arguments;  // a JSON object, spelled as the model spelled it
  bool operator==(const ToolCall&) const = default;
};

struct Turn {
  std::string text;                        // all that the model wrote
  // With TurnOptions::parse_reply, what the text says:
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;
  bool begins_in_reasoning = false;        // the prompt has opened the reasoning already
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_string;                 // the one that was found
  uint64_t seed = 0;                       // gives the same answer again
  std::vector<TokenLogprobs> logprobs;     // of each id of the answer, when they were asked for
  Usage usage;
  Timings timings;
  WorkCounters work;
  std::optional<LostPrefix> lost_prefix;   // set when ids of the standing history had to be read again
  LeftOut left_out;
};

// What a turn answers. A view: the text must outlive the call that is given it.
struct TurnStart {
  enum class Kind {
    kSend,        // a new user message
    kAnswer,      // the messages that are there, the last of which awaits an answer
    kRegenerate,  // the last user message again; its answer is dropped once the new one is there
    kEdit,        // `text` in place of user message `message`; later messages are dropped once the answer is there
  };
  Kind kind = Kind::kAnswer;
  std::string_view text = {};
  size_t message = 0;

  static TurnStart send(std::string_view text) { return {Kind::kSend, text, 0}; }
  static TurnStart answer() { return {Kind::kAnswer, {}, 0}; }
  static TurnStart regenerate() { return {Kind::kRegenerate, {}, 0}; }
  static TurnStart edit(size_t message, std::string_view text) { return {Kind::kEdit, text, message}; }
};

// What happens while a turn runs. A value that owns its text. Text comes in whole characters and is never empty.
struct TurnEvent {
  enum class Kind {
    kLeftOut,     // turn: its left_out is set
    kPrefill,     // n_done, n_total: positions of the prompt that have keys and values, reused ones included; and all
    kLogprobs,    // logprobs: of the next tokens, before their text (TurnOptions::n_logprobs); streams alone emit it
    kText,        // text: the next of the answer
    // With TurnOptions::parse_reply streams emit these in place of kText:
    kReasoning,   // text: the next of the reasoning
    kContent,     // text: the next of the content
    kCallBegin,   // call, name, id: a call of a tool that was offered. A streamed call's id may come with its end
    kArguments,   // call, text: the next of its arguments, which are one JSON object
    kCallEnd,     // call, name, id: it is complete and sound
    kCallBroken,  // call: it turned out to be no call; its text follows as content. Only where calls are streamed
    kFinish,      // turn: the turn, already committed
  };
  Kind kind = Kind::kText;
  size_t call = 0;            // number of the call in the answer, from 0 on; a broken call's number is used again
  std::string text = {};
  std::string name = {};
  std::string id = {};        // as the model wrote it; empty: it wrote none
  size_t n_done = 0;
  size_t n_total = 0;
  std::vector<TokenLogprobs> logprobs = {};
  const Turn* turn = nullptr; // valid during the callback

  bool operator==(const TurnEvent&) const = default;
};
// Runs on the calling thread, while the engine goes on with the next pass. Must not throw.
using TurnCallback = std::function<void(const TurnEvent&)>;

}  // namespace ibid
