#include "templates/reply/protocol_messages.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/json_members.h"
#include "templates/chat_template.h"
#include "templates/message.h"
#include "templates/reply/json_scanner.h"
#include "templates/reply/schema_check.h"

namespace ibid {
namespace {

constexpr size_t kMaxTagDepth = 40;
constexpr std::string_view kItem = "item";

// Reads a value that is written as tags. Used once. Its functions return nullopt if the text has another form.
class NestedReader {
 public:
  NestedReader(std::string_view text, const ParameterSyntax& syntax, const Json& root)
      : text_(text), syntax_(syntax), root_(root) {}

  std::optional<std::string> read_whole(const Json& schema) {
    std::optional<std::string> value = read_elements(schema, 0);
    skip_spaces();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && is_marker_space(text_[at_])) ++at_;
  }
  bool take(std::string_view words) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(words)) return false;
    at_ += words.size();
    return true;
  }
  bool at_closing() const { return text_.substr(at_).starts_with(syntax_.after_value); }

  std::optional<std::string> read_elements(const Json& schema, size_t depth) {
    if (depth == kMaxTagDepth) return std::nullopt;
    const Json* resolved = &schema;
    if (const Json* reference = find_member(schema, "$ref"); reference != nullptr && reference->is_string()) {
      const Json* found = referred_schema(root_, reference->get_ref<const std::string&>());
      if (found != nullptr) resolved = found;
    }
    std::string members;
    size_t n_items = 0, n_members = 0;
    for (skip_spaces(); at_ < text_.size() && !at_closing(); skip_spaces()) {
      if (!take(syntax_.before_key)) return std::nullopt;
      const size_t end = text_.find(syntax_.before_value, at_);
      if (end == text_.npos || end == at_) return std::nullopt;
      const std::string_view key = text_.substr(at_, end - at_);
      if (key.find_first_of("<> \n\t\r") != key.npos) return std::nullopt;
      at_ = end + syntax_.before_value.size();
      const std::optional<std::string> value = read_value(key, schema_of(*resolved, key), depth + 1);
      if (!value) return std::nullopt;
      const bool is_item = key == kItem;
      members += (n_members++ > 0 ? ", " : "") + (is_item ? "" : json_string(key) + ": ") + *value;
      n_items += is_item ? 1 : 0;
    }
    if (n_members == 0 || (n_items > 0 && n_items < n_members)) return std::nullopt;
    return n_items > 0 ? "[" + members + "]" : "{" + members + "}";
  }

  static const Json& schema_of(const Json& schema, std::string_view key) {
    static const Json& any = *new Json(true);
    const Json* properties = find_member(schema, "properties");
    const Json* found = properties == nullptr ? nullptr : find_member(*properties, key);
    if (found == nullptr && key == kItem) found = find_member(schema, "items");
    return found == nullptr ? any : *found;
  }

  // Reads the value and its closing tag.
  std::optional<std::string> read_value(std::string_view key, const Json& schema, size_t depth) {
    const std::string closing = syntax_.after_value + std::string(key) + syntax_.after_closing_key;
    const AllowedTypes types = allowed_types(schema, root_);
    const size_t begin = at_;
    skip_spaces();
    if (!types.string && text_.substr(at_).starts_with(syntax_.before_key) && !at_closing()) {
      std::optional<std::string> value = read_elements(schema, depth);
      if (!value || !take(closing)) return std::nullopt;
      return value;
    }
    at_ = begin;
    const size_t end = text_.find(closing, at_);
    if (end == text_.npos) return std::nullopt;
    std::string value = marked_value_json(text_.substr(at_, end - at_), types, {});
    at_ = end + closing.size();
    return value;
  }

  const std::string_view text_;
  const ParameterSyntax& syntax_;
  const Json& root_;
  size_t at_ = 0;
};

