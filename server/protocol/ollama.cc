// Ollama's API: /api/chat, /api/generate, /api/tags, /api/show, /api/ps, /api/version. Responses are streams of JSON
// lines unless the request says otherwise. Durations are in nanoseconds; prompt_eval_count includes cached tokens.
//
// Sampling options are in "options", with the names of sampler_fields.cc. Options for the machine's memory (num_ctx,
// num_gpu ...) are ignored, because the server sets them once for all requests.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "runtime/generate/logprobs_json.h"
#include "server/protocol/answer_fields.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/handlers.h"
#include "server/protocol/reply.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

// The version of Ollama whose protocol is spoken here: log-probabilities came with it. Clients refuse versions below
// the one that they need (GitHub Copilot: 0.6.4).
constexpr const char* kOllamaVersion = "0.12.11";

struct OllamaCall {
  AnswerRequest request;
  bool stream = true;
  bool raw = false;         // /api/generate: the prompt is not rendered by the template
  std::string prompt = {};  // prompt of /api/generate
  std::string system = {};  // system message of /api/generate
  std::string suffix = {};  // /api/generate: the text after the answer
  std::optional<size_t> top_logprobs = {};
};

// Reads messages. They differ from those of chat completions in the fields for thinking, images and the tool's name.
void read_ollama_messages(const Json& value, OllamaCall& call) {
  if (value.empty()) return;
  Json list = value;
  for (size_t i = 0; i < list.size(); ++i) {
    Json& message = list[i];
    if (!message.is_object()) continue;
    const Json* images = member(message, "images");
    if (images != nullptr && !(images->is_array() && images->empty())) {
      throw Fault{
          .message = "only text is supported", .param = place_in_list(i) + ".images", .code = "unsupported_content"};
    }
    if (const Json* thinking = member(message, "thinking")) message["reasoning_content"] = *thinking;
    // Ollama's tool results name the tool and not the call. Templates that print the name get it.
    if (const Json* name = member(message, "tool_name")) message["name"] = *name;
    if (member(message, "content") == nullptr) message["content"] = "";
  }
  read_chat_messages(list, {"messages", call.request.ignored}, call.request.messages);
}

void read_ollama_format(const Json& value, OllamaCall& call) {
  if (is_text(value, "")) return;
  if (is_text(value, "json")) return set_form(call.request, ResponseFormat::Kind::kJsonObject, Json(), "format");
  if (value.is_string()) throw Fault{.message = "must be \"json\" or a JSON schema"};
  set_form(call.request, ResponseFormat::Kind::kJsonSchema, value, "format");
}

void read_think(const Json& value, OllamaCall& call) {
  if (value.is_boolean()) return set_thinking(call.request, value.get<bool>());
  if (value.is_string()) return read_effort(value, call.request);
  throw wrong_type("must be true, false, \"low\", \"medium\", \"high\" or \"max\"");
}

// Reads num_predict. -1 (no end), -2 (until the context is full) and 0 set no limit, so only the context limits the
// answer.
void read_num_predict(const Json& value, AnswerRequest& request) {
  const int64_t n = integer_of(value);
  request.options.max_tokens = n < 0 ? 0 : static_cast<size_t>(n);
}

constexpr std::string_view kOfServer = "the server decides it for all requests";

constexpr Field<AnswerRequest> kOptionFields[] = {
    {{"num_predict", Shape::kInteger,
      "maximum number of tokens of the answer; 0, -1 and -2: as many as the context has room for", -2, kMostMaxTokens},
     read_num_predict},
    ignored_field<AnswerRequest>("num_ctx", "the server sets the context size"),
    ignored_field<AnswerRequest>("num_keep", "see truncate"),
    ignored_field<AnswerRequest>("num_batch", kOfServer),
    ignored_field<AnswerRequest>("num_gpu", kOfServer),
    ignored_field<AnswerRequest>("num_thread", kOfServer),
    ignored_field<AnswerRequest>("main_gpu", kOfServer),
    ignored_field<AnswerRequest>("low_vram", kOfServer),
    ignored_field<AnswerRequest>("f16_kv", kOfServer),
    ignored_field<AnswerRequest>("vocab_only", kOfServer),
    ignored_field<AnswerRequest>("use_mmap", kOfServer),
    ignored_field<AnswerRequest>("use_mlock", kOfServer),
    ignored_field<AnswerRequest>("numa", kOfServer),
    ignored_field<AnswerRequest>("penalize_newline", "penalties treat all tokens the same"),
};

