#include "runtime/session/context_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "templates/message.h"

namespace ibid {
namespace {

constexpr const char* kShorten = "a shorter message, rewind_to() or reset() makes room";
constexpr const char* kShortenOrDrop =
    "a shorter message, rewind_to() or reset() makes room, or set_when_full() lets old turns go";

Status too_long(const std::string& what, size_t n_tokens, size_t max_tokens, const std::string& ways_out) {
  return {ErrorCode::kContextFull, what + " " + std::to_string(n_tokens) + " tokens, the context has room for " +
                                       std::to_string(max_tokens) + "; " + ways_out};
}

// The tokens that are kept free for the answer beside n_least, which no policy can make fewer.
size_t free_for_answer(const ContextRoom& room, size_t n_least) {
  const auto share = static_cast<size_t>(kFreeForAnswer * static_cast<double>(room.max_tokens));
  return std::min({share, room.n_answer, (room.max_tokens - n_least) / 2});
}

// `messages` without the messages of its first n_turns turns, but for those of turns with a pin, and system ones. A
// turn stays or goes as a whole: many templates refuse questions without answers.
FittedMessages without_turns(const Json& messages, const std::set<size_t>& pinned,
                             const std::vector<size_t>& begins, size_t n_turns) {
  FittedMessages out;
  out.messages = Json::array();
  bool same = true;
  size_t turn = 0;  // the turns in front of this number have begun
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

// `text` with only n_bytes of it, half from either end, and a remark in between.
std::string without_middle(const std::string& text, size_t n_bytes) {
  size_t head = n_bytes / 2;
  while (head > 0 && continues_character(text[head])) --head;
  size_t tail = text.size() - (n_bytes - n_bytes / 2);
  while (tail < text.size() && continues_character(text[tail])) ++tail;
  return text.substr(0, head) + "\n[... " + std::to_string(tail - head) + " bytes left out ...]\n" + text.substr(tail);
}

// The largest n in [0, most] that fits, by bisection; 0 when none does. REQUIRES: fewer fit better.
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

Result<FittedMessages> drop_turns(const Json& messages, const std::set<size_t>& pinned, const ContextRoom& room,
                                  const TokenCount& count_tokens) {
  const std::vector<size_t> begins = turn_begins(messages);
  const size_t n_droppable = begins.empty() ? 0 : begins.size() - 1;
  FittedMessages fewest = without_turns(messages, pinned, begins, n_droppable);
  TRY_ASSIGN(const size_t n_least, count_tokens(fewest.messages, fewest.first_changed));
  if (n_least > room.max_tokens) {
    return too_long("without the turns that may go the conversation has", n_least, room.max_tokens, kShorten);
  }
  const auto aim = static_cast<size_t>(kFilledAfterwards * static_cast<double>(room.max_tokens));
  const size_t limit = n_least <= aim ? aim : room.max_tokens - free_for_answer(room, n_least);
  // Counted from the other end: the most turns that can be kept. Keeping none fits.
  const auto fits = [&](size_t n_kept) -> Result<bool> {
    const FittedMessages fitted = without_turns(messages, pinned, begins, n_droppable - n_kept);
    TRY_ASSIGN(const size_t n, count_tokens(fitted.messages, fitted.first_changed));
    return n <= limit;
  };
  TRY_ASSIGN(const size_t n_kept, largest_that_fits(n_droppable, fits));
  if (n_kept > 0) fewest = without_turns(messages, pinned, begins, n_droppable - n_kept);
  return fewest;
}

Result<FittedMessages> cut_message(const Json& messages, const std::set<size_t>& pinned, const ContextRoom& room,
                                   const TokenCount& count_tokens) {
  const size_t last = messages.size() - 1;
  const std::string* content = content_of(messages[last]);
  if (content == nullptr) {
    TRY_ASSIGN(const size_t n, count_tokens(messages, last));
    return too_long("the newest message has no text that could be cut, and the conversation has", n, room.max_tokens,
                    kShortenOrDrop);
  }
  const std::string& text = *content;
  const auto cut_to = [&](size_t n_bytes) {
    FittedMessages out{messages, pinned, last, {}};
    set_content(out.messages[last], without_middle(text, n_bytes));
    out.left_out.n_bytes = text.size() - n_bytes;
    return out;
  };
  TRY_ASSIGN(const size_t n_least, count_tokens(cut_to(0).messages, last));
  if (text.empty() || n_least > room.max_tokens) {
    return too_long("even with nothing of the newest message the conversation has", n_least, room.max_tokens,
                    kShortenOrDrop);
  }
  const size_t limit = room.max_tokens - free_for_answer(room, n_least);
  const auto fits = [&](size_t n_bytes) -> Result<bool> {
    TRY_ASSIGN(const size_t n, count_tokens(cut_to(n_bytes).messages, last));
    return n <= limit;
  };
  TRY_ASSIGN(const size_t n_bytes, largest_that_fits(text.size() - 1, fits));
  return cut_to(n_bytes);
}

}  // namespace

Status check_when_full(WhenFull policy) {
  switch (policy) {
    case WhenFull::kError:
    case WhenFull::kDropOldestTurns:
    case WhenFull::kCutNewestMessage: return {};
  }
  return {ErrorCode::kInvalidArgument, "when_full: " + std::to_string(static_cast<int>(policy)) +
                                           ", allowed is one of the values of WhenFull"};
}

std::vector<size_t> turn_begins(const Json& messages) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (is_from(messages[i], Role::kUser) && (i == 0 || !is_from(messages[i - 1], Role::kUser))) begins.push_back(i);
  }
  return begins;
}

Result<FittedMessages> fit_messages(WhenFull policy, const Json& messages, const std::set<size_t>& pinned,
                                    const ContextRoom& room, const TokenCount& count_tokens) {
  CHECK(policy != WhenFull::kError);
  return policy == WhenFull::kDropOldestTurns ? drop_turns(messages, pinned, room, count_tokens)
                                              : cut_message(messages, pinned, room, count_tokens);
}

Status context_full(size_t n_tokens, size_t max_tokens) {
  return too_long("with this message the conversation has", n_tokens, max_tokens, kShortenOrDrop);
}

}  // namespace ibid