// Reads objects and arrays that are written as tags, in forms where a value ends with its key again:
// <point><x>1</x><y>2</y></point>, <names><item>a</item><item>b</item></names>. Returns the value as JSON; nullopt if
// the text is not one or more whole elements. Elements that are all named "item" are an array. schema: the schema of
// the value, within `root`; it decides the types of the values inside.
std::optional<std::string> nested_value_json(std::string_view text, const ParameterSyntax& syntax, const Json& schema,
                                             const Json& root) {
  return NestedReader(text, syntax, root).read_whole(schema);
}

constexpr const char* kProtocolReasoning = "reasoning_content";

// Returns the object that has the name and arguments of a call: its member "function", or the call itself.
Json* function_of(Json& call) {
  if (!call.is_object()) return nullptr;
  const auto function = call.find("function");
  return function != call.end() && function->is_object() ? &*function : &call;
}

Json* calls_of(Json& message) {
  if (!message.is_object()) return nullptr;
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() ? &*calls : nullptr;
}

// Sets the arguments to {} where they are "", null or missing: some clients send calls without arguments like this.
void fill_empty_arguments(Json& calls) {
  for (Json& call : calls) {
    Json* function = function_of(call);
    if (function == nullptr || !function->contains("name")) continue;
    const auto arguments = function->find("arguments");
    if (arguments == function->end() || arguments->is_null() || *arguments == Json("")) {
      (*function)["arguments"] = Json::object();
    }
  }
}

void write_arguments_as_text(Json& calls) {
  for (Json& call : calls) {
    Json* function = function_of(call);
    if (function == nullptr) continue;
    const auto arguments = function->find("arguments");
    if (arguments != function->end() && arguments->is_object()) *arguments = json_to_string(*arguments);
  }
}

// Removes the content of a message that also has reasoning: a template with channels renders only one of them beside a
// call.
void choose_between_content_and_reasoning(Json& message, const ReplyFormat& format) {
  const std::string* content = content_of(message);
  const std::string* reasoning = text_member(message, format.reasoning_key);
  const bool both = content != nullptr && !content->empty() && reasoning != nullptr && !reasoning->empty();
  if (format.channels && both) set_content(message, "");
}

}  // namespace

Json message_for_template(Json message, const ReplyFormat& format) {
  if (!is_from(message, Role::kAssistant)) return message;
  const std::string* own = text_member(message, format.reasoning_key);
  const std::string* reasoning = own != nullptr && !own->empty() ? nullptr : reasoning_of(message);
  if (reasoning != nullptr) {
    std::string text = *reasoning;
    for (const std::string_view key : kReasoningKeys) message.erase(std::string(key));
    message[format.reasoning_key] = std::move(text);
  }
  if (calls_of(message) == nullptr) return message;
  if (const Json* content = content_value(message); content == nullptr || content->is_null()) set_content(message, "");
  fill_empty_arguments(*calls_of(message));
  if (format.arguments_as_text) {
    write_arguments_as_text(*calls_of(message));
  } else {
    message = with_parsed_tool_arguments(std::move(message));
  }
  choose_between_content_and_reasoning(message, format);
  return message;
}

Json messages_for_template(Json messages, const ReplyFormat& format) {
  if (!messages.is_array()) return messages;
  const Json* calls = nullptr;  // the calls of the last message so far that has calls
  for (Json& message : messages) {
    message = message_for_template(std::move(message), format);
    if (const Json* here = calls_of(message)) calls = here;
    const std::string* id = text_member(message, "tool_call_id");
    if (!is_from(message, Role::kTool) || id == nullptr || calls == nullptr || message.contains("name")) continue;
    for (const Json& call : *calls) {
      const std::string* name = call.contains("function") ? text_member(call["function"], "name") : nullptr;
      if (name == nullptr || text_member(call, "id") == nullptr || *text_member(call, "id") != *id) continue;
      message["name"] = *name;
      break;
    }
  }
  return messages;
}