void read_ollama_options(const Json& value, OllamaCall& call) {
  note_chosen_length(value, call.request);
  read_fields(value, sampler_fields(), call.request, ".");
  read_fields<AnswerRequest>(value, kOptionFields, call.request, ".");
  static const std::vector<FieldRule> kRules = ollama_option_rules();
  note_ignored(value, kRules, call.request.ignored, "options.");
}

constexpr Field<OllamaCall> kOllamaFields[] = {
    model_field<OllamaCall>(),
    one_answer_field<OllamaCall>(),
    {{"stream", Shape::kBoolean, "stream the answer as lines of JSON; default true"}, set<&OllamaCall::stream>},
    {{"format", Shape::kAny, "format of the answer: json, or a JSON schema", 0, 0, Standing::kRead,
      R"({"oneOf":[{"enum":["json",""]},{"type":"object"}]})"},
     read_ollama_format},
    {{"options", Shape::kObject, "sampling parameters, num_predict, stop"}, read_ollama_options},
    {{"think", Shape::kAny, "whether, or how much, the model thinks before it answers: passed to the template", 0, 0,
      Standing::kRead, R"({"enum":[true,false,"low","medium","high","max"]})", false, R"([""])"},
     read_think},
    {{"keep_alive", Shape::kAny,
      "how long the model stays loaded after the answer: seconds, or \"5m\"; 0: unload at once; negative: forever", 0,
      0, Standing::kRead, R"({"type":["number","string"]})"},
     [](const Json& value, OllamaCall& call) { read_keep_alive(value, call.request.keep_alive); }},
    {{"logprobs", Shape::kBoolean, "return the log-probability of each token of the answer"},
     [](const Json& value, OllamaCall& call) {
       if (value.get<bool>()) call.request.options.n_logprobs = 0;
     }},
    {{"top_logprobs", Shape::kInteger, "number of most likely alternatives per token; needs logprobs", 0, 20},
     set<&OllamaCall::top_logprobs>},
    ignored_field<OllamaCall>("shift", "see truncate"),
};

constexpr Field<OllamaCall> kOllamaChatFields[] = {
    {{"messages", Shape::kList, "the whole conversation; empty: only load the model", 0, kMaxMessages, Standing::kRead,
      R"({"type":"array","items":{"type":"object","required":["role","content"],"properties":{"role":)"
      R"({"enum":["system","user","assistant","tool"]},"content":{"type":"string"},"thinking":{"type":"string"}}}})"},
     read_ollama_messages},
};

constexpr Field<OllamaCall> kOllamaGenerateFields[] = {
    {{"prompt", Shape::kText, "the user's message; empty: only load the model", 0, 1 << 30}, set<&OllamaCall::prompt>},
    {{"system", Shape::kText, "the system message", 0, 1 << 30}, set<&OllamaCall::system>},
    {{"raw", Shape::kBoolean, "use the prompt as it is, without a template"}, set<&OllamaCall::raw>},
    refused_field<OllamaCall>("images", "only text is supported"),
    refused_field<OllamaCall>("prompt_logprobs", "see /v1/completions"),
    refused_field<OllamaCall>("template", "the model's own template is always used"),
    {{"suffix", Shape::kText,
      "text that follows the answer: for models whose vocabulary has tokens for it (fill in the middle)", 0, 1 << 30},
     set<&OllamaCall::suffix>},
    refused_field<OllamaCall>("context", "see /api/chat: messages"),
    ignored_field<OllamaCall>("width", "no images are made"),
    ignored_field<OllamaCall>("height", "no images are made"),
    ignored_field<OllamaCall>("steps", "no images are made"),
};

