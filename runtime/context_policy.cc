#include "runtime/context_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace ibid {
namespace {

Status too_long(size_t n_tokens, size_t max_tokens) {
  return {ErrorCode::kContextFull, "the conversation has " + std::to_string(n_tokens) +
                                       " tokens even without what may be left out; the context has room for " +
                                       std::to_string(max_tokens)};
}

// `messages` without the messages of its first n_turns turns, but for pinned and system ones.
FittedMessages without_turns(const Json& messages, const std::set<size_t>& pinned,
                             const std::vector<size_t>& begins, size_t n_turns) {
  FittedMessages out;
  out.messages = Json::array();
  const size_t end = begins[n_turns];
  bool same = true;
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool stays = i < begins.front() || i >= end || pinned.contains(i) || is_from(messages[i], "system");
    if (!stays) {
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

// The largest n in [low, high) that fits, by bisection; `high` when none does. REQUIRES: fewer fit better.
template <typename Fits>
Result<size_t> largest_that_fits(size_t low, size_t high, Fits&& fits) {
  size_t best = high;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    TRY_ASSIGN(const bool ok, fits(middle));
    if (ok) {
      best = middle;
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return best;
}

}  // namespace

bool is_from(const Json& message, std::string_view role) {
  const auto found = message.find("role");
  return found != message.end() && found->is_string() && found->get_ref<const std::string&>() == role;
}

std::vector<size_t> turn_begins(const Json& messages) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (is_from(messages[i], "user") && (i == 0 || !is_from(messages[i - 1], "user"))) begins.push_back(i);
  }
  return begins;
}

Result<FittedMessages> fit_messages(
    WhenFull policy, const Json& messages, const std::set<size_t>& pinned, size_t max_tokens,
    const std::function<Result<size_t>(const Json& messages, size_t first_changed)>& count_tokens) {
  CHECK(policy != WhenFull::kError);
  const auto target = static_cast<size_t>(kFilledAfterwards * static_cast<double>(max_tokens));
  size_t least = SIZE_MAX;  // tokens of the best attempt
  const auto fits = [&](const FittedMessages& fitted) -> Result<bool> {
    TRY_ASSIGN(const size_t n, count_tokens(fitted.messages, fitted.first_changed));
    least = std::min(least, n);
    return n <= target;
  };

  if (policy == WhenFull::kDropOldestTurns) {
    const std::vector<size_t> begins = turn_begins(messages);
    const size_t n_droppable = begins.empty() ? 0 : begins.size() - 1;
    // Counted from the other end: the most turns that can be kept.
    TRY_ASSIGN(const size_t kept, largest_that_fits(0, n_droppable, [&](size_t n) {
                 return fits(without_turns(messages, pinned, begins, n_droppable - n));
               }));
    if (n_droppable == 0 || kept == n_droppable) {
      return too_long(least == SIZE_MAX ? max_tokens + 1 : least, max_tokens);
    }
    return without_turns(messages, pinned, begins, n_droppable - kept);
  }

  const size_t last = messages.size() - 1;
  const auto content = messages[last].find("content");
  if (content == messages[last].end() || !content->is_string()) return too_long(max_tokens + 1, max_tokens);
  const std::string& text = content->get_ref<const std::string&>();
  const auto cut_to = [&](size_t n_bytes) {
    FittedMessages out{messages, pinned, last, {}};
    out.messages[last]["content"] = without_middle(text, n_bytes);
    out.left_out.n_bytes = text.size() - n_bytes;
    return out;
  };
  TRY_ASSIGN(const size_t n_bytes, largest_that_fits(0, text.size(), [&](size_t n) { return fits(cut_to(n)); }));
  if (text.empty() || n_bytes == text.size()) return too_long(least == SIZE_MAX ? max_tokens + 1 : least, max_tokens);
  return cut_to(n_bytes);
}

}  // namespace ibid
