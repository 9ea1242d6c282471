#include "server/protocol/response_schemas.h"

namespace ibid::serve {

namespace {

constexpr std::string_view kModel =
    R"({"type":"object","required":["id","object","created","owned_by"],"properties":{"id":{"type":"string"},)"
    R"("object":{"const":"model"},"created":{"type":"integer"},"owned_by":{"type":"string"}}})";
constexpr std::string_view kModels =
    R"({"type":"object","required":["object","data"],"properties":{"object":{"const":"list"},"data":{"type":"array",)"
    R"("items":{"type":"object","required":["id","object"],"properties":{"id":{"type":"string"},"object":)"
    R"({"const":"model"}}}}}})";
constexpr std::string_view kChatCompletion =
    R"({"type":"object","required":["id","object","created","model","choices","usage","timings","ibid"],"properties":)"
    R"({"id":{"type":"string"},"object":{"const":"chat.completion"},"created":{"type":"integer"},"model":)"
    R"({"type":"string"},"choices":{"type":"array","minItems":1,"items":{"type":"object","required":["index",)"
    R"("message","logprobs","finish_reason"],"properties":{"index":{"type":"integer"},"message":{"type":"object",)"
    R"("required":["role","content"],"properties":{"role":{"const":"assistant"},"content":{"type":["string",)"
    R"("null"]},"reasoning_content":{"type":"string"},"tool_calls":{"type":"array","items":{"type":"object",)"
    R"("required":["id","type","function"],"properties":{"id":{"type":"string"},"type":{"const":"function"},)"
    R"("function":{"type":"object","required":["name","arguments"],"properties":{"name":{"type":"string"},"arguments":)"
    R"({"type":"string"}}}}}}}},"logprobs":{"type":["object","null"]},"finish_reason":{"enum":["stop","length",)"
    R"("tool_calls"]}}}},"usage":{"$ref":"#/components/schemas/usage"},"timings":)"
    R"({"$ref":"#/components/schemas/timings"},"ibid":{"$ref":"#/components/schemas/ibid_details"}}})";
constexpr std::string_view kTextCompletion =
    R"({"type":"object","required":["id","object","created","model","choices","usage","timings","ibid"],"properties":)"
    R"({"id":{"type":"string"},"object":{"const":"text_completion"},"created":{"type":"integer"},"model":)"
    R"({"type":"string"},"choices":{"type":"array","minItems":1,"items":{"type":"object","required":["index","text",)"
    R"("logprobs","finish_reason"],"properties":{"index":{"type":"integer"},"text":{"type":"string"},"logprobs":)"
    R"({"type":["object","null"]},"finish_reason":{"enum":["stop","length"]}}}},"usage":)"
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
constexpr std::string_view kLlamaCompletion =
    R"({"type":"object","required":["content","stop","model","tokens_predicted","tokens_evaluated","tokens_cached",)"
    R"("stop_type","timings","generation_settings"],"properties":{"content":{"type":"string"},"stop":)"
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
struct Row {
  std::string_view method, pattern, schema;
};
constexpr Row kRows[] = {
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
    {"POST", "/api/chat", kOllamaChat},
    {"POST", "/api/generate", kOllamaGenerate},
    {"POST", "/api/show", kOllamaShow},
    {"GET", "/api/tags", kOllamaModels},
    {"GET", "/api/ps", kOllamaModels},
    {"GET", "/api/version", kVersion},
    {"POST", "/completion", kLlamaCompletion},
    {"POST", "/tokenize", kTokens},
    {"POST", "/detokenize", kContent},
    {"POST", "/apply-template", kPrompt},
    {"GET", "/props", kProps},
};

}  // namespace

std::string_view response_schema(std::string_view method, std::string_view pattern) {
  for (const Row& row : kRows) {
    if (row.method == method && row.pattern == pattern) return row.schema;
  }
  return {};
}

}  // namespace ibid::serve
