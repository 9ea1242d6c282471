// Fakes on both sides of the protocols: an exchange that records the response, and a backend with scripted answers.
// FakeDoor sends requests through the routes of all protocols to that backend.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/http/router.h"
#include "server/protocol/endpoints.h"
#include "server/protocol/site.h"
#include "server/service/backend.h"
#include "server/store/conversation_store.h"
#include "tests/support/fake_tokenizer.h"

namespace ibid::serve {

class FakeExchange final : public http::Exchange {
 public:
  explicit FakeExchange(http::Request request) : request_(std::move(request)) {}

  const http::Request& request() const override { return request_; }
  void respond(http::Response response) override {
    CHECK(!ended && !streams);
    status = response.status;
    content_type = response.content_type;
    body = std::move(response.body);
    headers = std::move(response.headers);
    ended = true;
  }
  void begin_stream(int stream_status, std::string_view type, http::Headers stream_headers) override {
    CHECK(!ended && !streams);
    status = stream_status;
    content_type = type;
    headers = std::move(stream_headers);
    streams = true;
  }
  bool send(std::string bytes) override {
    CHECK(streams && !ended);
    body += bytes;
    return !gone_source.stop_requested();
  }
  void end_stream() override {
    CHECK(streams && !ended);
    ended = true;
  }
  void set_keep_alive(std::string bytes, std::chrono::milliseconds) override { keep_alive = std::move(bytes); }
  std::stop_token gone() const override { return gone_source.get_token(); }

  Json json() const {
    Result<Json> parsed = parse_json(body, "the response");
    CHECK(parsed.ok()) << body;
    return *parsed;
  }
  // Returns the data of each event, or of each line, as JSON; "[DONE]" as a text.
  std::vector<Json> events() const;
  // Returns the names of the events that have a name.
  std::vector<std::string> event_names() const;

  int status = 0;
  std::string content_type, body, keep_alive;
  http::Headers headers;
  bool ended = false, streams = false;
  std::stop_source gone_source;

 private:
  http::Request request_;
};

inline std::vector<Json> FakeExchange::events() const {
  std::vector<Json> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    std::string line = body.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("data: ")) line.erase(0, 6);
    if (line == "[DONE]") events.push_back(Json(line));
    if (!line.starts_with("{")) continue;
    Result<Json> parsed = parse_json(line, "an event");
    CHECK(parsed.ok()) << line;
    events.push_back(*parsed);
  }
  return events;
}

inline std::vector<std::string> FakeExchange::event_names() const {
  std::vector<std::string> names;
  for (size_t at = body.find("event: "); at != std::string::npos; at = body.find("event: ", at + 1)) {
    names.push_back(body.substr(at + 7, body.find('\n', at) - at - 7));
  }
  return names;
}

inline std::shared_ptr<const Tokenizer> fake_tokenizer() { return std::make_shared<FakeTokenizer>(); }

// Makes an answer in which all numbers of usage and timings differ.
inline Answer make_answer(std::string content) {
  Answer answer;
  answer.content = std::move(content);
  answer.text = answer.content;
  answer.seed = 7;
  answer.usage = {.n_prompt = 30, .n_cached = 20, .n_prefilled = 10, .n_decoded = 5};
  answer.timings.prefill_ms = 100;
  answer.timings.decode_ms = 50;
  return answer;
}

class FakeBackend final : public Backend {
 public:
  using Script = std::function<void(const AnswerRequest& request, AnswerListener& listener)>;

  void start(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token stop) override {
    requests.push_back(request);
    stops.push_back(std::move(stop));
    if (script) {
      script(request, *listener);
    } else {
      say(request, *listener, make_answer("Hello"));
    }
    if (keep_listeners) listeners.push_back(std::move(listener));
  }
  // Makes vectors that differ: i + 0.5 and -1 for input i.
  void embed(EmbeddingRequest request, std::shared_ptr<EmbeddingListener> listener, std::stop_token) override {
    embedded.push_back(request);
    if (!embedding_status.ok()) return listener->fail(embedding_status, std::chrono::seconds(7));
    EmbeddingReply reply{.model = "tiny", .n_prompt = 9};
    for (size_t i = 0; i < request.inputs.size(); ++i) reply.vectors.push_back({static_cast<float>(i) + 0.5f, -1.0f});
    listener->reply(std::move(reply));
  }
  // A prompt of 42 tokens, of which the first is the number of the request.
  void encode_prompt(AnswerRequest request, Then<Tokens> then, std::stop_token) override {
    requests.push_back(std::move(request));
    Tokens ids(42, 7);
    ids.front() = static_cast<TokenId>(requests.size());
    encode_status.ok() ? then(std::move(ids)) : then(encode_status);
  }
  void render_prompt(AnswerRequest request, Then<std::string> then, std::stop_token) override {
    requests.push_back(std::move(request));
    then(std::string("<rendered>"));
  }
  void with_tokenizer(ModelCall call, Then<std::shared_ptr<const Tokenizer>> then, std::stop_token) override {
    calls.push_back(call);
    const Result<std::string> name = resolve(call.model);
    then(name.ok() ? Result<std::shared_ptr<const Tokenizer>>(fake_tokenizer()) : name.status());
  }
  Result<std::string> resolve(std::string_view model) const override {
    if (model == "nobody") return Status(ErrorCode::kNotFound, "there is no model nobody");
    return std::string(model.empty() ? "tiny" : model.substr(0, model.find(':')));
  }
  void write_behind(std::function<void()> work) override { work(); }
  std::vector<ModelCard> models() const override {
    if (has_one_model) return {{.name = "tiny"}};
    return {{.name = "tiny",
             .path = "/models/tiny.gguf",
             .file_bytes = 1000,
             .created_s = 1700000000,
             .is_loaded = true,
             .max_seq_len = 2048,
             .vocab_size = 300,
             .chat_template = "{{ messages }}"},
            {.name = "other", .file_bytes = 2000, .created_s = 1700000001}};
  }
  BackendLoad load() const override { return {.n_running = 1, .n_waiting = 3, .n_used_tokens = 640, .n_tokens = 2560}; }
  ModelHeader header(std::string_view model) const override { return model == "other" ? other_header : ModelHeader(); }
  TurnOptions default_options(std::string_view) const override { return defaults; }
  Status unload(std::string_view model) override {
    unloaded.push_back(std::string(model));
    return {};
  }

