// Bodies of requests to every endpoint of every protocol. The first line is a path, the rest a body. Every exchange
// must end. A request is refused with JSON that names at most one field, or reaches the service within the limits;
// responses are JSON, line by line.
#include <algorithm>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "runtime/session/session_state.h"
#include "sampling/sampler.h"
#include "server/protocol/endpoints.h"
#include "tests/fuzz/script.h"
#include "tests/server/protocol/fake_door.h"

namespace ibid::fuzz {

namespace {

void check_request(const serve::AnswerRequest& request) {
  CHECK(request.n >= 1 && request.n <= ChatSession::kMaxAnswers);
  CHECK(check_sampler_options(request.options.sampler, Sampler::kAnyVocabulary).ok());
  CHECK(request.options.stop_strings.size() <= 16);
  for (const std::string& stop : request.options.stop_strings) CHECK(!stop.empty() && stop.size() <= 1024);
  CHECK(request.messages.is_array() && request.variables.is_object());
  for (const Json& message : request.messages) {
    CHECK(message.is_object() && message["role"].is_string() && message["content"].is_string());
  }
}

void check_exchange(const serve::FakeExchange& exchange) {
  CHECK(exchange.ended);
  CHECK(exchange.status >= 200 && exchange.status < 600 && exchange.status != 500) << exchange.body;
  CHECK(utf8_is_valid(exchange.body));
  if (exchange.streams) {
    CHECK(exchange.status == 200);
    (void)exchange.events();  // events() fails if an event is not JSON
    return;
  }
  const Json json = exchange.json();
  CHECK(json.is_object());
  CHECK(exchange.status == 200 || json.contains("error"));
}

}  // namespace

void request_bodies(Input input) {
  const std::string_view text = text_of(input);
  const size_t line = std::min(text.find('\n'), text.size());
  const std::string path(text.substr(0, line));
  const auto endpoint = std::find_if(serve::endpoints().begin(), serve::endpoints().end(),
                                     [&](const auto& each) { return each.method == "POST" && each.pattern == path; });
  if (endpoint == serve::endpoints().end()) return;
  serve::FakeDoor door;
  const auto exchange = door.post(path, std::string(text.substr(std::min(line + 1, text.size()))));
  for (const serve::AnswerRequest& request : door.backend->requests) check_request(request);
  check_exchange(*exchange);
}

}  // namespace ibid::fuzz
