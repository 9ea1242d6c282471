// Options, events and result of a turn. Plain data.
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
  kLength,      // max_tokens were sampled, or the context is full
  kStopString,  // the text reached one of TurnOptions::stop_strings
  kCancelled,   // cancelled by TurnOptions::stop or TurnStream::cancel()
  kRepetition,  // the answer started to repeat itself
};
// "stop", "length", "stop_string", "cancelled", "repetition".
IBID_EXPORT std::string_view finish_reason_name(FinishReason reason);

// Which sessions get rows first in a pass that several sessions share.
enum class Priority {
  kHigh,  // before all other sessions
  kNormal,
  kLow,  // only when no other session is ready to run, or after waiting for a second
};

enum class StopMode {
  kKeepPartial,  // a cancelled answer stays in the history, up to the token where it was cancelled
  kDiscard,      // a cancelled turn changes nothing: the call returns kCancelled
};

struct TurnOptions {
  SamplerOptions sampler = {};
  // While DRY is on, all tokens whose text contains one of these strings act as sampler.dry_breakers too.
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};
  // If set, fills Turn::logprobs, with this many of the most likely tokens each; at most 20.
  std::optional<size_t> n_logprobs = {};
  // If not empty, Turn::logprobs has these tokens (at most 128) and the sampled token instead of the most likely
  // tokens. kInvalidArgument unless n_logprobs is set.
  std::vector<TokenId> logprob_token_ids = {};
  bool logprobs_after_sampling = false;  // logprobs are of the sampler's distribution, not of the model's
  // Decides which tokens the answer may have; the turn uses a clone. If the turn continues an answer, the earlier
  // content of the answer is pushed to the clone first, without its reasoning.
  std::shared_ptr<const TokenConstraint> constraint = {};
  size_t max_tokens = 0;                       // maximum tokens of the answer; 0: up to the end of the context
  size_t min_tokens = 0;                       // the turn may end only after this many tokens; SIZE_MAX: never
  std::vector<std::string> stop_strings = {};  // each of these strings ends the answer, which does not include it
  // End an answer that repeats itself (a span of tokens at least 8 times in a row, 256 tokens in total) with
  // kRepetition. The answer keeps its text, as at max_tokens.
  bool stop_repetition = false;
  // Split the answer into reasoning, content and tool calls, the fields of Turn with these names. Turn::text then shows
  // the special tokens that mark these parts, and no other special tokens. Tools are those of the session's variables
  // ("tools"); text that is not a valid call of one of the tools is content. An answer with tool calls is kept as a
  // message with `tool_calls`, which the template renders as the model wrote them wherever it can.
  bool parse_reply = false;
  bool parse_calls = true;  // if false, parse_reply treats tool calls as content
  // The constraint demands a tool call; a call that stays incomplete does not become content.
  bool demands_call = false;
  bool speculate = true;                  // verify drafts that earlier text predicts: faster, with the same answer
  Priority priority = Priority::kNormal;  // priority among the sessions of the engine
  std::stop_token stop = {};
  StopMode stop_mode = StopMode::kKeepPartial;
  // If true and no memory is left for the next token, the answer ends before that token, as at max_tokens (kLength),
  // and keeps its text. If false, the turn fails with kOutOfMemory and changes nothing.
  bool keep_when_out_of_memory = false;
};

// Messages and bytes removed from the history to fit the context; all 0 if nothing was removed.
struct LeftOut {
  size_t n_messages = 0;  // whole messages that were removed
  size_t n_bytes = 0;     // bytes removed from the middle of messages that stay

  bool any() const { return n_messages > 0 || n_bytes > 0; }
};

// Probable cause of a lost prefix, from the text around the first difference.
enum class LostCause {
  kMessageChanged,   // a message differs
  kThinkingRemoved,  // the template shows only the thinking of the last answer
  kDateChanged,      // a date or time at the start of the prompt differs
  kToolsChanged,     // the tools or their order differ
  kTemplate,         // the template's output differs for another reason
  kOtherTokens,      // the text is the same, but is tokenized differently
  // For kStateGone and kWindowGone the tokens are the same, so LostPrefix has no differing text.
  kStateGone,   // the recurrent state to resume from was evicted, or was not checkpointed at that position
  kWindowGone,  // the keys and values that a sliding window needs were evicted
};
inline constexpr LostCause kLastLostCause = LostCause::kWindowGone;
// Returns for example "the message was changed" or "a date changed".
IBID_EXPORT std::string_view lost_cause_text(LostCause cause);

