#include "runtime/session/session_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/utf8.h"
#include "model/model_fingerprint.h"
#include "templates/message.h"

namespace ibid {
namespace {

constexpr std::array<std::string_view, 3> kPolicies = {"error", "drop_oldest_turns", "cut_newest_message"};

// --- reading

Status bad_field(const std::string& name) { return {ErrorCode::kBadHeader, "session: bad field '" + name + "'"}; }

Json ids_to_json(const Tokens& ids) { return Json(ids); }

Result<Tokens> ids_from_json(const Json& json, const std::string& name) {
  if (!json.is_array()) return bad_field(name);
  Tokens ids;
  ids.reserve(json.size());
  for (const Json& id : json) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) return bad_field(name);
    ids.push_back(static_cast<TokenId>(id.get<uint64_t>()));
  }
  return ids;
}

Result<size_t> number_from(const Json& json, const char* name, size_t below) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned() || found->get<uint64_t>() >= below) return bad_field(name);
  return found->get<uint64_t>();
}

Result<std::string> text_from(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_string()) return bad_field(name);
  return found->get<std::string>();
}

Result<Json> messages_from(const Json& json) {
  const auto found = json.find("messages");
  if (found == json.end() || !found->is_array()) return bad_field("messages");
  for (const Json& message : *found) {
    if (!has_role(message)) return bad_field("messages");
  }
  return *found;
}

Result<SavedReply> reply_from(const Json& item, const Json& messages) {
  if (!item.is_object() || !item.contains("ids")) return bad_field("replies");
  SavedReply reply;
  TRY_ASSIGN(reply.message, number_from(item, "message", messages.size()));
  if (!is_from(messages[reply.message], Role::kAssistant)) return bad_field("replies");
  TRY_ASSIGN(reply.ids, ids_from_json(item["ids"], "ids"));
  if (item.contains("end_of_turn")) {
    TRY_ASSIGN(const size_t id, number_from(item, "end_of_turn", INT32_MAX));
    reply.end_of_turn = static_cast<TokenId>(id);
  }
  return reply;
}

// Reads replies up to the first damaged one; later ones are not reliable.
void read_replies(const Json& json, SavedSession& session) {
  const auto found = json.find("replies");
  if (found == json.end() || !found->is_array()) {
    session.load_warnings.fields.push_back("replies");
    return;
  }
  std::vector<SavedReply>& replies = session.replies;
  for (size_t i = 0; i < found->size(); ++i) {
    Result<SavedReply> reply = reply_from((*found)[i], session.messages);
    if (!reply.ok() || (!replies.empty() && replies.back().message > reply->message)) {
      session.load_warnings.n_replies = found->size() - i;
      return;
    }
    // Older files may have two replies of one message, of which only the second is valid.
    if (!replies.empty() && replies.back().message == reply->message) replies.pop_back();
    replies.push_back(*std::move(reply));
  }
}

Result<Usage> usage_from(const Json& json) {
  const auto found = json.find("usage");
  if (found == json.end() || !found->is_object()) return bad_field("usage");
  Usage usage;
  for (const auto& [name, field] : kUsageFields) {
    if (!found->contains(name)) continue;  // missing in older files
    TRY_ASSIGN(usage.*field, number_from(*found, name, SIZE_MAX));
  }
  return usage;
}

Result<std::set<size_t>> pins_from(const Json& json, size_t n_messages) {
  const auto found = json.find("pinned");
  if (found == json.end() || !found->is_array()) return bad_field("pinned");
  std::set<size_t> pinned;
  for (const Json& number : *found) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() >= n_messages) return bad_field("pinned");
    pinned.insert(number.get<size_t>());
  }
  return pinned;
}

Result<WhenFull> policy_from(const Json& json) {
  TRY_ASSIGN(const std::string policy, text_from(json, "when_full"));
  const auto known = std::find(kPolicies.begin(), kPolicies.end(), policy);
  if (known == kPolicies.end()) return bad_field("when_full");
  return static_cast<WhenFull>(known - kPolicies.begin());
}

Result<Json> variables_from(const Json& json) {
  const auto found = json.find("variables");
  if (found == json.end() || !found->is_object()) return bad_field("variables");
  return *found;
}

Result<bool> repair_from(const Json& json) {
  const auto found = json.find("repair_when_idle");
  if (found == json.end()) return true;
  if (!found->is_boolean()) return bad_field("repair_when_idle");
  return found->get<bool>();
}

Result<uint32_t> numerics_from(const Json& json) {
  if (!json.contains("numerics_version")) return uint32_t{0};
  TRY_ASSIGN(const size_t version, number_from(json, "numerics_version", UINT32_MAX));
  return static_cast<uint32_t>(version);
}

Result<size_t> length_from(const Json& json) {
  if (!json.contains("n_ids")) return size_t{0};
  return number_from(json, "n_ids", SIZE_MAX);
}

// Takes the value; on error keeps the default of a new session and records the loss.
template <typename T>
void take(Result<T> value, const char* name, T& out, LoadWarnings& load_warnings) {
  if (value.ok()) {
    out = *std::move(value);
  } else {
    load_warnings.fields.push_back(name);
  }
}

// --- what JSON can express

struct Defect {
  ErrorCode code;
  const char* what;
  std::string where;  // path from the outermost value to the value that cannot be saved
};

