// POST /v1/embeddings (OpenAI), /api/embed and the older /api/embeddings (Ollama): vectors of texts.
//
// All vectors have length 1. `dimensions` truncates each vector and normalises it again. That is suitable for models
// trained with nested embeddings (Matryoshka), such as Qwen3-Embedding; the vectors of other models become worse.
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/protocol/call.h"
#include "server/protocol/handlers.h"
#include "server/protocol/prompts.h"
#include "server/protocol/reply.h"
#include "server/service/request.h"

namespace ibid::serve {

namespace {

constexpr size_t kMaxInputs = 2048;  // maximum number of inputs in a request
constexpr double kMostDims = 65536;  // largest `dimensions` that is read; each model has its own maximum

struct EmbeddingCall {
  EmbeddingRequest request;
  IgnoredParts ignored = {};
  bool as_base64 = false;
};

constexpr std::string_view kEmbeddingInputSchema =
    R"({"anyOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"maxItems":2048,)"
    R"("items":{"type":"string","minLength":1}},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0,)"
    R"("maximum":2147483647}},{"type":"array","minItems":1,"maxItems":2048,"items":{"type":"array","minItems":1,)"
    R"("items":{"type":"integer","minimum":0,"maximum":2147483647}}},{"type":"object","required":["prompt_string"],)"
    R"("properties":{"prompt_string":{"type":"string","minLength":1}}}]})";
constexpr std::string_view kTextsSchema =
    R"({"oneOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"maxItems":2048,)"
    R"("items":{"type":"string","minLength":1}}]})";

// Reads one text or a list of texts.
void read_texts(const Json& value, EmbeddingCall& call) {
  const auto check = [](const Json& text) {
    if (!text.is_string()) throw wrong_type("must be a string or a list of strings");
  };
  if (value.is_array()) {
    read_each(value, check);
  } else {
    check(value);
  }
  read_prompts(value, call.request.inputs, kMaxInputs);
}

void read_encoding(const Json& value, EmbeddingCall& call) {
  if (!is_text(value, "float") && !is_text(value, "base64")) {
    throw Fault{.message = "must be \"float\" or \"base64\""};
  }
  call.as_base64 = is_text(value, "base64");
}

constexpr const char* kAboutDimensions =
    "truncate each vector to this many dimensions and normalize it again: for models trained for it (Matryoshka)";

constexpr Field<EmbeddingCall> kOpenAiFields[] = {
    {model_field<EmbeddingCall>().rule, set<&EmbeddingCall::request, &EmbeddingRequest::model>},
    {{"input", Shape::kAny,
      "a string, a list of token ids, a list of both, or an object with prompt_string or content; or a list of at most "
      "2,048 of these",
      0, 0, Standing::kRead, kEmbeddingInputSchema, true},
     [](const Json& value, EmbeddingCall& call) { read_prompts(value, call.request.inputs, kMaxInputs); }},
    {{"encoding_format", Shape::kText, "float: numbers; base64: encoded 32-bit floats", 0, 64, Standing::kRead,
      R"({"enum":["float","base64"]})"},
     read_encoding},
    {{"dimensions", Shape::kInteger, kAboutDimensions, 1, kMostDims},
     set<&EmbeddingCall::request, &EmbeddingRequest::n_dims>},
    user_field<EmbeddingCall>(),
};

constexpr Field<EmbeddingCall> kKeepAlive = {
    {"keep_alive", Shape::kAny, "how long the model stays loaded after the answer, as in /api/chat", 0, 0,
     Standing::kRead, R"({"type":["number","string"]})"},
    [](const Json& value, EmbeddingCall& call) { read_keep_alive(value, call.request.keep_alive); }};

