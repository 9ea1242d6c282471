#include "server/protocol/embeddings.h"

#include <memory>
#include <string>
#include <utility>

#include "server/protocol/embedding_reply.h"
#include "server/protocol/ollama_input.h"
#include "server/protocol/prompt_fields.h"
#include "server/protocol/request_namespace.h"

namespace ibid::serve {
namespace {

constexpr double kMostDims = 65536;  // the model says how many there are

constexpr std::string_view kInputSchema =
    R"({"oneOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"maxItems":2048,)"
    R"("items":{"type":"string","minLength":1}},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0,)"
    R"("maximum":2147483647}},{"type":"array","minItems":1,"maxItems":2048,"items":{"type":"array","minItems":1,)"
    R"("items":{"type":"integer","minimum":0,"maximum":2147483647}}}]})";
constexpr std::string_view kTextsSchema =
    R"({"oneOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"maxItems":2048,)"
    R"("items":{"type":"string","minLength":1}}]})";

Fault empty_input() { return {.message = "must not be empty"}; }

// One input: a text, or, where the protocol has them, ids.
MaybeFault add_input(const Json& value, bool takes_ids, EmbeddingCall& call) {
  if (value.is_string()) {
    if (value.get_ref<const std::string&>().empty()) return empty_input();
    call.request.inputs.emplace_back(value.get<std::string>());
    return {};
  }
  if (!takes_ids || !value.is_array()) {
    return Fault{.message = takes_ids ? "must be a text or a list of token ids" : "must be a text",
                 .code = "invalid_type"};
  }
  if (value.empty()) return empty_input();
  Tokens ids;
  if (MaybeFault fault = read_token_ids(value, ids)) return fault;
  call.request.inputs.emplace_back(std::move(ids));
  return {};
}

// One input, or a list of them. A list of numbers is the ids of one.
MaybeFault read_inputs(const Json& value, bool takes_ids, EmbeddingCall& call) {
  if (!value.is_array()) return add_input(value, takes_ids, call);
  if (value.empty()) return empty_input();
  if (takes_ids && value[0].is_number()) return add_input(value, true, call);
  if (value.size() > kMaxInputs) {
    return Fault{.message = "has " + std::to_string(value.size()) + " inputs, at most " + std::to_string(kMaxInputs) +
                            " are taken at once"};
  }
  for (size_t i = 0; i < value.size(); ++i) {
    if (MaybeFault fault = add_input(value[i], takes_ids, call)) {
      fault->param = "[" + std::to_string(i) + "]" + fault->param;
      return fault;
    }
  }
  return {};
}

MaybeFault read_format(const Json& value, EmbeddingCall& call) {
  const std::string& word = value.get_ref<const std::string&>();
  if (word != "float" && word != "base64") return Fault{.message = "must be \"float\" or \"base64\""};
  call.as_base64 = word == "base64";
  return {};
}

MaybeFault read_dimensions(const Json& value, EmbeddingCall& call) {
  call.request.n_dims = static_cast<size_t>(integer_of(value));
  return {};
}

MaybeFault read_model(const Json& value, EmbeddingCall& call) {
  call.request.model = value.get<std::string>();
  return {};
}

constexpr const char* kAboutDimensions =
    "the first numbers of each vector alone, brought to length 1 again: for models that are trained for it "
    "(Matryoshka)";

constexpr Field<EmbeddingCall> kOpenAiFields[] = {
    {model_field<EmbeddingCall>().rule, read_model},
    {{"input", Shape::kAny, "a text, a list of texts, the token ids of one, or a list of such lists; 2,048 at most", 0,
      0, Standing::kRead, kInputSchema, true},
     [](const Json& value, EmbeddingCall& call) { return read_inputs(value, true, call); }},
    {{"encoding_format", Shape::kText, "float: numbers; base64: the bytes of floats of 32 bits", 0, 64, Standing::kRead,
      R"({"enum":["float","base64"]})"},
     read_format},
    {{"dimensions", Shape::kInteger, kAboutDimensions, 1, kMostDims}, read_dimensions},
    user_field<EmbeddingCall>(),
};