// Checks a value that is nested in `depth` levels.
std::optional<Defect> find_defect(const Json& value, size_t depth, size_t& n_values) {
  ++n_values;
  const auto invalid = [](const char* what) { return Defect{ErrorCode::kInvalidArgument, what, {}}; };
  if (value.is_string() && !utf8_is_valid(value.get_ref<const std::string&>())) {
    return invalid("a string that is not valid UTF-8");
  }
  if (value.is_number_float() && !std::isfinite(value.get<double>())) return invalid("a number that is not finite");
  if (value.is_binary() || value.is_discarded()) return invalid("a value that JSON cannot represent");
  if (!value.is_structured()) return std::nullopt;
  if (depth == kMaxJsonDepth) return Defect{ErrorCode::kLimitExceeded, "more nested levels than can be loaded", {}};
  std::optional<Defect> defect;
  if (value.is_object()) {
    for (const auto& [key, member] : value.get_ref<const Json::object_t&>()) {
      defect = utf8_is_valid(key) ? find_defect(member, depth + 1, n_values) : invalid("a key that is not valid UTF-8");
      if (defect) defect->where.insert(0, "." + utf8_sanitize(key));
      if (defect) return defect;
    }
    return std::nullopt;
  }
  for (size_t i = 0; i < value.size(); ++i) {
    defect = find_defect(value[i], depth + 1, n_values);
    if (defect) defect->where.insert(0, "[" + std::to_string(i) + "]");
    if (defect) return defect;
  }
  return std::nullopt;
}

// Maximum bytes of a path in an error message. A longer path is cut, because its beginning shows the place well enough.
constexpr size_t kMaxPlaceBytes = 120;

}  // namespace

std::string LoadWarnings::to_string() const {
  std::string text;
  if (n_replies > 0) text = "the tokens of " + std::to_string(n_replies) + (n_replies == 1 ? " answer" : " answers");
  for (const std::string& field : fields) text += (text.empty() ? "" : "; ") + field;
  if (!rows.ok()) text += (text.empty() ? "" : "; ") + ("keys and values (" + rows.message() + ")");
  return text;
}

// Assigns fields one by one instead of a braced list: if an allocation fails inside a list, gcc 12 leaks the values
// built so far (bug 66139). Starts from an object: nlohmann converts null to an object in two steps, and a failure
// between them leaves a value that its destructor rejects.
Json session_to_json(const SavedSession& session) {
  Json json = Json::object();
  json["model"] = session.model_name;
  json["variables"] = session.variables;
  json["now"] = session.now;
  json["when_full"] = kPolicies[static_cast<size_t>(session.when_full)];
  json["repair_when_idle"] = session.repair_when_idle;
  json["messages"] = session.messages;
  json["pinned"] = session.pinned;
  Json replies = Json::array();
  for (const SavedReply& reply : session.replies) {
    Json item = Json::object();
    item["message"] = reply.message;
    item["ids"] = ids_to_json(reply.ids);
    if (reply.end_of_turn) item["end_of_turn"] = *reply.end_of_turn;
    replies.push_back(std::move(item));
  }
  json["replies"] = std::move(replies);
  Json usage = Json::object();
  for (const auto& [name, field] : kUsageFields) usage[name] = session.usage.*field;
  json["usage"] = std::move(usage);
  json["numerics_version"] = kNumericsVersion;
  json["n_ids"] = session.n_tokens;
  if (!session.notes.is_null()) json["notes"] = session.notes;
  return json;
}

Result<SavedSession> session_from_json(const Json& json) {
  if (!json.is_object()) return {ErrorCode::kBadHeader, "session: not a JSON object"};
  SavedSession session;
  LoadWarnings& load_warnings = session.load_warnings;
  TRY_ASSIGN(session.messages, messages_from(json));
  take(text_from(json, "model"), "model", session.model_name, load_warnings);
  take(text_from(json, "now"), "now", session.now, load_warnings);
  take(policy_from(json), "when_full", session.when_full, load_warnings);
  take(repair_from(json), "repair_when_idle", session.repair_when_idle, load_warnings);
  take(variables_from(json), "variables", session.variables, load_warnings);
  take(pins_from(json, session.messages.size()), "pinned", session.pinned, load_warnings);
  take(usage_from(json), "usage", session.usage, load_warnings);
  take(numerics_from(json), "numerics_version", session.numerics_version, load_warnings);
  take(length_from(json), "n_ids", session.n_tokens, load_warnings);
  if (const auto notes = json.find("notes"); notes != json.end()) session.notes = *notes;
  read_replies(json, session);
  return session;
}

Result<std::string> session_to_text(const Json& json) {
  size_t n_values = 0;
  if (std::optional<Defect> defect = find_defect(json, 0, n_values)) {
    std::string where = defect->where.substr(defect->where.starts_with('.') ? 1 : 0);
    if (where.size() > kMaxPlaceBytes) where = utf8_sanitize(where.substr(0, kMaxPlaceBytes)) + "...";
    return {defect->code, "the session cannot be saved: " + where + " holds " + defect->what};
  }
  std::string text = json_to_string(json);
  if (text.size() > kMaxSessionBytes || n_values > JsonLimits{}.max_values) {
    return {ErrorCode::kLimitExceeded, "the session cannot be saved: it has " + std::to_string(text.size()) +
                                           " bytes and " + std::to_string(n_values) +
                                           " values as JSON, the limits are " + std::to_string(kMaxSessionBytes) +
                                           " bytes and " + std::to_string(JsonLimits{}.max_values) + " values"};
  }
  return text;
}

Result<SavedSession> session_from_text(std::string_view text, const std::string& what) {
  TRY_ASSIGN(const Json json, parse_json(text, what, {.max_bytes = kMaxSessionBytes, .max_depth = kMaxJsonDepth}));
  return session_from_json(json);
}

}  // namespace ibid
