// The OpenAPI 3.1 description of all endpoints, generated from endpoints().
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/endpoints.h"
#include "server/protocol/handlers.h"

namespace ibid::serve {

namespace {

// Schemas of whole responses with status 200: the fields that are always present, and their types. Responses may have
// more fields. Streams have no schema: the protocol defines their form.
constexpr std::string_view kModel =
    R"({"type":"object","required":["id","object","created","owned_by"],"properties":{"id":{"type":"string"},)"
    R"("object":{"const":"model"},"created":{"type":"integer"},"owned_by":{"type":"string"}}})";
constexpr std::string_view kModels =
    R"({"type":"object","required":["object","data"],"properties":{"object":{"const":"list"},"data":{"type":"array",)"
    R"("items":{"type":"object","required":["id","object"],"properties":{"id":{"type":"string"},"object":)"
    R"({"const":"model"}}}}}})";
constexpr std::string_view kChatCompletion =
    R"({"type":"object","required":["id","object","created","model","choices","usage","timings","ibid"],"properties":)"
    R"({"id":{"type":"string"},"system_fingerprint":{"type":"string"},"object":{"const":"chat.completion"},)"
    R"("created":{"type":"integer"},"model":)"
    R"({"type":"string"},"choices":{"type":"array","minItems":1,"items":{"type":"object","required":["index",)"
    R"("message","logprobs","finish_reason"],"properties":{"index":{"type":"integer"},"message":{"type":"object",)"
    R"("required":["role","content"],"properties":{"role":{"const":"assistant"},"content":{"type":["string",)"
    R"("null"]},"reasoning_content":{"type":"string"},"tool_calls":{"type":"array","items":{"type":"object",)"
    R"("required":["id","type","function"],"properties":{"id":{"type":"string"},"type":{"const":"function"},)"
    R"("function":{"type":"object","required":["name","arguments"],"properties":{"name":{"type":"string"},"arguments":)"
    R"({"type":"string"}}}}}}}},"logprobs":{"type":["object","null"]},"finish_reason":{"enum":["stop","length",)"
    R"("tool_calls"]}}}},"prompt_logprobs":{"type":["array","null"]},"usage":{"$ref":"#/components/schemas/usage"},)"
    R"("timings":{"$ref":"#/components/schemas/timings"},"ibid":{"$ref":"#/components/schemas/ibid_details"}}})";
constexpr std::string_view kTextCompletion =
    R"({"type":"object","required":["id","object","created","model","choices","usage","timings","ibid"],"properties":)"
    R"({"id":{"type":"string"},"object":{"const":"text_completion"},"created":{"type":"integer"},"model":)"
    R"({"type":"string"},"choices":{"type":"array","minItems":1,"items":{"type":"object","required":["index","text",)"
    R"("logprobs","finish_reason"],"properties":{"index":{"type":"integer"},"text":{"type":"string"},"logprobs":)"
    R"({"type":["object","null"]},"finish_reason":{"enum":["stop","length"]},"prompt_logprobs":{"type":["array",)"
    R"("null"]}}}},"usage":)"
    R"({"$ref":"#/components/schemas/usage"},"timings":{"$ref":"#/components/schemas/timings"},"ibid":)"
    R"({"$ref":"#/components/schemas/ibid_details"}}})";
constexpr std::string_view kResponse =
    R"({"type":"object","required":["id","object","created_at","status","model","output","usage","error",)"
    R"("incomplete_details"],"properties":{"id":{"type":"string"},"object":{"const":"response"},"created_at":)"
    R"({"type":"integer"},"status":{"enum":["completed","incomplete","failed"]},"model":{"type":"string"},"output":)"
    R"({"type":"array","items":{"$ref":"#/components/schemas/output_item"}},"conversation":{"type":"object",)"
    R"("required":["id"],"properties":{"id":{"type":"string"}}},"usage":{"type":"object","required":["input_tokens",)"
    R"("input_tokens_details","output_tokens","output_tokens_details","total_tokens"],"properties":{"input_tokens":)"
    R"({"type":"integer"},"input_tokens_details":{"type":"object","required":["cached_tokens"],"properties":)"
    R"({"cached_tokens":{"type":"integer","minimum":0}}},"output_tokens":{"type":"integer"},"total_tokens":)"
    R"({"type":"integer"}}}}})";
constexpr std::string_view kItems =
    R"({"type":"object","required":["object","data","first_id","last_id","has_more"],"properties":{"object":)"
    R"({"const":"list"},"data":{"type":"array","items":{"type":"object","required":["id","type"],"properties":{"id":)"
    R"({"type":"string"},"type":{"type":"string"}}}},"first_id":{"type":["string","null"]},"last_id":{"type":)"
    R"(["string","null"]},"has_more":{"type":"boolean"}}})";
constexpr std::string_view kItem =
    R"({"type":"object","required":["id","type"],"properties":{"id":{"type":"string"},"type":{"type":"string"}}})";
constexpr std::string_view kConversation =
    R"({"type":"object","required":["id","object","created_at","metadata"],"properties":{"id":{"type":"string"},)"
    R"("object":{"const":"conversation"},"created_at":{"type":"integer"},"metadata":{"type":"object"}}})";
constexpr std::string_view kDeleted =
    R"({"type":"object","required":["id","object","deleted"],"properties":{"id":{"type":"string"},"object":)"
    R"({"type":"string"},"deleted":{"const":true}}})";
constexpr std::string_view kEmbeddings =
    R"({"type":"object","required":["object","data","model","usage"],"properties":{"object":{"const":"list"},"data":)"
    R"({"type":"array","items":{"type":"object","required":["object","index","embedding"],"properties":{"object":)"
    R"({"const":"embedding"},"index":{"type":"integer"},"embedding":{"oneOf":[{"type":"string"},{"type":"array",)"
    R"("items":{"type":"number"}}]}}}}}})";
constexpr std::string_view kMessage =
    R"({"type":"object","required":["id","type","role","model","content","stop_reason","stop_sequence","usage"],)"
    R"("properties":{"id":{"type":"string"},"type":{"const":"message"},"role":{"const":"assistant"},"model":)"
    R"({"type":"string"},"content":{"type":"array","items":{"type":"object","required":["type"],"properties":{"type":)"
    R"({"enum":["text","thinking","tool_use"]}}}},"stop_reason":{"enum":["end_turn","max_tokens","stop_sequence",)"
    R"("tool_use"]},"stop_sequence":{"type":["string","null"]},"usage":{"type":"object","required":["input_tokens",)"
    R"("output_tokens","cache_read_input_tokens","cache_creation_input_tokens"],"properties":{"input_tokens":)"
    R"({"type":"integer","minimum":0},"output_tokens":{"type":"integer","minimum":0},"cache_read_input_tokens":)"
    R"({"type":"integer","minimum":0},"cache_creation_input_tokens":{"type":"integer","minimum":0}}}}})";
constexpr std::string_view kInputTokens =
    R"({"type":"object","required":["input_tokens"],"properties":{"input_tokens":{"type":"integer","minimum":0}}})";
constexpr std::string_view kOllamaChat =
    R"({"type":"object","required":["model","created_at","message","done"],"properties":{"model":{"type":"string"},)"
    R"("created_at":{"type":"string"},"message":{"type":"object","required":["role","content"],"properties":{"role":)"
    R"({"const":"assistant"},"content":{"type":"string"}}},"done":{"const":true},"done_reason":{"enum":["stop",)"
    R"("length","load","unload"]}}})";
constexpr std::string_view kOllamaGenerate =
    R"({"type":"object","required":["model","created_at","response","done"],"properties":{"model":{"type":"string"},)"
    R"("created_at":{"type":"string"},"response":{"type":"string"},"done":{"const":true},"done_reason":{"enum":)"
    R"(["stop","length","load","unload"]}}})";
constexpr std::string_view kOllamaModels =
    R"({"type":"object","required":["models"],"properties":{"models":{"type":"array","items":{"type":"object",)"
    R"("required":["name","model","size"],"properties":{"name":{"type":"string"},"model":{"type":"string"},"size":)"
    R"({"type":"integer"}}}}}})";
constexpr std::string_view kOllamaShow =
    R"({"type":"object","required":["template","details","model_info","capabilities"],"properties":{"template":)"
    R"({"type":"string"},"details":{"type":"object","required":["format","family","parameter_size",)"
    R"("quantization_level"]},"model_info":{"type":"object","required":["general.architecture"]},"capabilities":)"
    R"({"type":"array","items":{"type":"string"}}}})";
constexpr std::string_view kVersion =
    R"({"type":"object","required":["version"],"properties":{"version":{"type":"string"}}})";
constexpr std::string_view kStatus =
    R"({"type":"object","required":["status"],"properties":{"status":{"type":"string"}}})";
constexpr std::string_view kSlots =
    R"({"type":"array","items":{"type":"object","required":["id","n_ctx","is_processing"],"properties":{"id":)"
    R"({"type":"integer"},"n_ctx":{"type":"integer"},"is_processing":{"type":"boolean"}}}})";
constexpr std::string_view kEmptyList = R"({"type":"array","maxItems":0})";
// The response of /completion. If the request has response_fields, it has only the fields that these name; if the
// request has several prompts, it is a list of such objects.
constexpr std::string_view kLlamaCompletion =
    R"({"type":["object","array"],"properties":{"content":{"type":"string"},"stop":)"
    R"({"const":true},"model":{"type":"string"},"tokens_predicted":{"type":"integer"},"tokens_evaluated":{"type":)"
    R"("integer"},"tokens_cached":{"type":"integer","minimum":0},"stop_type":{"enum":["eos","word","limit"]},)"
    R"("timings":{"$ref":"#/components/schemas/timings"},"generation_settings":{"type":"object"}}})";
constexpr std::string_view kTokens =
    R"({"type":"object","required":["tokens"],"properties":{"tokens":{"type":"array","items":{"anyOf":[{"type":)"
    R"("integer"},{"type":"object","required":["id","piece"]}]}}}})";
constexpr std::string_view kContent =
    R"({"type":"object","required":["content"],"properties":{"content":{"type":"string"}}})";
constexpr std::string_view kPrompt =
    R"({"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string"}}})";
constexpr std::string_view kProps =
    R"({"type":"object","required":["default_generation_settings","total_slots","chat_template"],"properties":)"
    R"({"default_generation_settings":{"type":"object","required":["n_ctx","params"]},"total_slots":)"
    R"({"type":"integer"},"chat_template":{"type":"string"}}})";

constexpr std::string_view kRendered =
    R"({"type":"object","required":["request_id","model","token_ids"],"properties":{"request_id":{"type":"string"},)"
    R"("model":{"type":"string"},"token_ids":{"type":"array","items":{"type":"integer","minimum":0}}}})";
constexpr std::string_view kRenderedList =
    R"({"type":"array","minItems":1,"items":{"type":"object","required":["request_id","model","token_ids"]}})";
constexpr std::string_view kLoad =
    R"({"type":"object","required":["server_load","num_running_reqs","num_waiting_reqs","token_usage"]})";
constexpr std::string_view kLoads =
    R"({"type":"object","required":["loads","aggregate"],"properties":{"loads":{"type":"array","items":{"type":)"
    R"("object","required":["dp_rank","num_running_reqs","num_waiting_reqs","num_used_tokens",)"
    R"("max_total_num_tokens","token_usage"]}}}})";
constexpr std::string_view kModelInfo =
    R"({"type":"object","required":["model_path","served_model_name","max_model_len","is_generation"]})";

struct AnswerSchema {
  std::string_view method, pattern, schema;
};
constexpr AnswerSchema kAnswers[] = {
    {"GET", "/v1/models", kModels},
    {"GET", "/v1/models/{id}", kModel},
    {"POST", "/v1/chat/completions", kChatCompletion},
    {"POST", "/v1/completions", kTextCompletion},
    {"POST", "/v1/responses", kResponse},
    {"GET", "/v1/responses/{id}", kResponse},
    {"DELETE", "/v1/responses/{id}", kDeleted},
    {"GET", "/v1/responses/{id}/input_items", kItems},
    {"POST", "/v1/conversations", kConversation},
    {"GET", "/v1/conversations/{id}", kConversation},
    {"POST", "/v1/conversations/{id}", kConversation},
    {"DELETE", "/v1/conversations/{id}", kDeleted},
    {"GET", "/v1/conversations/{id}/items", kItems},
    {"POST", "/v1/conversations/{id}/items", kItems},
    {"GET", "/v1/conversations/{id}/items/{item_id}", kItem},
    {"DELETE", "/v1/conversations/{id}/items/{item_id}", kConversation},
    {"POST", "/v1/embeddings", kEmbeddings},
    {"POST", "/v1/messages", kMessage},
    {"POST", "/v1/messages/count_tokens", kInputTokens},
    {"POST", "/v1/chat/completions/input_tokens", kInputTokens},
    {"POST", "/v1/responses/input_tokens", kInputTokens},
    {"POST", "/api/chat", kOllamaChat},
    {"POST", "/api/generate", kOllamaGenerate},
    {"POST", "/api/show", kOllamaShow},
    {"GET", "/api/tags", kOllamaModels},
    {"GET", "/api/ps", kOllamaModels},
    {"GET", "/api/version", kVersion},
    {"POST", "/api/pull", kStatus},
    {"POST", "/completion", kLlamaCompletion},
    {"POST", "/completions", kLlamaCompletion},
    {"POST", "/infill", kLlamaCompletion},
    {"POST", "/tokenize", kTokens},
    {"POST", "/detokenize", kContent},
    {"POST", "/apply-template", kPrompt},
    {"GET", "/props", kProps},
    {"GET", "/slots", kSlots},
    {"GET", "/lora-adapters", kEmptyList},
    {"POST", "/v1/chat/completions/render", kRendered},
    {"POST", "/v1/completions/render", kRenderedList},
    {"GET", "/load", kLoad},
    {"GET", "/v1/loads", kLoads},
    {"GET", "/model_info", kModelInfo},
    {"GET", "/server_info", kModelInfo},
};

// Returns the schema of an endpoint's response; empty: any object.
std::string_view answer_schema(const Endpoint& endpoint) {
  const auto row = std::ranges::find_if(kAnswers, [&](const AnswerSchema& answer) {
    return answer.method == endpoint.method && answer.pattern == endpoint.pattern;
  });
  return row == std::end(kAnswers) ? std::string_view() : row->schema;
}

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
      // The rule counts bytes, the schema characters. Only the minimum is given: no real text reaches the maximum.
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

// Adds the schemas of a rule's neutral values, which may lie outside of its range.
void add_neutral(const FieldRule& rule, Json& kinds) {
  if (rule.neutral.empty()) return;
  Json values = Json::array();
  for (Json& neutral : neutral_values(rule)) {
    const bool is_range = neutral.is_object() && !neutral.empty();
    if (is_range) neutral["type"] = "number";
    (is_range ? kinds : values).push_back(std::move(neutral));
  }
  if (!values.empty()) kinds.push_back({{"enum", std::move(values)}});
}

Json property_of(const FieldRule& rule) {
  Json schema = schema_of(rule);
  if (!rule.required && !schema.empty()) {
    Json kinds = Json::array({std::move(schema), {{"type", "null"}}});
    add_neutral(rule, kinds);
    schema = {{"anyOf", std::move(kinds)}};
  }
  if (!rule.about.empty()) schema["description"] = rule.about;
  if (rule.standing == Standing::kIgnored) schema["x-ignored"] = true;
  return schema;
}

// The schemas of fields that several endpoints share: each is written once, and referenced.
class Components {
 public:
  // Adds the schema and returns a reference to it. If another schema has the name, returns `schema` itself.
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

// A refused field is not a property: its accepted values have no effect.
Json body_schema(const std::vector<FieldRule>& rules, Components& components) {
  Json properties = Json::object(), required = Json::array(), refused = Json::object();
  for (const FieldRule& rule : rules) {
    const std::string name(rule.name);
    if (rule.standing == Standing::kRefused) {
      refused[name] = {{"reason", rule.about}, {"except", neutral_values(rule)}};
      continue;
    }
    properties[name] = components.place(name, property_of(rule));
    if (rule.required) required.push_back(name);
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  if (!refused.empty()) schema["x-refused"] = std::move(refused);
  return schema;
}

// Tells which endpoints can answer with a status.
enum class Answers {
  kAll,
  kNone,                 // no endpoint: the status is for an unknown method of a path
  kNamed,                // endpoints whose request names an object: a model in the body, an id in the path
  kChangesConversation,  // endpoints that change a conversation, which only one response at a time may change
  kComputing,
  kComputingNotAnthropic,
  kComputingAnthropic,
};
struct StatusText {
  const char* status;
  Answers answers;
  const char* text;
};
constexpr StatusText kErrors[] = {
    {"400", Answers::kAll, "Invalid request; the message names the field."},
    {"401", Answers::kAll, "Missing or unknown API key."},
    {"403", Answers::kAll, "Host, Origin or x-ibid-namespace not allowed."},
    {"404", Answers::kNamed, "No such model, response, conversation or item."},
    {"405", Answers::kNone, "Method not allowed; see the Allow header."},
    {"408", Answers::kAll, "Timeout while reading the request."},
    {"409", Answers::kChangesConversation, "Another request is using this conversation."},
    {"413", Answers::kAll, "The body is too large."},
    {"415", Answers::kAll, "Compressed bodies are not supported."},
    {"417", Answers::kAll, "The value of the Expect header is not supported."},
    {"429", Answers::kComputing, "Too many requests; see Retry-After."},
    {"431", Answers::kAll, "The request line and headers are too large."},
    {"500", Answers::kAll, "Internal error."},
    {"503", Answers::kComputingNotAnthropic, "Out of memory, or the server is shutting down; see Retry-After."},
    {"504", Answers::kComputing, "Deadline exceeded."},
    {"529", Answers::kComputingAnthropic, "The same as 503, with Anthropic's status code."}};

bool does_answer(const Endpoint& endpoint, Answers answers) {
  const bool has_body = endpoint.fields != nullptr;
  const bool has_id = endpoint.pattern.find('{') != std::string_view::npos;
  const bool is_anthropic = style_of_path(endpoint.pattern) == ErrorStyle::kAnthropic;
  switch (answers) {
    case Answers::kAll: return true;
    case Answers::kNone: return false;
    case Answers::kNamed: return has_body || has_id;
    case Answers::kChangesConversation:
      return (has_body && endpoint.pattern == "/v1/responses") ||
             (has_id && endpoint.method != "GET" && !endpoint.pattern.starts_with("/v1/responses"));
    case Answers::kComputing: return has_body;
    case Answers::kComputingNotAnthropic: return has_body && !is_anthropic;
    case Answers::kComputingAnthropic: return has_body && is_anthropic;
  }
  return true;
}

// Returns the prefix for the names of a style's errors, which are "anthropic_error", "anthropic_400".
const char* prefix_of(ErrorStyle style) {
  switch (style) {
    case ErrorStyle::kOpenAi:
    case ErrorStyle::kLlama: return "";
    case ErrorStyle::kAnthropic: return "anthropic_";
    case ErrorStyle::kOllama: return "ollama_";
  }
  return "";
}

std::string_view error_schema(ErrorStyle style) {
  switch (style) {
    case ErrorStyle::kOpenAi:
    case ErrorStyle::kLlama: break;
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
  return {{"$ref", "#/components/" + kind + "/" + name}};
}

Json content_of(const char* type, Json schema) { return {{type, {{"schema", std::move(schema)}}}}; }

constexpr ErrorStyle kStyles[] = {ErrorStyle::kOpenAi, ErrorStyle::kAnthropic, ErrorStyle::kOllama};

// Makes the error responses of every protocol, to which operations refer.
Json error_responses() {
  Json responses = Json::object();
  for (const ErrorStyle style : kStyles) {
    const std::string prefix = prefix_of(style);
    const Json content = content_of("application/json", reference_to("schemas", prefix + "error"));
    for (const auto& [status, answers, text] : kErrors) {
      responses[prefix + status] = {{"description", text}, {"content", content}};
    }
  }
  return responses;
}

// Describes a successful response: JSON, and an event stream too if the endpoint can stream.
Json answer_response(const Endpoint& endpoint) {
  const std::string_view schema = answer_schema(endpoint);
  Json content = content_of("application/json",
                            schema.empty() ? Json{{"type", "object"}} : written_schema(endpoint.pattern, schema));
  const std::vector<FieldRule> rules = endpoint.fields == nullptr ? std::vector<FieldRule>() : endpoint.fields();
  if (std::ranges::any_of(rules, [](const FieldRule& rule) { return rule.name == "stream"; })) {
    const bool is_lines = style_of_path(endpoint.pattern) == ErrorStyle::kOllama;
    content[is_lines ? "application/x-ndjson" : "text/event-stream"] = Json::object();
  }
  return {{"description", "The answer."}, {"content", std::move(content)}};
}

Json responses_of(const Endpoint& endpoint) {
  Json responses = {{"200", answer_response(endpoint)}};
  const std::string prefix = prefix_of(style_of_path(endpoint.pattern));
  for (const auto& [status, answers, text] : kErrors) {
    if (does_answer(endpoint, answers)) responses[status] = reference_to("responses", prefix + status);
  }
  return responses;
}

// True if the endpoint is for stored objects and has no body in which a request could name the user.
bool names_user_in_query(const Endpoint& endpoint) {
  if (endpoint.fields != nullptr) return false;
  return endpoint.pattern.starts_with("/v1/responses") || endpoint.pattern.starts_with("/v1/conversations");
}

// Returns the parameters in the path, and those in the query: the user if there is no body, and the paging of lists.
Json parameters_of(const Endpoint& endpoint) {
  Json parameters = Json::array();
  const auto add = [&](const char* name, const char* in, Json schema) {
    Json parameter = {{"name", name}, {"in", in}, {"required", in == std::string_view("path")}};
    parameter["schema"] = std::move(schema);
    parameters.push_back(std::move(parameter));
  };
  for (const char* name : {"id", "item_id", "digest"}) {
    if (endpoint.pattern.find("{" + std::string(name) + "}") == std::string_view::npos) continue;
    add(name, "path", {{"type", "string"}, {"minLength", 1}});
  }
  if (names_user_in_query(endpoint)) add("user", "query", {{"type", "string"}});
  const bool is_list = endpoint.method == "GET" && (endpoint.pattern.ends_with("items"));
  if (!is_list) return parameters;
  add("limit", "query", {{"type", "integer"}, {"minimum", 1}, {"maximum", 100}});
  add("order", "query", written_schema("order", R"({"enum":["asc","desc"]})"));
  add("after", "query", {{"type", "string"}});
  return parameters;
}

Json operation_of(const Endpoint& endpoint, Components& components) {
  Json operation = {{"tags", Json::array({endpoint.protocol})}, {"summary", endpoint.summary}};
  if (Json parameters = parameters_of(endpoint); !parameters.empty()) operation["parameters"] = std::move(parameters);
  if (endpoint.fields != nullptr) {
    Json schema = body_schema(endpoint.fields(), components);
    if (endpoint.options != nullptr) schema["properties"]["options"] = body_schema(endpoint.options(), components);
    // A request to a conversation may omit the body if no field is required.
    const bool may_be_empty = endpoint.pattern.starts_with("/v1/conversations");
    operation["requestBody"] = {{"required", !may_be_empty || schema.contains("required")},
                                {"content", content_of("application/json", std::move(schema))}};
  }
  operation["responses"] = responses_of(endpoint);
  return operation;
}

// Converts "POST" to "post".
std::string small_letters(std::string_view word) {
  std::string small;
  for (const char c : word) small += static_cast<char>(c - 'A' + 'a');
  return small;
}

// Schemas of the common parts of whole responses.
constexpr std::pair<const char*, std::string_view> kAnswerSchemas[] = {
    {"usage", R"({"type":"object","required":["prompt_tokens","completion_tokens","total_tokens",)"
              R"("prompt_tokens_details"],"properties":{"prompt_tokens":{"type":"integer","minimum":0},)"
              R"("completion_tokens":{"type":"integer","minimum":0},"total_tokens":{"type":"integer","minimum":0},)"
              R"("prompt_tokens_details":{"type":"object","required":["cached_tokens"],"properties":{"cached_tokens":)"
              R"({"type":"integer","minimum":0}}}}})"},
    {"timings", R"({"type":"object","required":["cache_n","prompt_n","prompt_ms","predicted_n","predicted_ms"],)"
                R"("properties":{"cache_n":{"type":"integer","minimum":0},"prompt_n":{"type":"integer","minimum":0},)"
                R"("prompt_ms":{"type":"number"},"predicted_n":{"type":"integer","minimum":0},"predicted_ms":)"
                R"({"type":"number"}}})"},
    {"ibid_details", R"({"type":"object","required":["prefilled","cached","from_disk","read_again","ttft_ms",)"
                     R"("total_ms","seed","finish_reason"],"properties":{"prefilled":{"type":"integer","minimum":0},)"
                     R"("cached":{"type":"integer","minimum":0},"from_disk":{"type":"integer","minimum":0},)"
                     R"("read_again":)"
                     R"({"type":"integer","minimum":0},"seed":{"type":"integer"},"finish_reason":{"type":"string"},)"
                     R"("lost_prefix":{"type":"object","required":["tokens","cause"]},"ignored":{"type":"array",)"
                     R"("items":{"type":"object","required":["field","reason"],"properties":{"field":)"
                     R"({"type":"string"},"reason":{"type":"string"},"name":{"type":"string"}}}}}})"},
    {"output_item", R"({"type":"object","required":["id","type","status"],"properties":{"id":{"type":"string"},)"
                    R"("type":{"enum":["message","reasoning","function_call"]},"status":)"
                    R"({"enum":["completed","incomplete"]}}})"},
};

// A path that belongs to no protocol: health, readiness, version and metrics.
struct ServerPath {
  const char* path;
  const char* summary;
  const char* type;
  bool needs_key;
};
constexpr ServerPath kServerPaths[] = {
    {"/health", "200 while the process runs; never waits for a model.", "application/json", false},
    {"/v1/health", "The same as /health.", "application/json", false},
    {"/ready", "200, or 503 while the first model is being loaded and after the first SIGTERM.", "application/json",
     false},
    {"/version", "The program's version.", "application/json", true},
    {"/metrics", "Metrics in the Prometheus format.", "text/plain", true},
};

void add_server_paths(Json& paths) {
  for (const ServerPath& row : kServerPaths) {
    Json operation = {{"tags", {"Server"}}, {"summary", row.summary}};
    if (!row.needs_key) operation["security"] = Json::array();
    const bool is_json = row.type == std::string_view("application/json");
    const Json content = content_of(row.type, {{"type", is_json ? "object" : "string"}});
    if (row.path == std::string_view("/ready")) {
      operation["responses"]["503"] = {{"description", "Not ready."}, {"content", content}};
    }
    operation["responses"]["200"] = {{"description", "The answer."}, {"content", content}};
    paths[row.path]["get"] = std::move(operation);
  }
}

// Describes how a request passes an API key, if the server has any.
Json security_schemes() {
  return {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
          {"key", {{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}}}};
}

}  // namespace

Json openapi_document() {
  Components components;
  components.place("chat_message", written_schema("chat_message", kChatMessageSchema));
  for (const ErrorStyle style : kStyles) {
    const std::string name = std::string(prefix_of(style)) + "error";
    components.place(name, written_schema(name, error_schema(style)));
  }
  for (const auto& [name, schema] : kAnswerSchemas) components.place(name, written_schema(name, schema));
  Json paths = Json::object();
  for (const Endpoint& endpoint : endpoints()) {
    paths[std::string(endpoint.pattern)][small_letters(endpoint.method)] = operation_of(endpoint, components);
  }
  add_server_paths(paths);
  return {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "ibid serve"},
        {"version", "1"},
        {"description",
         "The HTTP endpoints of ibid. Request fields that are not in this document have no effect; the answer lists "
         "them in ibid.ignored. "
         "OpenAI's paths also work without /v1."}}},
      {"paths", std::move(paths)},
      {"security", Json::array({Json::object(), {{"bearer", Json::array()}}, {{"key", Json::array()}}})},
      {"components",
       {{"schemas", components.schemas()}, {"responses", error_responses()}, {"securitySchemes", security_schemes()}}}};
}

void get_openapi(const Site&, const http::ExchangePtr& exchange) { respond_json(*exchange, openapi_document()); }

}  // namespace ibid::serve