  // Emits a plain answer, its content in two parts, for each of the n answers of the request.
  static void say(const AnswerRequest& request, AnswerListener& listener, const Answer& answer) {
    if (!request.ignored.empty()) listener.ignored(request.ignored);
    for (size_t i = 0; request.returns_prompt_ids && i < request.n_answers(); ++i) {
      listener.prompt_tokens(i, Tokens{1, 2, 3});
    }
    listener.begin("tiny", answer.usage.n_prompt, fake_tokenizer());
    for (size_t i = 0; i < request.n_answers(); ++i) {
      if (!answer.reasoning.empty()) listener.reasoning(i, answer.reasoning);
      const size_t half = answer.content.size() / 2;
      if (half > 0) listener.content(i, answer.content.substr(0, half));
      if (!answer.content.empty()) listener.content(i, answer.content.substr(half));
      listener.answer(i, answer);
    }
    listener.end({});
  }

  Script script;
  TurnOptions defaults;
  ModelHeader other_header;  // for the model "other"
  bool keep_listeners = false;
  bool has_one_model = false;
  std::vector<AnswerRequest> requests;
  std::vector<std::stop_token> stops;
  std::vector<std::shared_ptr<AnswerListener>> listeners;
  std::vector<std::string> unloaded;
  std::vector<ModelCall> calls;
  std::vector<EmbeddingRequest> embedded;
  Status embedding_status, encode_status;
};

class FakeDoor {
 public:
  FakeDoor() : FakeDoor(std::shared_ptr<Backend>()) {}
  explicit FakeDoor(std::unique_ptr<ConversationStore> own) : FakeDoor(nullptr, std::move(own)) {}
  // Uses another backend, `own`.
  explicit FakeDoor(std::shared_ptr<Backend> own,
                    std::unique_ptr<ConversationStore> kept = ConversationStore::open({}).value())
      : store(std::move(kept)) {
    Site site{.backend = own == nullptr ? backend : std::move(own), .store = store.get(), .version = "0.0.1"};
    site.new_id = [this](std::string_view prefix) { return std::string(prefix) + std::to_string(++n_ids_); };
    site_ = std::make_shared<Site>(std::move(site));
    add_endpoints(router_, *site_);
  }
  // Makes new ids differ from those of an earlier door.
  void new_ids_from(size_t n) { n_ids_ = n; }
  // Sets the options --namespace-by-user and --allow-no-user.
  void tell_users_apart() {
    change_site([](Site& site) { site.namespace_by_user = site.allows_no_user = true; });
  }
  void change_site(const std::function<void(Site& site)>& change) {
    change(*site_);
    router_ = http::Router();
    add_endpoints(router_, *site_);
  }

  std::shared_ptr<FakeExchange> send(std::string method, std::string path, std::string body = "",
                                     std::string key_namespace = "us", http::Headers headers = {},
                                     std::string named_namespace = "") {
    const size_t question = std::min(path.find('?'), path.size());
    http::Request request{.method = std::move(method),
                          .path = path.substr(0, question),
                          .headers = std::move(headers),
                          .body = std::move(body),
                          .key_namespace = std::move(key_namespace),
                          .named_namespace = std::move(named_namespace)};
    if (question < path.size()) request.query = path.substr(question + 1);
    auto exchange = std::make_shared<FakeExchange>(std::move(request));
    const http::Router::Match match = router_.find(exchange->request().method, exchange->request().path);
    CHECK(match.handler != nullptr) << exchange->request().path;
    (*match.handler)(exchange, match.parts);
    return exchange;
  }
  std::shared_ptr<FakeExchange> post(std::string path, std::string body) {
    return send("POST", std::move(path), std::move(body));
  }
  std::shared_ptr<FakeExchange> post(std::string path, const Json& body) {
    return send("POST", std::move(path), json_to_string(body));
  }

  const AnswerRequest& last() const { return backend->requests.back(); }

  // Declared first, because listeners of the backend may hold conversations of the store.
  std::unique_ptr<ConversationStore> store;
  std::shared_ptr<FakeBackend> backend = std::make_shared<FakeBackend>();

 private:
  http::Router router_;
  std::shared_ptr<Site> site_;
  size_t n_ids_ = 0;
};

}  // namespace ibid::serve
