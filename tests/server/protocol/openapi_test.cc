#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "server/protocol/endpoints.h"
#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

Json sound_body(std::string_view path) {
  Json body = Json::parse(R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5})");
  if (path.starts_with("/v1/completions") || path == "/completion" || path == "/completions") {
    body = Json{{"prompt", "once"}};
  }
  if (path.starts_with("/v1/responses")) body = Json{{"input", "hi"}};
  if (path == "/api/generate") body = Json{{"prompt", "hi"}};
  if (path == "/api/chat") body.erase("max_tokens");
  if (path == "/api/show") body = Json{{"model", "tiny"}};
  if (path == "/tokenize") body = Json{{"content", "a"}};
  if (path == "/v1/embeddings" || path == "/api/embed") body = Json{{"input", "hi"}};
  if (path == "/api/embeddings") body = Json{{"prompt", "hi"}};
  if (path == "/detokenize") body = Json{{"tokens", Json::array({1, 2})}};
  return body;
}

TEST(OpenApiTest, ServerReturnsTheDocument) {
  FakeDoor door;
  EXPECT_EQ(door.send("GET", "/openapi.json")->json(), openapi_document());
}

TEST(OpenApiTest, EveryFieldIsReadAsDescribed) {
  size_t n_checked = 0;
  for (const Endpoint& endpoint : endpoints()) {
    const std::string path(endpoint.pattern);
    if (endpoint.fields == nullptr || path.find('{') != std::string::npos) continue;
    FakeDoor sound;
    ASSERT_EQ(sound.post(path, sound_body(path))->status, 200) << path;
    for (const FieldRule& rule : endpoint.fields()) {
      const std::string name(rule.name);
      // A value of the wrong type is refused unless the field is ignored.
      Json wrong = sound_body(path);
      wrong[name] = rule.shape == Shape::kObject ? Json(5)
                    : rule.shape == Shape::kAny  ? Json::parse("[[]]")
                                                 : Json::object({{"a", 1}});
      FakeDoor door;
      const auto exchange = door.post(path, wrong);
      EXPECT_EQ(exchange->status, rule.standing == Standing::kIgnored ? 200 : 400) << path << ' ' << name;
      if (exchange->status == 400) {
        EXPECT_NE(exchange->body.find(name), std::string::npos) << path << ' ' << exchange->body;
      }
      // Null counts as absent.
      Json null = sound_body(path);
      null[name] = nullptr;
      FakeDoor other;
      // /v1/messages requires max_tokens; count_tokens has the same fields and does not.
      const bool is_needed = rule.required || (path == "/v1/messages" && name == "max_tokens");
      EXPECT_EQ(other.post(path, null)->status, is_needed ? 400 : 200) << path << ' ' << name;
      ++n_checked;
    }
  }
  EXPECT_GT(n_checked, 300u);
}

TEST(OpenApiTest, PathsAndFieldsAreUnique) {
  std::set<std::string> paths;
  for (const Endpoint& endpoint : endpoints()) {
    EXPECT_TRUE(paths.insert(std::string(endpoint.method) + " " + std::string(endpoint.pattern)).second);
    if (endpoint.fields == nullptr) continue;
    std::set<std::string> names;
    for (const FieldRule& rule : endpoint.fields()) {
      EXPECT_TRUE(names.insert(std::string(rule.name)).second) << endpoint.pattern << ' ' << rule.name;
    }
  }
}

}  // namespace
}  // namespace ibid::serve