constexpr Field<EmbeddingCall> kEmbedFields[] = {
    {model_field<EmbeddingCall>().rule, set<&EmbeddingCall::request, &EmbeddingRequest::model>},
    {{"input", Shape::kAny, "a string, or a list of at most 2,048 strings", 0, 0, Standing::kRead, kTextsSchema, true},
     read_texts},
    {{"truncate", Shape::kBoolean, "truncate the end of inputs that are too long; default true"},
     set<&EmbeddingCall::request, &EmbeddingRequest::cuts>},
    {{"dimensions", Shape::kInteger, kAboutDimensions, 1, kMostDims},
     set<&EmbeddingCall::request, &EmbeddingRequest::n_dims>},
    kKeepAlive,
    user_field<EmbeddingCall>(),
    ignored_field<EmbeddingCall>("options", "sampling options have no effect on embeddings"),
};

constexpr Field<EmbeddingCall> kEmbeddingsFields[] = {
    {model_field<EmbeddingCall>().rule, set<&EmbeddingCall::request, &EmbeddingRequest::model>},
    {{"prompt", Shape::kText, "the text; its end is truncated if it is too long", 1, 1 << 30, Standing::kRead, "",
      true},
     read_texts},
    kKeepAlive,
    user_field<EmbeddingCall>(),
    ignored_field<EmbeddingCall>("options", "sampling options have no effect on embeddings"),
};

std::string openai_body(const EmbeddingReply& reply, bool as_base64) {
  std::string body = R"({"object":"list","data":[)";
  for (size_t i = 0; i < reply.vectors.size(); ++i) {
    body += (i == 0 ? R"({"object":"embedding","index":)" : R"(,{"object":"embedding","index":)") + std::to_string(i) +
            R"(,"embedding":)";
    as_base64 ? append_base64(body, reply.vectors[i]) : append_numbers(body, reply.vectors[i]);
    body += '}';
  }
  const std::string n = std::to_string(reply.n_prompt);
  return body + R"(],"model":)" + json_to_string(Json(reply.model)) + R"(,"usage":{"prompt_tokens":)" + n +
         R"(,"total_tokens":)" + n + "}}";
}

std::string ollama_body(const EmbeddingReply& reply) {
  std::string body = R"({"model":)" + json_to_string(Json(reply.model)) + R"(,"embeddings":[)";
  for (size_t i = 0; i < reply.vectors.size(); ++i) {
    if (i > 0) body += ',';
    append_numbers(body, reply.vectors[i]);
  }
  return body + R"(],"total_duration":)" + std::to_string((reply.queued + reply.computed).count()) +
         R"(,"load_duration":0,"prompt_eval_count":)" + std::to_string(reply.n_prompt) + "}";
}

double ms_of(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

// Writes the response to an embeddings request.
class EmbeddingWriter final : public EmbeddingListener {
 public:
  // Makes the body of a response as text, because the vectors as Json values would take many times the memory.
  using Write = std::function<std::string(const EmbeddingReply& reply)>;
  EmbeddingWriter(http::ExchangePtr exchange, Write write, IgnoredParts ignored)
      : exchange_(std::move(exchange)), write_(std::move(write)), ignored_(std::move(ignored)) {}

  void reply(EmbeddingReply reply) override {
    http::AnswerFigures figures{.model = reply.model,
                                .n_prompt = reply.n_prompt,
                                .n_prefilled = reply.n_prompt,
                                .queue_ms = ms_of(reply.queued),
                                .prefill_ms = ms_of(reply.computed)};
    add_ignored(figures, ignored_);
    exchange_->set_figures(figures);
    std::string body = write_(reply);
    if (!ignored_.empty()) {
      body.back() = ',';  // the end of the object
      body += R"("ibid":)" + json_to_string(Json{{"ignored", ignored_json(ignored_)}}) + "}";
    }
    exchange_->respond({.body = std::move(body)});
    exchange_.reset();
  }

  void fail(const Status& status, std::chrono::seconds retry_after) override {
    Fault fault = fault_of(status);
    // Unlike a conversation, a text has no parts that could be dropped.
    if (status.code() == ErrorCode::kContextFull) {
      fault.message = "This model's maximum context length is " + std::to_string(fault.n_context) +
                      " tokens: " + status.message() + "; the text is too large: send a shorter one";
    }
    fault.retry_after = retry_after;
    exchange_->respond(fault_response(fault, style_of_path(exchange_->request().path)));
    exchange_.reset();
  }

 private:
  http::ExchangePtr exchange_;
  const Write write_;
  const IgnoredParts ignored_;
};

EmbeddingCall read_embedding(const Site& site, const http::Request& source,
                             std::span<const Field<EmbeddingCall>> fields, bool cuts) {
  EmbeddingCall call{.request = {.cuts = cuts}};
  const Json body = parse_body(source.body);
  read_fields(body, fields, call);
  call.request.cache_namespace = read_namespace(site, source, body);
  note_ignored(body, rules_of(fields), call.ignored);
  if (site.namespace_by_user) std::erase_if(call.ignored, [](const IgnoredPart& one) { return one.field == "user"; });
  find_model(site, call.request.model, call.ignored);
  return call;
}

void start_embedding(const Site& site, const http::ExchangePtr& exchange, EmbeddingCall call,
                     EmbeddingWriter::Write write) {
  auto listener = std::make_shared<EmbeddingWriter>(exchange, std::move(write), std::move(call.ignored));
  site.backend->embed(std::move(call.request), std::move(listener), exchange->gone());
}

}  // namespace