// Why cached tokens had to be prefilled again: where the prompt first differs from the conversation's tokens, and the
// probable cause. Explains to users why a turn took long.
struct IBID_EXPORT LostPrefix {
  size_t n_tokens = 0;               // number of cached tokens that could not be reused
  size_t message = 0;                // index of the first message that renders differently
  size_t byte = 0;                   // offset of the first differing byte in the rendered text
  size_t token = 0;                  // position of the first token that differs or, if none differs, is prefilled again
  std::string was, now;              // up to 40 bytes of the old and of the new text from `byte` on
  std::string was_token, now_token;  // texts of the old and of the new token at that position
  LostCause cause = LostCause::kTemplate;
  std::string to_string() const;  // returns one sentence
};

// A tool call of an answer.
struct ToolCall {
  std::string id;  // the model's own id; if the model wrote none, nine letters and digits derived from the seed
  std::string name;
  std::string arguments;  // a JSON object, as the model wrote it
  bool operator==(const ToolCall&) const = default;
};

struct Turn {
  std::string text;  // the whole answer; if it continues an answer, only the new text (also in the parts below)
  // With TurnOptions::parse_reply, the parts of the text:
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;
  bool begins_in_reasoning = false;  // the prompt already opens the reasoning, so the answer begins in it
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_string;              // the stop string that ended the answer
  uint64_t seed = 0;                    // the same call with this seed gives the same answer
  std::vector<TokenLogprobs> logprobs;  // if requested, one for each token of the answer except end_of_turn
  std::optional<TokenId> end_of_turn;   // the token that ended the answer; unset: no token did
  Usage usage;
  Timings timings;
  WorkCounters work;
  std::optional<LostPrefix> lost_prefix;  // set if cached tokens of the history had to be prefilled again
  LeftOut left_out;
};

// How a turn starts. A view: the text must stay valid until the call that receives the TurnStart returns.
struct TurnStart {
  enum class Kind {
    kSend,        // answers a new user message
    kAnswer,      // answers the messages of the session, the last of which awaits an answer
    kRegenerate,  // answers the last user message again; the new answer replaces the old one when complete
    kContinue,    // adds text to the last message, an answer, as if it had not ended
    kEdit,        // `text` replaces user message `message`; later messages are dropped when the answer is complete
  };
  Kind kind = Kind::kAnswer;
  std::string_view text = {};
  size_t message = 0;

  static TurnStart send(std::string_view text) { return {Kind::kSend, text, 0}; }
  static TurnStart answer() { return {Kind::kAnswer, {}, 0}; }
  static TurnStart regenerate() { return {Kind::kRegenerate, {}, 0}; }
  static TurnStart continuing() { return {Kind::kContinue, {}, 0}; }
  static TurnStart edit(size_t message, std::string_view text) { return {Kind::kEdit, text, message}; }
};

// An event of a running turn. A value that owns its text. Text is non-empty and consists of whole characters. The
// comments name the members that each kind sets.
struct TurnEvent {
  enum class Kind {
    kLeftOut,   // turn: with left_out set
    kPrefill,   // prompt tokens: n_done: those whose KV is available; n_cached: the reused ones; n_total: all
    kLogprobs,  // logprobs: of the next tokens, before their text (TurnOptions::n_logprobs); only streams emit them
    kText,      // text: the next piece of the answer
    // With TurnOptions::parse_reply streams emit the following kinds in place of kText:
    kReasoning,   // text: the next piece of the reasoning
    kContent,     // text: the next piece of the content
    kCallBegin,   // call, name, id: a call of an offered tool starts; streamed calls may get their id in kCallEnd
    kArguments,   // call, text: the next piece of the arguments of the call, which are one JSON object
    kCallEnd,     // call, name, id: the call is complete and valid
    kCallBroken,  // call: it is invalid; its text follows as kContent, unless a call was required; streamed calls only
    kFinish,      // turn: the committed turn
  };
  Kind kind = Kind::kText;
  size_t call = 0;  // index of the call in the answer; the index of a broken call is reused
  std::string text = {};
  std::string name = {};
  std::string id = {};  // id of a call, as the model wrote it; empty if the model wrote none
  size_t n_done = 0;
  size_t n_total = 0;
  size_t n_cached = 0;
  std::vector<TokenLogprobs> logprobs = {};
  const Turn* turn = nullptr;  // valid during the callback

  bool operator==(const TurnEvent&) const = default;
};
// Receives the events of a turn. Runs on the thread that called send() or run(), while the engine computes the next
// pass. Must not throw.
using TurnCallback = std::function<void(const TurnEvent&)>;

}  // namespace ibid
