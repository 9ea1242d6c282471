#include "runtime/session/context_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "templates/message.h"

namespace ibid {
namespace {

constexpr const char* kShorten = "shorten the message, or make room with rewind_to() or reset()";
constexpr const char* kShortenOrDrop =
    "shorten the message, make room with rewind_to() or reset(), or drop old turns with set_when_full()";

Status too_long(const std::string& what, size_t n_tokens, size_t max_tokens, const std::string& ways_out) {
  return {ErrorCode::kContextFull, what + " " + std::to_string(n_tokens) + " tokens, the context has room for " +
                                       std::to_string(max_tokens) + "; " + ways_out};
}

// Returns the number of tokens to keep free for the answer. n_least: tokens of the prompt that no policy can remove.
size_t free_for_answer(const ContextLimits& limits, size_t n_least) {
  const auto share = static_cast<size_t>(kFreeForAnswer * static_cast<double>(limits.max_tokens));
  return std::min({share, limits.n_answer, (limits.max_tokens - n_least) / 2});
}

size_t filled_afterwards(const ContextLimits& limits) {
  return static_cast<size_t>(kFilledAfterwards * static_cast<double>(limits.max_tokens));
}

// Drops the messages of the first n_turns turns, except system messages and turns with a pinned message. Turns are
// dropped as a whole: many templates reject questions without answers.
FittedMessages without_turns(const Json& messages, const std::set<size_t>& pinned, const std::vector<size_t>& begins,
                             size_t n_turns) {
  FittedMessages out;
  out.messages = Json::array();
  bool same = true;
  size_t turn = 0;  // number of turns that have begun before message i
  bool keeps_turn = true;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (turn < begins.size() && begins[turn] == i) {
      ++turn;
      const auto pin = pinned.lower_bound(i);
      keeps_turn = turn > n_turns || (pin != pinned.end() && *pin < begins[turn]);
    }
    if (!keeps_turn && !is_from(messages[i], Role::kSystem)) {
      ++out.left_out.n_messages;
      if (std::exchange(same, false)) out.first_changed = out.messages.size();
      continue;
    }
    if (pinned.contains(i)) out.pinned.insert(out.messages.size());
    out.messages.push_back(messages[i]);
  }
  return out;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

struct CutText {
  std::string text;
  size_t n_left_out = 0;
};

// Keeps at most n_bytes of `text`, half from either end, with a remark in between. REQUIRES: n_bytes <= text.size().
CutText without_middle(const std::string& text, size_t n_bytes) {
  size_t head = n_bytes / 2;
  while (head > 0 && continues_character(text[head])) --head;
  size_t tail = text.size() - (n_bytes - n_bytes / 2);
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  const std::string remark = "\n[... " + std::to_string(tail - head) + " bytes left out ...]\n";
  return {text.substr(0, head) + remark + text.substr(tail), tail - head};
}

// Maximum number of bytes of each message's text.
struct TextLimits {
  size_t newest = 0;
  size_t older = SIZE_MAX;
};

// Cuts texts that exceed `limits`, except those of system and pinned messages, and those for which the remark would be
// longer than the part that it replaces.
FittedMessages with_cut_texts(const Json& messages, const std::set<size_t>& pinned, TextLimits limits) {
  FittedMessages out{messages, pinned, messages.size(), {}};
  for (size_t i = messages.size(); i-- > 0;) {
    const bool is_newest = i + 1 == messages.size();
    const size_t n_most = is_newest ? limits.newest : limits.older;
    const std::string* text = content_of(messages[i]);
    if (text == nullptr || text->size() <= n_most) continue;
    if (!is_newest && (pinned.contains(i) || is_from(messages[i], Role::kSystem))) continue;
    CutText cut = without_middle(*text, n_most);
    if (cut.text.size() >= text->size()) continue;
    set_content(out.messages[i], std::move(cut.text));
    out.left_out.n_bytes += cut.n_left_out;
    out.first_changed = i;
  }
  return out;
}

size_t longest_text(const Json& messages) {
  size_t longest = 0;
  for (const Json& message : messages) {
    if (const std::string* text = content_of(message)) longest = std::max(longest, text->size());
  }
  return longest;
}

// Returns the largest n in [0, most] that fits, by bisection; 0 if none fits. REQUIRES: if n fits, smaller numbers fit.
template <typename Fits>
Result<size_t> largest_that_fits(size_t most, Fits&& fits) {
  size_t low = 0;
  while (low < most) {
    const size_t middle = most - (most - low) / 2;
    TRY_ASSIGN(const bool ok, fits(middle));
    if (ok) {
      low = middle;
    } else {
      most = middle - 1;
    }
  }
  return low;
}

using TokenCount = std::function<Result<size_t>(const Json& messages, size_t first_changed)>;

Result<FittedMessages> drop_turns(const Json& messages, const std::set<size_t>& pinned, const ContextLimits& limits,
                                  const TokenCount& count_tokens) {
  const std::vector<size_t> begins = turn_begins(messages);
  const size_t n_droppable = begins.empty() ? 0 : begins.size() - 1;
  FittedMessages fewest = without_turns(messages, pinned, begins, n_droppable);
  TRY_ASSIGN(const size_t n_least, count_tokens(fewest.messages, fewest.first_changed));
  if (n_least > limits.max_tokens) {
    return too_long("even without all removable turns the conversation has", n_least, limits.max_tokens, kShorten);
  }
  const size_t aim = filled_afterwards(limits);
  const size_t limit = n_least <= aim ? aim : limits.max_tokens - free_for_answer(limits, n_least);
  // Searches for the largest number of removable turns that can be kept. Keeping none of them is known to fit.
  const auto fits = [&](size_t n_kept) -> Result<bool> {
    const FittedMessages fitted = without_turns(messages, pinned, begins, n_droppable - n_kept);
    TRY_ASSIGN(const size_t n, count_tokens(fitted.messages, fitted.first_changed));
    return n <= limit;
  };
  TRY_ASSIGN(const size_t n_kept, largest_that_fits(n_droppable, fits));
  if (n_kept > 0) fewest = without_turns(messages, pinned, begins, n_droppable - n_kept);
  return fewest;
}

// Cuts the newest message of `from`, whose other messages already fit.
Result<FittedMessages> cut_newest(FittedMessages from, const ContextLimits& limits, size_t n_least,
                                  const TokenCount& count_tokens) {
  const size_t limit = limits.max_tokens - free_for_answer(limits, n_least);
  const size_t n_dropped = from.left_out.n_messages, first_changed = from.first_changed;
  const auto cut_to = [&](size_t n_bytes) {
    FittedMessages out = with_cut_texts(from.messages, from.pinned, {.newest = n_bytes});
    out.left_out.n_messages = n_dropped;
    if (n_dropped > 0) out.first_changed = std::min(out.first_changed, first_changed);
    return out;
  };
  const auto fits = [&](size_t n_bytes) -> Result<bool> {
    const FittedMessages cut = cut_to(n_bytes);
    TRY_ASSIGN(const size_t n, count_tokens(cut.messages, cut.first_changed));
    return n <= limit;
  };
  const std::string* text = content_of(from.messages[from.messages.size() - 1]);
  TRY_ASSIGN(const size_t n_bytes, largest_that_fits(text == nullptr ? 0 : text->size(), fits));
  return cut_to(n_bytes);
}

Result<FittedMessages> cut_texts(const Json& messages, const std::set<size_t>& pinned, const ContextLimits& limits,
                                 const TokenCount& count_tokens) {
  const auto count_cut = [&](TextLimits text_limits) -> Result<size_t> {
    const FittedMessages cut = with_cut_texts(messages, pinned, text_limits);
    return count_tokens(cut.messages, cut.first_changed);
  };
  const size_t aim = filled_afterwards(limits);
  TRY_ASSIGN(const size_t n_older, count_cut({.newest = 0}));
  if (n_older <= aim) return cut_newest({messages, pinned, messages.size(), {}}, limits, n_older, count_tokens);
  TRY_ASSIGN(const size_t n_shortest, count_cut({.newest = 0, .older = 0}));
  if (n_shortest <= aim) {
    const auto fits = [&](size_t n_bytes) -> Result<bool> {
      TRY_ASSIGN(const size_t n, count_cut({.newest = n_bytes, .older = n_bytes}));
      return n <= aim;
    };
    TRY_ASSIGN(const size_t n_bytes, largest_that_fits(longest_text(messages), fits));
    return with_cut_texts(messages, pinned, {.newest = n_bytes, .older = n_bytes});
  }
  // The conversation consists of many short messages, which cutting shortens too little, so drop turns too.
  const std::vector<size_t> begins = turn_begins(messages);
  FittedMessages last = without_turns(messages, pinned, begins, begins.empty() ? 0 : begins.size() - 1);
  TRY_ASSIGN(const size_t n_last, count_tokens(last.messages, last.first_changed));
  if (n_last <= aim) return drop_turns(messages, pinned, limits, count_tokens);
  const FittedMessages least = with_cut_texts(last.messages, last.pinned, {.newest = 0});
  TRY_ASSIGN(const size_t n_least, count_tokens(least.messages, 0));
  if (n_least > limits.max_tokens) {
    return too_long("even with an empty newest message the conversation has", n_least, limits.max_tokens, kShorten);
  }
  return cut_newest(std::move(last), limits, n_least, count_tokens);
}

}  // namespace

Status check_when_full(WhenFull policy) {
  switch (policy) {
    case WhenFull::kError:
    case WhenFull::kDropOldestTurns:
    case WhenFull::kCutNewestMessage: return {};
  }
  return {ErrorCode::kInvalidArgument,
          "when_full: " + std::to_string(static_cast<int>(policy)) + ", allowed: one of the values of WhenFull"};
}

bool leaves_an_answer(size_t n_prompt, const ContextLimits& limits) {
  const auto least = static_cast<size_t>(kLeastForAnswer * static_cast<double>(limits.max_tokens));
  return n_prompt + std::min(limits.n_answer, least) <= limits.max_tokens;
}

std::vector<size_t> turn_begins(const Json& messages) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (is_from(messages[i], Role::kUser) && (i == 0 || !is_from(messages[i - 1], Role::kUser))) begins.push_back(i);
  }
  return begins;
}

Result<FittedMessages> fit_messages(WhenFull policy, const Json& messages, const std::set<size_t>& pinned,
                                    const ContextLimits& limits, const TokenCount& count_tokens) {
  CHECK(policy != WhenFull::kError);
  return policy == WhenFull::kDropOldestTurns ? drop_turns(messages, pinned, limits, count_tokens)
                                              : cut_texts(messages, pinned, limits, count_tokens);
}

Status context_full(size_t n_tokens, size_t max_tokens) {
  return too_long("with this message the conversation has", n_tokens, max_tokens, kShortenOrDrop);
}

}  // namespace ibid
