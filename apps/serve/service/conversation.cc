#include "apps/serve/service/conversation.h"

#include <algorithm>
#include <utility>

#include "apps/serve/service/seen_message.h"
#include "base/check.h"
#include "runtime/prompt/plain_prompt.h"
#include "templates/message.h"

namespace ibid::serve {

Conversation::Conversation(std::string cache_namespace, ChatSession session, bool is_plain)
    : cache_namespace_(std::move(cache_namespace)), is_plain_(is_plain), session_(std::move(session)) {
  for (const Json& message : session_.messages()) push(message, false);
}

uint64_t Conversation::start_of(std::string_view cache_namespace, const Engine& engine) {
  return chain_start(std::to_string(reinterpret_cast<uintptr_t>(&engine)) + "/" + std::string(cache_namespace));
}

void Conversation::push(const Json& message, bool owns) {
  Seen seen;
  seen.hash = chain_hash(seen_.empty() ? start_of(cache_namespace_, *session_.engine()) : seen_.back().hash, message);
  seen.bytes = (seen_.empty() ? 0 : seen_.back().bytes) + seen_form(message).size();
  if (owns) seen.own = message;
  seen_.push_back(std::move(seen));
}

bool Conversation::begins(const Json& sent, size_t n) const {
  if (n > size() || n > sent.size()) return false;
  for (size_t i = 0; i < n; ++i) {
    if (!is_seen_as(seen(i), sent[i])) return false;
  }
  return true;
}

size_t Conversation::n_begins_plain(const Json& prompt) const {
  const Json& messages = session_.messages();
  if (!is_plain_ || messages.size() != 2) return 0;
  const std::string *text = content_of(prompt), *asked = content_of(messages[0]), *said = content_of(messages[1]);
  if (text != nullptr && asked != nullptr && said != nullptr) {
    const bool begins = text->starts_with(*asked) && std::string_view(*text).substr(asked->size()).starts_with(*said);
    return begins ? asked->size() + said->size() : 0;
  }
  const std::optional<Tokens> given = plain_ids(prompt);
  if (!given || asked != nullptr) return 0;
  const Tokens& known = session_.ids();
  return given->size() >= known.size() && std::equal(known.begin(), known.end(), given->begin()) ? known.size() : 0;
}

Status Conversation::replace_plain(const Json& prompt) {
  TRY(session_.replace_from(0, Json::array({prompt})));
  seen_.clear();
  push(prompt, false);
  return {};
}

bool Conversation::has_answer(size_t n) const {
  for (size_t i = 0; i < n; ++i) {
    if (is_from(seen(i), Role::kAssistant)) return true;
  }
  return false;
}

Result<Conversation> Conversation::fork(size_t n) const {
  TRY_ASSIGN(ChatSession session, session_.fork());
  Conversation copy(*this, std::move(session));
  copy.seen_.resize(n);
  return copy;
}

Conversation::Conversation(const Conversation& other, ChatSession session)
    : cache_namespace_(other.cache_namespace_),
      is_plain_(other.is_plain_),
      session_(std::move(session)),
      seen_(other.seen_),
      is_cut_(other.is_cut_) {}

// The session has the messages as its template wants them, which a client need not see.
Status Conversation::go_on(const Json& sent, size_t n) {
  CHECK(can_go_on_from(n));
  const size_t n_kept = is_cut_ ? session_.messages().size() : n;
  TRY(session_.replace_from(n_kept, Json::array_t(sent.begin() + static_cast<std::ptrdiff_t>(n), sent.end())));
  seen_.resize(n);
  for (size_t i = n; i < sent.size(); ++i) {
    const bool differs = seen_form(session_.messages()[n_kept + i - n]) != seen_form(sent[i]);
    push(sent[i], is_cut_ || differs);
  }
  return {};
}

void Conversation::answered(const Json& answer, const Json* cut_from) {
  if (cut_from != nullptr) {
    for (size_t i = 0; i < std::min(size(), cut_from->size()); ++i) {
      if (!seen_[i].own) seen_[i].own = (*cut_from)[i];
    }
    is_cut_ = true;
  }
  const Json& held = session_.messages().back();
  const bool differs = seen_form(answer) != seen_form(held) || seen_reasoning(answer) != seen_reasoning(held);
  push(answer, is_cut_ || differs);
}

size_t Conversation::n_bytes() const {
  size_t n = session_.n_bytes() + seen_.capacity() * sizeof(Seen);
  for (const Seen& seen : seen_) {
    if (seen.own) n += json_to_string(*seen.own).size() + sizeof(Json);
  }
  return n + (seen_.empty() ? 0 : seen_.back().bytes);
}

}  // namespace ibid::serve