std::vector<FieldRule> embedding_rules() { return rules_of<EmbeddingCall>(kOpenAiFields); }
std::vector<FieldRule> ollama_embed_rules() { return rules_of<EmbeddingCall>(kEmbedFields); }
std::vector<FieldRule> ollama_embeddings_rules() { return rules_of<EmbeddingCall>(kEmbeddingsFields); }

void post_embeddings(const Site& site, const http::ExchangePtr& exchange) {
  EmbeddingCall call = read_embedding(site, exchange->request(), kOpenAiFields, false);
  const bool as_base64 = call.as_base64;
  start_embedding(site, exchange, std::move(call),
                  [as_base64](const EmbeddingReply& reply) { return openai_body(reply, as_base64); });
}

void post_ollama_embed(const Site& site, const http::ExchangePtr& exchange) {
  start_embedding(site, exchange, read_embedding(site, exchange->request(), kEmbedFields, true), ollama_body);
}

void post_ollama_embeddings(const Site& site, const http::ExchangePtr& exchange) {
  EmbeddingCall call = read_embedding(site, exchange->request(), kEmbeddingsFields, true);
  start_embedding(site, exchange, std::move(call), [](const EmbeddingReply& reply) {
    std::string body = R"({"embedding":)";
    append_numbers(body, reply.vectors.front());
    return body + "}";
  });
}

void append_numbers(std::string& out, std::span<const float> vector) {
  std::array<char, 32> buffer{};
  char separator = '[';
  for (const float number : vector) {
    out += separator;
    separator = ',';
    const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
    out.append(buffer.data(), written.ptr);
  }
  out += vector.empty() ? "[]" : "]";
}

void append_base64(std::string& out, std::span<const float> vector) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  out += '"';
  uint32_t bits = 0;
  size_t n_bytes = 0;
  const auto flush = [&](size_t n_digits) {  // appends `bits` as n_digits base64 digits and padding
    for (size_t i = 0; i < 4; ++i) out += i < n_digits ? kDigits[bits >> (18 - 6 * i) & 63u] : '=';
    bits = 0;
  };
  for (const float number : vector) {
    const auto word = std::bit_cast<uint32_t>(number);
    for (unsigned shift = 0; shift < 32; shift += 8, ++n_bytes) {
      bits |= (word >> shift & 255u) << (16 - 8 * (n_bytes % 3));
      if (n_bytes % 3 == 2) flush(4);
    }
  }
  if (n_bytes % 3 != 0) flush(n_bytes % 3 + 1);
  out += '"';
}

}  // namespace ibid::serve