constexpr Field<OllamaCall> kOllamaPullFields[] = {
    {{"model", Shape::kText, "a model name listed by /api/tags", 0, 512},
     set<&OllamaCall::request, &AnswerRequest::model>},
    {{"name", Shape::kText, "the same, an older name", 0, 512}, set<&OllamaCall::prompt>},
    {{"stream", Shape::kBoolean, "stream the progress as lines of JSON; default true"}, set<&OllamaCall::stream>},
    ignored_field<OllamaCall>("insecure", "nothing is fetched"),
};

constexpr Field<OllamaCall> kOllamaShowFields[] = {
    {{"model", Shape::kText, "a model name listed by /api/tags", 0, 512, Standing::kRead, "", true},
     set<&OllamaCall::request, &AnswerRequest::model>},
};

std::vector<FieldRule> ollama_rules(std::span<const Field<OllamaCall>> own) {
  std::vector<FieldRule> rules = rules_of(own);
  append_rules<OllamaCall>(rules, kOllamaFields);
  return message_rules(std::move(rules));
}

OllamaCall read_ollama(const Site& site, const http::Request& source, std::span<const Field<OllamaCall>> own) {
  OllamaCall call;
  AnswerRequest& request = call.request;
  Json body = begin_request(site, source, ollama_rules(own), request);
  read_fields<OllamaCall>(body, kOllamaFields, call);
  read_fields(body, own, call);
  body.erase("logprobs");
  read_answer_fields(body, request, true);
  if (call.top_logprobs && request.options.n_logprobs) request.options.n_logprobs = call.top_logprobs;
  return call;
}

int64_t ns_of(double ms) { return static_cast<int64_t>(ms * 1e6); }

// The endpoint that answers, /api/chat or /api/generate: their responses have different fields.
struct OllamaEndpoint {
  bool is_chat = true;
  Site site;
};

Json ollama_part(const OllamaEndpoint& endpoint, const std::string& model, std::string_view text = "",
                 std::string_view thinking = "") {
  Json message = Json::object();
  if (endpoint.is_chat) message["role"] = "assistant";
  message[endpoint.is_chat ? "content" : "response"] = text;
  if (!thinking.empty()) message["thinking"] = thinking;
  Json json = {{"model", model}, {"created_at", precise_time(endpoint.site.clock.unix_ns())}};
  if (endpoint.is_chat) {
    json["message"] = std::move(message);
  } else {
    json.update(message);
  }
  json["done"] = false;
  return json;
}

void add_ollama_calls(Json& json, const Answer& answer) {
  for (size_t i = 0; i < answer.tool_calls.size(); ++i) {
    const ToolCall& call = answer.tool_calls[i];
    const Result<Json> arguments = parse_json(call.arguments, "arguments", {.max_depth = 60});
    const bool is_object = arguments.ok() && arguments->is_object();
    json["message"]["tool_calls"].push_back(
        {{"id", call.id},
         {"function", {{"index", i}, {"name", call.name}, {"arguments", is_object ? *arguments : Json::object()}}}});
  }
}

void add_ollama_end(Json& json, const Answer& turn, const Heard& heard) {
  const Tokenizer* tokenizer = heard.tokenizer.get();
  if (!turn.logprobs.empty() && tokenizer != nullptr) {
    json["logprobs"] = logprobs_json(turn.logprobs, *tokenizer)["content"];
  }
  json.update({{"done", true},
               {"done_reason", is_cut(turn) ? "length" : "stop"},
               {"total_duration", ns_of(turn.timings.total_ms)},
               {"load_duration", 0},
               {"prompt_eval_count", turn.usage.n_prompt},
               {"prompt_eval_cached_count", turn.usage.n_cached},
               {"prompt_eval_duration", ns_of(turn.timings.prefill_ms)},
               {"eval_count", turn.usage.n_decoded},
               {"eval_duration", ns_of(turn.timings.decode_ms + turn.timings.sample_ms)},
               {"ibid", ibid_details(turn, heard.ignored)}});
}