Json protocol_message(const ParsedReply& reply) {
  Json message = make_message(Role::kAssistant, reply.content);
  if (!reply.reasoning.empty()) message[kProtocolReasoning] = reply.reasoning;
  if (reply.calls.empty()) return message;
  if (reply.content.empty()) message["content"] = nullptr;
  Json calls = Json::array();
  for (const ParsedCall& call : reply.calls) {
    Json one = Json::object();
    one["id"] = call.id;
    one["type"] = "function";
    one["function"]["name"] = call.name;
    one["function"]["arguments"] = call.arguments;
    calls.push_back(std::move(one));
  }
  message["tool_calls"] = std::move(calls);
  return message;
}

void assign_call_ids(ParsedReply& reply, uint64_t seed) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr size_t kIdBytes = 9;
  for (size_t i = 0; i < reply.calls.size(); ++i) {
    // SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
    uint64_t bits = seed + (i + 1) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    bits ^= bits >> 31;
    if (!reply.calls[i].id.empty()) continue;
    for (size_t n = 0; n < kIdBytes; ++n, bits /= kLetters.size()) {
      reply.calls[i].id += kLetters[bits % kLetters.size()];
    }
  }
}

namespace {

// Limits on nested schemas, by depth and by number, because a request may contain any schema.
constexpr size_t kMaxSchemaDepth = 8;
constexpr size_t kMaxSchemas = 1000;

void add(AllowedTypes& types, std::string_view name) {
  types.string |= name == "string";
  types.null |= name == "null";
  types.other |= name != "string" && name != "null";
  types.boolean |= name == "boolean";
}

void add_type_of(AllowedTypes& types, const Json& value) {
  add(types, value.is_string() ? "string" : value.is_null() ? "null" : value.is_boolean() ? "boolean" : "other");
}

// n_left: number of schemas that may still be evaluated.
AllowedTypes allowed_types_within(const Json& schema, const Json& root, size_t depth, size_t& n_left) {
  AllowedTypes types;
  if (depth == 0 || n_left == 0) return types;
  --n_left;
  if (const Json* type = find_member(schema, "type")) {
    if (type->is_string()) add(types, type->get_ref<const std::string&>());
    if (type->is_array()) {
      for (const Json& one : *type) {
        if (one.is_string()) add(types, one.get_ref<const std::string&>());
      }
    }
    if (types.any()) return types;
  }
  if (const Json* value = find_member(schema, "const")) add_type_of(types, *value);
  const Json* values = find_member(schema, "enum");
  if (values != nullptr && values->is_array()) {
    for (const Json& value : *values) add_type_of(types, value);
  }
  if (types.any()) return types;
  if (const Json* reference = find_member(schema, "$ref"); reference != nullptr && reference->is_string()) {
    const Json* found = referred_schema(root, reference->get_ref<const std::string&>());
    if (found != nullptr) return allowed_types_within(*found, root, depth - 1, n_left);
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const Json* schemas = find_member(schema, key);
    if (schemas == nullptr || !schemas->is_array()) continue;
    for (const Json& one : *schemas) {
      const AllowedTypes more = allowed_types_within(one, root, depth - 1, n_left);
      types.string |= more.string;
      types.null |= more.null;
      types.other |= more.other;
      types.boolean |= more.boolean;
    }
  }
  return types;
}

}  // namespace

AllowedTypes allowed_types(const Json& schema, const Json& root) {
  size_t n_left = kMaxSchemas;
  return allowed_types_within(schema, root, kMaxSchemaDepth, n_left);
}

std::string_view tool_name(const Json& tool) {
  const Json* function = find_member(tool, "function");
  const Json* name = find_member(function != nullptr ? *function : tool, "name");
  return name != nullptr && name->is_string() ? std::string_view(name->get_ref<const std::string&>())
                                              : std::string_view();
}