constexpr Field<EmbeddingCall> kKeepAlive = {
    {"keep_alive", Shape::kAny, "how long the model stays behind the answer, as in /api/chat", 0, 0, Standing::kRead,
     R"({"type":["number","string"]})"},
    [](const Json& value, EmbeddingCall& call) { return read_keep_alive(value, call.request.keep_alive); }};

constexpr Field<EmbeddingCall> kEmbedFields[] = {
    {model_field<EmbeddingCall>().rule, read_model},
    {{"input", Shape::kAny, "a text, or a list of texts; 2,048 at most", 0, 0, Standing::kRead, kTextsSchema, true},
     [](const Json& value, EmbeddingCall& call) { return read_inputs(value, false, call); }},
    {{"truncate", Shape::kBoolean, "the end of a text that is too long is left out; true where it is absent"},
     [](const Json& value, EmbeddingCall& call) { return call.request.cuts = value.get<bool>(), MaybeFault(); }},
    {{"dimensions", Shape::kInteger, kAboutDimensions, 1, kMostDims}, read_dimensions},
    kKeepAlive,
    user_field<EmbeddingCall>(),
    ignored_field<EmbeddingCall>("options", "they are for answers"),
};

constexpr Field<EmbeddingCall> kEmbeddingsFields[] = {
    {model_field<EmbeddingCall>().rule, read_model},
    {{"prompt", Shape::kText, "the text; the end of one that is too long is left out", 1, 1 << 30, Standing::kRead, "",
      true},
     [](const Json& value, EmbeddingCall& call) { return add_input(value, false, call); }},
    kKeepAlive,
    user_field<EmbeddingCall>(),
    ignored_field<EmbeddingCall>("options", "they are for answers"),
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

// Reads the request and has it answered; a fault is answered at once.
void start_embedding(const Site& site, const http::ExchangePtr& exchange,
                     std::span<const Field<EmbeddingCall>> fields, EmbeddingCall call,
                     const std::function<EmbeddingWriter::Write(const EmbeddingCall&)>& writer_of) {
  const ErrorStyle style = style_of_path(exchange->request().path);
  Json body;
  MaybeFault fault = parse_body(exchange->request().body, body);
  if (!fault) fault = read_fields(body, fields, call);
  if (!fault) fault = read_namespace(site, exchange->request(), body, call.request.cache_namespace);
  if (fault) return respond_fault(*exchange, *fault, style);
  auto listener = std::make_shared<EmbeddingWriter>(exchange, style, writer_of(call));
  site.backend->embed(std::move(call.request), std::move(listener), exchange->gone());
}

}  // namespace

std::span<const Field<EmbeddingCall>> openai_embedding_fields() { return kOpenAiFields; }
std::span<const Field<EmbeddingCall>> ollama_embed_fields() { return kEmbedFields; }
std::span<const Field<EmbeddingCall>> ollama_embeddings_fields() { return kEmbeddingsFields; }

void post_embeddings(const Site& site, const http::ExchangePtr& exchange) {
  start_embedding(site, exchange, openai_embedding_fields(), {}, [](const EmbeddingCall& call) {
    return [as_base64 = call.as_base64](const EmbeddingReply& reply) { return openai_body(reply, as_base64); };
  });
}

void post_ollama_embed(const Site& site, const http::ExchangePtr& exchange) {
  start_embedding(site, exchange, ollama_embed_fields(), {.request = {.cuts = true}},
                  [](const EmbeddingCall&) { return ollama_body; });
}

void post_ollama_embeddings(const Site& site, const http::ExchangePtr& exchange) {
  const auto body_of = [](const EmbeddingReply& reply) {
    std::string body = R"({"embedding":)";
    append_numbers(body, reply.vectors.front());
    return body + "}";
  };
  start_embedding(site, exchange, ollama_embeddings_fields(), {.request = {.cuts = true}},
                  [&](const EmbeddingCall&) { return body_of; });
}

}  // namespace ibid::serve
