#include "apps/serve/protocol/openapi.h"

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/serve/protocol/chat_messages.h"
#include "apps/serve/protocol/endpoints.h"
#include "base/check.h"

namespace ibid::serve {

namespace {

Json number_json(double value) {
  const bool is_whole = value == std::floor(value) && std::abs(value) < 9e15;
  return is_whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

void add_limits(Json& schema, const FieldRule& rule, const char* least, const char* most) {
  if (std::isfinite(rule.least)) schema[least] = number_json(rule.least);
  if (std::isfinite(rule.most)) schema[most] = number_json(rule.most);
}

Json written_schema(std::string_view name, std::string_view text) {
  Result<Json> schema = parse_json(text, name);
  CHECK(schema.ok()) << schema.status().message();
  return std::move(*schema);
}

Json schema_of(const FieldRule& rule) {
  if (!rule.schema.empty()) return written_schema(rule.name, rule.schema);
  Json schema = Json::object();
  switch (rule.shape) {
    case Shape::kAny: break;
    case Shape::kBoolean: schema["type"] = "boolean"; break;
    case Shape::kInteger:
      schema["type"] = "integer";
      add_limits(schema, rule, "minimum", "maximum");
      break;
    case Shape::kNumber:
      schema["type"] = "number";
      add_limits(schema, rule, "minimum", "maximum");
      break;
    case Shape::kText:
      schema["type"] = "string";
      // Ours are bytes, theirs are characters: the least is the same, and the most is a borderline nobody meets.
      if (rule.least > 0) schema["minLength"] = number_json(rule.least);
      break;
    case Shape::kList:
      schema["type"] = "array";
      add_limits(schema, rule, "minItems", "maxItems");
      break;
    case Shape::kObject: schema["type"] = "object"; break;
  }
  return schema;
}

Json property_of(const FieldRule& rule) {
  Json schema = schema_of(rule);
  if (!rule.required && !schema.empty()) {
    Json either = Json::array();
    either.push_back(std::move(schema));
    either.push_back(Json{{"type", "null"}});
    schema = Json::object();
    schema["anyOf"] = std::move(either);
  }
  if (!rule.about.empty()) schema["description"] = std::string(rule.about);
  if (rule.standing == Standing::kIgnored) schema["x-ignored"] = true;
  return schema;
}

// The schemas of fields that several endpoints have: each is written once, and pointed to.
class Components {
 public:
  // The schema, or where it stands. Of two fields of one name the first has the name.
  Json place(const std::string& name, Json schema) {
    const auto [entry, is_new] = schemas_.emplace(name, schema);
    if (!is_new && entry->second != schema) return schema;
    return Json{{"$ref", "#/components/schemas/" + name}};
  }
  Json schemas() const {
    Json all = Json::object();
    for (const auto& [name, schema] : schemas_) all[name] = schema;
    return all;
  }

 private:
  std::map<std::string, Json> schemas_;
};

// What is refused with any value that matters; the value that changes nothing is no use to anybody.
Json body_schema(const std::vector<FieldRule>& rules, Components& components) {
  Json properties = Json::object(), required = Json::array(), refused = Json::object();
  for (const FieldRule& rule : rules) {
    const std::string name(rule.name);
    if (rule.standing == Standing::kRefused) {
      refused[name] = std::string(rule.about);
      continue;
    }
    properties[name] = components.place(name, property_of(rule));
    if (rule.required) required.push_back(name);
  }
  Json schema = Json::object();
  schema["type"] = "object";
  schema["properties"] = std::move(properties);
  if (!required.empty()) schema["required"] = std::move(required);
  if (!refused.empty()) schema["x-refused"] = std::move(refused);
  return schema;
}

struct StatusText {
  const char* status;
  const char* text;
};
constexpr StatusText kErrors[] = {
    {"400", "The request has to change; the message names the field."},
    {"401", "No API key, or a wrong one."},
    {"403", "The header Host or Origin is none that may ask."},
    {"404", "There is no model, response or session of that name."},
    {"408", "The request did not come in time."},
    {"409", "An answer of this session is under way."},
    {"413", "The body is too large."},
    {"415", "The body is compressed."},
    {"417", "What the header Expect wants is not known."},
    {"429", "The server takes no more now; Retry-After says when to come again."},
    {"431", "The line and the headers of the request are too large."},
    {"500", "The server's own mistake."},
    {"501", "Understood, and not supported."},
    {"503", "Memory is short; Retry-After says when to come again."},
    {"504", "A deadline passed."},
    {"529", "As 503, in Anthropic's words."}};

// What stands in front of the names of a protocol's errors: "anthropic_error", "anthropic_400".
const char* prefix_of(ErrorStyle style) {
  switch (style) {
    case ErrorStyle::kOpenAi: return "";
    case ErrorStyle::kAnthropic: return "anthropic_";
    case ErrorStyle::kOllama: return "ollama_";
  }
  return "";
}

std::string_view error_schema(ErrorStyle style) {
  switch (style) {
    case ErrorStyle::kOpenAi: break;
    case ErrorStyle::kAnthropic:
      return R"({"type":"object","required":["type","error"],"properties":{"type":{"const":"error"},"error":)"
             R"({"type":"object","required":["type","message"],"properties":{"type":{"type":"string"},"message":)"
             R"({"type":"string"}}}}})";
    case ErrorStyle::kOllama:
      return R"({"type":"object","required":["error"],"properties":{"error":{"type":"string"}}})";
  }
  return R"({"type":"object","required":["error"],"properties":{"error":{"type":"object","required":["message",)"
         R"("type","param","code"],"properties":{"message":{"type":"string"},"type":{"type":"string"},"param":)"
         R"({"type":["string","null"]},"code":{"type":"string"}}}}})";
}

Json reference_to(const std::string& kind, const std::string& name) {
  return Json{{"$ref", "#/components/" + kind + "/" + name}};
}

Json content_of(const char* type, Json schema) {
  Json content = Json::object();
  content[type]["schema"] = std::move(schema);
  return content;
}

constexpr ErrorStyle kStyles[] = {ErrorStyle::kOpenAi, ErrorStyle::kAnthropic, ErrorStyle::kOllama};

// Of every protocol, which operations point to.
Json error_responses() {
  Json responses = Json::object();
  for (const ErrorStyle style : kStyles) {
    const std::string prefix = prefix_of(style);
    for (const auto& [status, text] : kErrors) {
      Json& response = responses[prefix + status];
      response["description"] = text;
      response["content"] = content_of("application/json", reference_to("schemas", prefix + "error"));
    }
  }
  return responses;
}

// Whole, or in parts where the request may ask for a stream.
Json answer_response(const Endpoint& endpoint) {
  Json response = Json::object();
  response["description"] = "The answer.";
  response["content"] = content_of("application/json", Json{{"type", "object"}});
  if (endpoint.fields == nullptr) return response;
  for (const FieldRule& rule : endpoint.fields()) {
    if (rule.name != "stream") continue;
    const bool is_lines = style_of_path(endpoint.pattern) == ErrorStyle::kOllama;
    response["content"][is_lines ? "application/x-ndjson" : "text/event-stream"] = Json::object();
  }
  return response;
}

Json responses_of(const Endpoint& endpoint) {
  Json responses = Json::object();
  responses["200"] = answer_response(endpoint);
  const std::string prefix = prefix_of(style_of_path(endpoint.pattern));
  for (const auto& [status, text] : kErrors) responses[status] = reference_to("responses", prefix + status);
  return responses;
}

Json operation_of(const Endpoint& endpoint, Components& components) {
  Json operation = Json::object();
  operation["tags"] = Json::array();
  operation["tags"].push_back(std::string(endpoint.protocol));
  operation["summary"] = std::string(endpoint.summary);
  if (endpoint.pattern.find("{id}") != std::string_view::npos) {
    Json id = {{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}, {"minLength", 1}}}};
    operation["parameters"] = Json::array();
    operation["parameters"].push_back(std::move(id));
  }
  if (endpoint.fields != nullptr) {
    Json schema = body_schema(endpoint.fields(), components);
    if (endpoint.options != nullptr) schema["properties"]["options"] = body_schema(endpoint.options(), components);
    Json body = Json::object();
    // Sessions are asked without a body where nothing has to be said.
    body["required"] = endpoint.protocol != "ibid" || schema.contains("required");
    body["content"]["application/json"]["schema"] = std::move(schema);
    operation["requestBody"] = std::move(body);
  }
  operation["responses"] = responses_of(endpoint);
  return operation;
}

// "POST" as "post".
std::string small_letters(std::string_view word) {
  std::string small;
  for (const char c : word) small += static_cast<char>(c - 'A' + 'a');
  return small;
}

}  // namespace

Json openapi_document() {
  Json document = Json::object();
  document["openapi"] = "3.1.0";
  document["info"] = {{"title", "ibid serve"},
                      {"version", "1"},
                      {"description", "The HTTP endpoints of ibid. Fields that are not named are ignored."}};
  Components components;
  components.place("chat_message", written_schema("chat_message", kChatMessageSchema));
  for (const ErrorStyle style : kStyles) {
    const std::string name = std::string(prefix_of(style)) + "error";
    components.place(name, written_schema(name, error_schema(style)));
  }
  Json paths = Json::object();
  for (const Endpoint& endpoint : endpoints()) {
    paths[std::string(endpoint.pattern)][small_letters(endpoint.method)] = operation_of(endpoint, components);
  }
  document["paths"] = std::move(paths);
  document["components"] = {{"schemas", components.schemas()}, {"responses", error_responses()}};
  return document;
}

void get_openapi(const Site&, const http::ExchangePtr& exchange) { respond_json(*exchange, openapi_document()); }

}  // namespace ibid::serve