class OllamaStream final : public StreamReply {
 public:
  OllamaStream(http::ExchangePtr exchange, OllamaEndpoint endpoint)
      : StreamReply(std::move(exchange), 1), endpoint_(std::move(endpoint)) {}

 private:
  void content(size_t, std::string_view text) override { emit(ollama_part(endpoint_, heard_.model, text)); }
  void reasoning(size_t, std::string_view text) override { emit(ollama_part(endpoint_, heard_.model, "", text)); }
  // Emits calls only when complete, because their arguments are objects in this protocol.
  void answered(size_t, const Answer& answer) override {
    if (!endpoint_.is_chat || answer.tool_calls.empty()) return;
    Json json = ollama_part(endpoint_, heard_.model);
    add_ollama_calls(json, answer);
    emit(json);
  }
  void finished() override {
    Json json = ollama_part(endpoint_, heard_.model);
    add_ollama_end(json, heard_.answers.front(), heard_);
    emit(json);
  }

  const OllamaEndpoint endpoint_;
};

// Answers a request without messages and prompt, which loads the model, or unloads it if keep_alive is 0.
void load_or_unload(const OllamaEndpoint& endpoint, const AnswerRequest& request, const http::ExchangePtr& exchange) {
  const Result<std::string> name = endpoint.site.backend->resolve(request.model);
  if (!name.ok()) throw fault_of(name.status());
  const auto respond_done = [endpoint, name = *name, exchange](const char* reason) {
    Json json = ollama_part(endpoint, name);
    json.update({{"done", true}, {"done_reason", reason}});
    respond_json(*exchange, json);
  };
  if (request.keep_alive == std::chrono::milliseconds(0)) {
    (void)endpoint.site.backend->unload(*name);
    return respond_done("unload");
  }
  endpoint.site.backend->with_tokenizer(
      {.model = *name, .cache_namespace = request.cache_namespace, .keep_alive = request.keep_alive},
      [respond_done, exchange](const auto& loaded) {
        answer_or_refuse(*exchange, [&] {
          if (!loaded.ok()) throw fault_of(loaded.status());
          respond_done("load");
        });
      },
      exchange->gone());
}

void start_ollama(OllamaEndpoint endpoint, OllamaCall call, const http::ExchangePtr& exchange) {
  if (call.request.messages.empty() && !call.request.prompt) return load_or_unload(endpoint, call.request, exchange);
  const std::shared_ptr<Backend> backend = endpoint.site.backend;
  std::shared_ptr<AnswerListener> listener;
  if (call.stream) {
    listener = std::make_shared<OllamaStream>(exchange, std::move(endpoint));
  } else {
    listener = std::make_shared<WholeReply>(exchange, 1, [endpoint = std::move(endpoint)](const Heard& heard) {
      const Answer& answer = heard.answers.front();
      Json json = ollama_part(endpoint, heard.model, answer.content, answer.reasoning);
      if (endpoint.is_chat) add_ollama_calls(json, answer);
      add_ollama_end(json, answer, heard);
      return json;
    });
  }
  backend->start(std::move(call.request), std::move(listener), exchange->gone());
}

// Writes a count in Ollama's notation: "134.52M", "8B", "7.6B".
std::string short_count(uint64_t n) {
  struct Unit {
    double size;
    const char* letter;
    int n_digits;
  };
  for (const Unit& unit : {Unit{1e9, "B", 1}, Unit{1e6, "M", 2}, Unit{1e3, "K", 2}}) {
    const double number = static_cast<double>(n) / unit.size;
    if (number < 1) continue;
    char text[32];
    std::snprintf(text, sizeof(text), "%.*f%s", number == std::floor(number) ? 0 : unit.n_digits, number, unit.letter);
    return text;
  }
  return n == 0 ? "" : std::to_string(n);
}

Json model_details(const ModelHeader& header) {
  return {{"parent_model", ""},
          {"format", header.format},
          {"family", header.family},
          {"families", header.family.empty() ? Json::array() : Json::array({header.family})},
          {"parameter_size", short_count(header.n_params)},
          {"quantization_level", header.quantization}};
}