OfferedTools::OfferedTools(const Json& tools) {
  if (!tools.is_array()) return;
  for (const Json& one : tools) {
    const std::string_view name = tool_name(one);
    if (name.empty()) continue;
    Tool& tool = tools_[std::string(name)];
    const Json* function = find_member(one, "function");
    const Json* schema = find_member(function != nullptr ? *function : one, "parameters");
    tool = {schema == nullptr ? Json(true) : *schema, {}};
    const Json* properties = find_member(tool.schema, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [key, property] : properties->items()) tool.types[key] = allowed_types(property, tool.schema);
  }
}

const OfferedTools::Tool* OfferedTools::find(std::string_view name) const {
  const auto found = tools_.find(name);
  return found == tools_.end() ? nullptr : &found->second;
}

AllowedTypes OfferedTools::types_of(std::string_view tool, std::string_view argument) const {
  const Tool* known = find(tool);
  if (known == nullptr) return {};
  const auto found = known->types.find(argument);
  return found == known->types.end() ? AllowedTypes() : found->second;
}

bool OfferedTools::may_have(std::string_view tool, std::string_view argument) const {
  const Tool* known = find(tool);
  return known != nullptr && (known->types.empty() || known->types.find(argument) != known->types.end());
}

std::string OfferedTools::typed(std::string_view tool, std::string arguments) const {
  JsonScanner scanner;
  for (const char c : arguments) {
    if (scanner.state() != JsonScanner::State::kOpen || scanner.push(c) == JsonScanner::State::kBad) return arguments;
  }
  std::string out;
  size_t at = 0;
  for (const JsonScanner::Member& member : scanner.members()) {
    const std::string_view all = arguments;
    const std::string_view spelled = all.substr(member.value_begin, member.value_end - member.value_begin);
    const Result<Json> key = parse_json(all.substr(member.key_begin, member.key_end - member.key_begin), "a key");
    const Result<Json> value = parse_json(spelled, "a value");
    if (!key.ok() || !value.ok() || !value->is_string()) continue;
    const AllowedTypes types = types_of(tool, key->get_ref<const std::string&>());
    if (types.string || !types.any()) continue;
    out += all.substr(at, member.value_begin - at);
    out += marked_value_json(value->get_ref<const std::string&>(), types, {});
    at = member.value_end;
  }
  return out + arguments.substr(at);
}

std::optional<std::string> OfferedTools::nested(std::string_view tool, std::string_view argument, std::string_view text,
                                                const CallSyntax& syntax) const {
  static const Json& any = *new Json(true);
  const Tool* known = find(tool);
  if (known == nullptr) return std::nullopt;
  const Json* properties = find_member(known->schema, "properties");
  const Json* schema = properties == nullptr ? nullptr : find_member(*properties, argument);
  return nested_value_json(text, syntax.parameter, schema == nullptr ? any : *schema, known->schema);
}

std::string OfferedTools::unwrapped(std::string_view tool, std::string arguments) const {
  constexpr std::string_view kWrappers[] = {"arguments", "parameters", "properties", "input"};
  const Tool* known = find(tool);
  const Result<Json> outer = parse_json(arguments, "arguments of a call");
  if (known == nullptr || !outer.ok() || !outer->is_object() || outer->size() != 1) return arguments;
  const std::string key = outer->begin().key();
  if (std::ranges::find(kWrappers, key) == std::end(kWrappers) || may_have(tool, key)) return arguments;
  Json inner = *outer->begin();
  if (inner.is_string()) {
    const Result<Json> read = parse_json(inner.get_ref<const std::string&>(), "arguments of a call");
    if (read.ok()) inner = *read;
  }
  if (!inner.is_object()) return arguments;
  for (const auto& [name, value] : inner.items()) {
    if (!may_have(tool, name)) return arguments;
  }
  return json_to_string(inner);
}

bool OfferedTools::accepts(std::string_view tool, const Json& arguments) const {
  const Tool* known = find(tool);
  return known != nullptr && arguments.is_object() && schema_accepts(known->schema, known->schema, arguments);
}

}  // namespace ibid
