#include "server/service/conversation.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/sha256.h"
#include "cache/tier/kv_record.h"
#include "server/store/cache_namespace.h"
#include "templates/message.h"

namespace ibid::serve {
namespace {

bool is_reasoning_key(std::string_view key) {
  return std::find(std::begin(kReasoningKeys), std::end(kReasoningKeys), key) != std::end(kReasoningKeys);
}

bool is_empty_value(const Json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_structured() && value.empty());
}

// Appends the length before the part, so that the boundary between parts is unambiguous.
void append_part(std::string& out, std::string_view part) {
  out += std::to_string(part.size());
  out += ':';
  out += part;
}

// Returns the text of a content that is only one text, else nullptr.
const std::string* one_text(const Json& content) {
  if (content.is_string()) return &content.get_ref<const std::string&>();
  if (!content.is_array() || content.size() != 1 || !content[0].is_object()) return nullptr;
  const Json& part = content[0];
  const std::string* type = text_member(part, "type");
  if (type == nullptr || *type != "text") return nullptr;
  for (const auto& [key, value] : part.items()) {
    if (key != "type" && key != "text" && !is_empty_value(value)) return nullptr;
  }
  return text_member(part, "text");
}

void append_content(std::string& out, const Json& content) {
  if (is_empty_value(content)) return;
  if (const std::string* text = one_text(content)) {
    if (text->empty()) return;
    out += 't';
    return append_part(out, *text);
  }
  out += 'j';
  append_part(out, json_to_string(content));
}

// Writes a whole number, if a double represents it exactly, without a fraction: JavaScript clients write 1.0 as 1.
void write_whole_numbers(Json& value) {
  constexpr double kMostExact = 9007199254740992.0;  // 2^53
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number == std::trunc(number) && std::abs(number) <= kMostExact) value = static_cast<int64_t>(number);
  } else if (value.is_structured()) {
    for (Json& part : value) write_whole_numbers(part);
  }
}

void append_value(std::string& out, Json value) {
  write_whole_numbers(value);
  append_part(out, json_to_string(value));
}

void append_arguments(std::string& out, const Json& arguments) {
  if (!arguments.is_string()) return append_value(out, arguments);
  const std::string& text = arguments.get_ref<const std::string&>();
  Result<Json> parsed = parse_json(text, "arguments");
  if (!parsed.ok()) return append_part(out, text);
  append_value(out, *std::move(parsed));
}

void append_calls(std::string& out, const Json& calls) {
  if (!calls.is_array()) return append_part(out, json_to_string(calls));
  for (const Json& call : calls) {
    const Json* function = find_member(call, "function");
    const Json& of = function == nullptr ? call : *function;
    const std::string* name = text_member(of, "name");
    const Json* arguments = find_member(of, "arguments");
    if (name == nullptr) {
      append_part(out, json_to_string(call));
      continue;
    }
    append_part(out, *name);
    append_arguments(out, arguments == nullptr ? Json::object() : *arguments);
  }
}

}  // namespace

std::string seen_form(const Json& message) {
  std::string out;
  append_part(out, role_of(message));
  if (!message.is_object()) return out + json_to_string(message);
  const bool is_answer = is_from(message, Role::kAssistant);
  std::vector<std::pair<std::string_view, const Json*>> others;
  for (const auto& [key, value] : message.get_ref<const Json::object_t&>()) {
    if (key == "role" || is_empty_value(value)) continue;
    if (key == "content") {
      append_content(out, value);
    } else if (!is_answer || !is_reasoning_key(key)) {
      others.emplace_back(key, &value);
    }
  }
  std::sort(others.begin(), others.end());
  for (const auto& [key, value] : others) {
    out += 'k';
    append_part(out, key);
    if (key == "tool_calls") {
      append_calls(out, *value);
    } else {
      append_part(out, json_to_string(*value));
    }
  }
  return out;
}

std::string seen_reasoning(const Json& message) {
  const std::string* reasoning = reasoning_of(message);
  return reasoning == nullptr ? std::string() : *reasoning;
}

bool is_seen_as(const Json& known, const Json& sent) {
  if (seen_form(known) != seen_form(sent)) return false;
  if (!is_from(sent, Role::kAssistant)) return true;
  const std::string reasoning = seen_reasoning(sent);
  return reasoning.empty() || reasoning == seen_reasoning(known);
}

uint64_t chain_start(const std::string& space, uint64_t seed) {
  return XXH3_64bits_withSeed(space.data(), space.size(), seed);
}

uint64_t chain_hash(uint64_t before, const Json& message) {
  const std::string form = seen_form(message);
  return XXH3_64bits_withSeed(form.data(), form.size(), before);
}

namespace {

// The fingerprint of the engine's model; empty: it has none.
std::string fingerprint_digits(const Engine& engine) {
  const auto& later = engine.state().fingerprint();
  const Result<Fingerprint> fingerprint = later ? later->get() : Status(ErrorCode::kNotFound, "");
  return fingerprint.ok() ? to_hex(fingerprint->bytes) : std::string();
}

// Returns the hash of an empty history, with which a chain of hashes starts. name_space: hexadecimal digest of the
// namespace. model: the model's fingerprint; without one, the engine's address.
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
  const std::string fingerprint = fingerprint_digits(engine);
  const std::string model = fingerprint.empty() ? std::to_string(reinterpret_cast<uintptr_t>(&engine)) : fingerprint;
  return start_of_digits(to_hex(digest_of_namespace(cache_namespace)), model, hash_seed);
}

SavedSession Conversation::to_saved() const {
  SavedSession saved = ibid::to_saved(session_.state());
  saved.notes = Json::object();
  // Write a digest of the namespace, because a namespace may be a key.
  saved.notes["namespace"] = to_hex(digest_of_namespace(cache_namespace_));
  saved.notes["owner"] = to_hex(digest_of_namespace(owner_of_namespace(cache_namespace_)));
  if (std::string fingerprint = fingerprint_digits(*session_.engine()); !fingerprint.empty()) {
    saved.notes["model"] = std::move(fingerprint);
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