Json model_info(const ModelCard& card, const ModelHeader& header) {
  const std::string family = header.family.empty() ? "ibid" : header.family;
  // Clients show the basename as the model's name (GitHub Copilot).
  Json info = {{"general.architecture", family},
               {"general.basename", header.basename.empty() ? card.name : header.basename}};
  if (header.n_params > 0) info["general.parameter_count"] = header.n_params;
  // Clients truncate their prompts to the reported context size, so report the loaded model's context if it is loaded.
  const size_t context = card.is_loaded ? card.max_seq_len : header.trained_context;
  if (context > 0) info[family + ".context_length"] = context;
  if (card.is_loaded) info[family + ".vocab_size"] = card.vocab_size;
  const size_t dim = card.embedding_dim > 0 ? card.embedding_dim : header.embedding_dim;
  if (dim > 0) info[family + ".embedding_length"] = dim;
  return info;
}

// Identifies this version of the model's file: clients use it as a key, and print its first 12 digits. Ollama's is a
// digest of the contents, which would take seconds to read.
std::string digest_of(const ModelCard& card) {
  Sha256 hash;
  for (const std::string& part : {card.name, std::to_string(card.file_bytes), std::to_string(card.created_s)}) {
    hash.update(part + '\n');
  }
  return to_hex(hash.finish());
}

std::string modified_at(const ModelCard& card) { return precise_time(card.created_s * 1'000'000'000); }

// Far in the future for a model that stays loaded: Ollama's clients show that as "Forever".
std::string expires_at(const Site& site, const ModelCard& card) {
  constexpr std::chrono::hours kCentury(24 * 365 * 100);
  const bool stays = !card.unloads_in || *card.unloads_in > kCentury;
  return precise_time(stays ? std::numeric_limits<int64_t>::max() : site.clock.unix_ns() + card.unloads_in->count());
}

Json listed_model(const Site& site, const ModelCard& card) {
  return {{"name", card.name},
          {"model", card.name},
          {"modified_at", modified_at(card)},
          {"size", card.file_bytes},
          {"digest", digest_of(card)},
          {"details", model_details(site.backend->header(card.name))}};
}

// Guesses whether a model that is not loaded thinks: its template names reasoning, or the switch for it.
bool shows_thinking(const std::string& chat_template) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{"<think>", "enable_thinking", "reasoning_content"},
                             [&](std::string_view word) { return chat_template.find(word) != std::string::npos; });
}

Json shown_model(const Site& site, const ModelCard& card) {
  const ModelHeader header = site.backend->header(card.name);
  const std::string& chat_template = card.is_loaded ? card.chat_template : header.chat_template;
  Json capabilities = Json::array();
  if (card.answers) capabilities.push_back("completion");
  if (card.embedding_dim > 0) capabilities.push_back("embedding");
  if (chat_template.find("tools") != std::string::npos) capabilities.push_back("tools");
  const bool thinks = card.is_loaded ? card.thinks : shows_thinking(chat_template);
  if (thinks) capabilities.push_back("thinking");
  if (card.infills) capabilities.push_back("insert");
  return {{"modelfile", ""},
          {"parameters", ""},
          {"template", chat_template},
          {"details", model_details(header)},
          {"model_info", model_info(card, header)},
          {"capabilities", std::move(capabilities)},
          {"modified_at", modified_at(card)}};
}

}  // namespace

std::vector<FieldRule> ollama_chat_rules() { return ollama_rules(kOllamaChatFields); }
std::vector<FieldRule> ollama_generate_rules() { return ollama_rules(kOllamaGenerateFields); }
std::vector<FieldRule> ollama_show_rules() { return rules_of<OllamaCall>(kOllamaShowFields); }
std::vector<FieldRule> ollama_pull_rules() { return rules_of<OllamaCall>(kOllamaPullFields); }
std::vector<FieldRule> ollama_option_rules() {
  std::vector<FieldRule> rules = rules_of(sampler_fields());
  append_rules<AnswerRequest>(rules, kOptionFields);
  return rules;
}

