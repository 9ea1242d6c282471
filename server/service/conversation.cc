#include "server/service/conversation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"
#include "cache/tier/kv_record.h"
#include "server/service/seen_message.h"
#include "server/store/cache_namespace.h"
#include "templates/message.h"

namespace ibid::serve {
namespace {

// name_space: hexadecimal digest of the namespace. model: fingerprint of the model, or the engine's address in place of
// it.
uint64_t start_of_digits(const std::string& name_space, const std::string& model, uint64_t hash_seed) {
  return chain_start(model + "/" + name_space, hash_seed);
}

// The messages that the client sees, from the notes of a saved session; nullopt if the notes are invalid.
struct SeenMessages {
  std::vector<const Json*> messages;  // message i is in the notes if own[i], else in the session
  std::vector<bool> own;
  bool is_cut = false;
};
std::optional<SeenMessages> seen_in(const SavedSession& saved) {
  const Json& notes = saved.notes;
  if (!notes.is_object() || text_member(notes, "namespace") == nullptr || text_member(notes, "model") == nullptr) {
    return std::nullopt;
  }
  const auto seen = notes.find("seen"), cut = notes.find("cut");
  if (seen == notes.end() || !seen->is_array() || cut == notes.end() || !cut->is_boolean()) return std::nullopt;
  SeenMessages out;
  out.is_cut = cut->get<bool>();
  if (seen->empty() || (!out.is_cut && seen->size() != saved.messages.size())) return std::nullopt;
  for (size_t i = 0; i < seen->size(); ++i) {
    const bool owns = !(*seen)[i].is_null();
    if (owns ? !has_role((*seen)[i]) : out.is_cut) return std::nullopt;
    out.messages.push_back(owns ? &(*seen)[i] : &saved.messages[i]);
    out.own.push_back(owns);
  }
  return out;
}

}  // namespace

Conversation::Conversation(std::string cache_namespace, ChatSession session, uint64_t hash_seed)
    : cache_namespace_(std::move(cache_namespace)),
      session_(std::move(session)),
      start_(start_of(cache_namespace_, *session_.engine(), hash_seed)) {
  for (const Json& message : session_.state().messages()) push(message, false);
}

uint64_t Conversation::start_of(std::string_view cache_namespace, const Engine& engine, uint64_t hash_seed) {
  const auto& fingerprint = engine.state().fingerprint();
  const std::string model =
      fingerprint ? to_hex(fingerprint->bytes) : std::to_string(reinterpret_cast<uintptr_t>(&engine));
  return start_of_digits(to_hex(digest_of_namespace(cache_namespace)), model, hash_seed);
}

SavedSession Conversation::to_saved() const {
  SavedSession saved = ibid::to_saved(session_.state());
  saved.notes = Json::object();
  // Write a digest of the namespace, because a namespace may be a key.
  saved.notes["namespace"] = to_hex(digest_of_namespace(cache_namespace_));
  saved.notes["owner"] = to_hex(digest_of_namespace(owner_of_namespace(cache_namespace_)));
  if (const auto& fingerprint = session_.engine()->state().fingerprint()) {
    saved.notes["model"] = to_hex(fingerprint->bytes);
  }
  saved.notes["cut"] = is_cut_;
  Json& seen = saved.notes["seen"] = Json::array();
  for (const Seen& one : seen_) seen.push_back(one.own ? *one.own : Json());
  return saved;
}

ConversationPlaces Conversation::places() const {
  ConversationPlaces places;
  for (const Seen& one : seen_) places.hashes.push_back(one.hash);
  for (size_t n = 1; n <= size() && places.first == 0; ++n) {
    if (is_from(seen(n - 1), Role::kAssistant)) places.first = is_cut_ ? size() : n;
  }
  return places;
}

std::optional<ConversationPlaces> Conversation::places_of(const SavedSession& saved, uint64_t hash_seed) {
  const std::optional<SeenMessages> seen = seen_in(saved);
  if (!seen) return std::nullopt;
  ConversationPlaces places;
  uint64_t hash =
      start_of_digits(*text_member(saved.notes, "namespace"), *text_member(saved.notes, "model"), hash_seed);
  for (const Json* message : seen->messages) {
    places.hashes.push_back(hash = chain_hash(hash, *message));
    if (places.first == 0 && is_from(*message, Role::kAssistant)) places.first = places.hashes.size();
  }
  if (seen->is_cut && places.first > 0) places.first = places.hashes.size();
  return places;
}

Result<Conversation> Conversation::resume(std::shared_ptr<Engine> engine, const std::string& cache_namespace,
                                          const SavedSession& saved, uint64_t hash_seed) {
  const std::optional<SeenMessages> seen = seen_in(saved);
  if (!seen) return {ErrorCode::kBadHeader, "session: bad field 'notes'"};
  TRY_ASSIGN(ChatSession session, resume_session(std::move(engine), saved, {.cache_namespace = cache_namespace}));
  Conversation conversation(cache_namespace, std::move(session), hash_seed);
  conversation.seen_.clear();
  for (size_t i = 0; i < seen->messages.size(); ++i) conversation.push(*seen->messages[i], seen->own[i]);
  conversation.is_cut_ = seen->is_cut;
  return conversation;
}

void Conversation::push(const Json& message, bool owns) {
  Seen seen;
  seen.hash = chain_hash(seen_.empty() ? start_ : seen_.back().hash, message);
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
      session_(std::move(session)),
      seen_(other.seen_),
      start_(other.start_),
      is_cut_(other.is_cut_) {}

// The session has its messages in the form that the template reads, so they may differ from those of the client.
Status Conversation::go_on(const Json& sent, size_t n) {
  CHECK(can_go_on_from(n));
  const size_t n_kept = is_cut_ ? session_.state().messages().size() : n;
  TRY(session_.state().replace_from(n_kept, Json::array_t(sent.begin() + static_cast<std::ptrdiff_t>(n), sent.end())));
  seen_.resize(n);
  for (size_t i = n; i < sent.size(); ++i) {
    const bool differs = seen_form(session_.state().messages()[n_kept + i - n]) != seen_form(sent[i]);
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
  const Json& held = session_.state().messages().back();
  const bool differs = seen_form(answer) != seen_form(held) || seen_reasoning(answer) != seen_reasoning(held);
  push(answer, is_cut_ || differs);
}

void Conversation::continued(const Json& answer) {
  seen_.pop_back();
  answered(answer, nullptr);
}

size_t Conversation::n_bytes() const {
  size_t n = session_.state().n_bytes() + seen_.capacity() * sizeof(Seen);
  for (const Seen& seen : seen_) {
    if (seen.own) n += json_to_string(*seen.own).size() + sizeof(Json);
  }
  return n + (seen_.empty() ? 0 : seen_.back().bytes);
}

}  // namespace ibid::serve