void post_ollama_chat(const Site& site, const http::ExchangePtr& exchange) {
  OllamaCall call = read_ollama(site, exchange->request(), kOllamaChatFields);
  drop_client_lines(site, call.request);
  if (!call.request.messages.empty()) read_ending(call.request);
  start_ollama({.is_chat = true, .site = site}, std::move(call), exchange);
}

void post_ollama_generate(const Site& site, const http::ExchangePtr& exchange) {
  OllamaCall call = read_ollama(site, exchange->request(), kOllamaGenerateFields);
  AnswerRequest& request = call.request;
  if (!call.suffix.empty()) {
    request.prompt = Infill{.prefix = std::move(call.prompt), .suffix = std::move(call.suffix)};
  } else if (call.raw && !call.prompt.empty()) {
    request.prompt = call.prompt;
  } else if (!call.prompt.empty()) {
    if (!call.system.empty()) request.messages.push_back(make_message(Role::kSystem, call.system));
    request.messages.push_back(make_message(Role::kUser, call.prompt));
  }
  drop_client_lines(site, request);
  start_ollama({.is_chat = false, .site = site}, std::move(call), exchange);
}

void post_ollama_show(const Site& site, const http::ExchangePtr& exchange) {
  Json body = parse_body(exchange->request().body);
  // Older clients name the field "name".
  if (!body.contains("model") && body.contains("name")) body["model"] = body["name"];
  OllamaCall call;
  read_fields<OllamaCall>(body, kOllamaShowFields, call);
  find_model(site, call.request.model, call.request.ignored);
  const Result<std::string> wanted = site.backend->resolve(call.request.model);
  for (const ModelCard& card : site.backend->models()) {
    if (wanted.ok() && card.name == *wanted) return respond_json(*exchange, shown_model(site, card));
  }
  throw Fault{.status = 404, .message = "no model has this name", .param = "model"};
}

void get_ollama_tags(const Site& site, const http::ExchangePtr& exchange) {
  Json models = Json::array();
  for (const ModelCard& card : site.backend->models()) models.push_back(listed_model(site, card));
  respond_json(*exchange, {{"models", std::move(models)}});
}

void get_ollama_ps(const Site& site, const http::ExchangePtr& exchange) {
  Json models = Json::array();
  for (const ModelCard& card : site.backend->models()) {
    if (!card.is_loaded) continue;
    Json json = listed_model(site, card);
    json.erase("modified_at");
    json.update({{"size_vram", 0}, {"context_length", card.max_seq_len}, {"expires_at", expires_at(site, card)}});
    models.push_back(std::move(json));
  }
  respond_json(*exchange, {{"models", std::move(models)}});
}

// Clients pull a model before they use it. The pull of a model that is served succeeds at once.
void post_ollama_pull(const Site& site, const http::ExchangePtr& exchange) {
  OllamaCall call;
  const Json body = parse_body(exchange->request().body);
  read_fields<OllamaCall>(body, kOllamaPullFields, call);
  const Result<std::string> name = site.backend->resolve(call.request.model.empty() ? call.prompt : call.request.model);
  if (!name.ok()) return refuse_ollama_change(site, exchange);
  if (!call.stream) return respond_json(*exchange, {{"status", "success"}});
  exchange->begin_stream(200, "application/x-ndjson");
  (void)exchange->send("{\"status\":\"pulling manifest\"}\n{\"status\":\"success\"}\n");
  exchange->end_stream();
}

void refuse_ollama_change(const Site&, const http::ExchangePtr&) {
  throw Fault{.message =
                  "is not supported: the models are files of the server, which `ibid pull` fetches and the "
                  "command line of `ibid serve` names",
              .param = "model",
              .code = "not_supported"};
}

void get_ollama_version(const Site&, const http::ExchangePtr& exchange) {
  respond_json(*exchange, {{"version", kOllamaVersion}});
}

}  // namespace ibid::serve
