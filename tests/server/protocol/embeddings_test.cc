#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <variant>

#include "server/protocol/handlers.h"
#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

using testing::HasSubstr;

const EmbeddingRequest& last(const FakeDoor& door) { return door.backend->embedded.back(); }
std::string text_at(const EmbeddingRequest& request, size_t i) { return std::get<std::string>(request.inputs.at(i)); }
Tokens ids_at(const EmbeddingRequest& request, size_t i) { return std::get<Tokens>(request.inputs.at(i)); }

TEST(EmbeddingsTest, InputMayBeATextTokensOrAListOfEither) {
  FakeDoor door;
  ASSERT_EQ(door.post("/v1/embeddings", std::string(R"({"model": "tiny", "input": "hi"})"))->status, 200);
  EXPECT_EQ(last(door).model, "tiny");
  EXPECT_EQ(last(door).cache_namespace, "us");
  EXPECT_EQ(text_at(last(door), 0), "hi");
  EXPECT_FALSE(last(door).cuts);
  ASSERT_EQ(door.post("/v1/embeddings", std::string(R"({"input": ["a", "b"]})"))->status, 200);
  EXPECT_EQ(text_at(last(door), 1), "b");
  ASSERT_EQ(door.post("/v1/embeddings", std::string(R"({"input": [5, 6]})"))->status, 200);
  ASSERT_EQ(last(door).inputs.size(), 1u);
  EXPECT_EQ(ids_at(last(door), 0), (Tokens{5, 6}));
  ASSERT_EQ(door.post("/v1/embeddings", std::string(R"({"input": [[5, 6], [7]], "dimensions": 3})"))->status, 200);
  EXPECT_EQ(ids_at(last(door), 1), Tokens{7});
  EXPECT_EQ(last(door).n_dims, 3u);
  ASSERT_EQ(door.post("/v1/embeddings", std::string(R"({"input": ["a", {"prompt_string": "b"}, [5, "c", 6],
    {"content": [{"type": "text", "text": "d"}, {"type": "text", "text": "e"}]}]})"))
                ->status,
            200);
  ASSERT_EQ(last(door).inputs.size(), 4u);
  EXPECT_EQ(text_at(last(door), 1), "b");
  EXPECT_EQ(std::get<std::string>(std::get<PromptPieces>(last(door).inputs[2]).at(1)), "c");
  EXPECT_EQ(text_at(last(door), 3), "de");
}

TEST(EmbeddingsTest, ReplyHasOpenAisFormat) {
  FakeDoor door;
  const auto exchange = door.post("/v1/embeddings", std::string(R"({"input": ["a", "b"]})"));
  EXPECT_EQ(exchange->body, R"({"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]},)"
                            R"({"object":"embedding","index":1,"embedding":[1.5,-1]}],"model":"tiny",)"
                            R"("usage":{"prompt_tokens":9,"total_tokens":9}})");
  EXPECT_EQ(exchange->content_type, "application/json");
  const auto base64 = door.post("/v1/embeddings", std::string(R"({"input": "a", "encoding_format": "base64"})"));
  EXPECT_EQ(base64->json()["data"][0]["embedding"], "AAAAPwAAgL8=");  // 3f000000, bf800000
}

TEST(EmbeddingsTest, BadInputErrorsNameTheField) {
  std::string many = R"({"input": ["a")", ids = R"({"input": [[1])";
  for (int i = 0; i < 2048; ++i) many += ",\"a\"", ids += ",[1]";
  const std::pair<std::string, std::string> cases[] = {
      {"{}", "input"},
      {R"({"input": null})", "input"},
      {R"({"input": ""})", "input"},
      {R"({"input": []})", "input"},
      {R"({"input": 5})", "input"},
      {R"({"input": true})", "input"},
      {R"({"input": {"a": 1}})", "input.prompt_string"},
      {R"({"input": {"content": "a"}})", "input.content"},
      {R"({"input": {"content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}})", "input.content[0].type"},
      {R"({"input": ["a", ""]})", "input[1]"},
      {R"({"input": ["a", -5]})", "input[1]"},
      {R"({"input": [1, "a", true]})", "input[2]"},
      {R"({"input": [[]]})", "input[0]"},
      {R"({"input": [[1], []]})", "input[1]"},
      {R"({"input": [[1], [1, "a", -1]]})", "input[1][2]"},
      {R"({"input": [[1, -1]]})", "input[0][1]"},
      {R"({"input": [1, 1.5]})", "input[1]"},
      {R"({"input": [1, 2147483648]})", "input[1]"},
      {R"({"input": [[[1]]]})", "input[0]"},
      {R"({"input": [null]})", "input[0]"},
      {many + "]}", "input"},
      {ids + "]}", "input"},
      {R"({"input": "a", "encoding_format": "int8"})", "encoding_format"},
      {R"({"input": "a", "encoding_format": 5})", "encoding_format"},
      {R"({"input": "a", "dimensions": 0})", "dimensions"},
      {R"({"input": "a", "dimensions": -1})", "dimensions"},
      {R"({"input": "a", "dimensions": 1.5})", "dimensions"},
      {R"({"input": "a", "dimensions": "8"})", "dimensions"},
      {R"({"input": "a", "model": 5})", "model"},
  };
  for (const auto& [body, param] : cases) {
    FakeDoor door;
    const auto exchange = door.post("/v1/embeddings", body);
    EXPECT_EQ(exchange->status, 400) << body.substr(0, 80);
    EXPECT_EQ(exchange->json()["error"]["param"], param) << body.substr(0, 80) << exchange->body;
    EXPECT_TRUE(door.backend->embedded.empty());
  }
  FakeDoor door;
  EXPECT_THAT(door.post("/v1/embeddings", many + "]}")->body, HasSubstr("has 2049 entries, at most 2048"));
  many = many.substr(0, many.size() - 4);
  EXPECT_EQ(door.post("/v1/embeddings", many + "]}")->status, 200);
  EXPECT_EQ(door.post("/v1/embeddings", std::string("[]"))->status, 400);
}

TEST(EmbeddingsTest, ServiceErrorsHaveTheProtocolsFormat) {
  const auto refused = [](const Status& status, const char* path, const std::string& body) {
    FakeDoor door;
    door.backend->embedding_status = status;
    return door.post(path, body);
  };
  const Status chat(ErrorCode::kUnsupported, "chat.gguf cannot make embeddings");
  auto exchange = refused(chat, "/v1/embeddings", R"({"input": "a"})");
  EXPECT_EQ(exchange->status, 400);
  EXPECT_EQ(exchange->json()["error"]["message"], "chat.gguf cannot make embeddings");
  exchange = refused(chat, "/api/embed", R"({"input": "a"})");
  EXPECT_EQ(exchange->body, R"({"error":"chat.gguf cannot make embeddings"})");
  exchange = refused({ErrorCode::kContextFull, "text 1 of 1 has 9 tokens, the context has room for 4"},
                     "/v1/embeddings", R"({"input": "a"})");
  EXPECT_EQ(exchange->status, 400);
  EXPECT_EQ(exchange->json()["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(exchange->json()["error"]["message"],
            "This model's maximum context length is 4 tokens: text 1 of 1 has 9 tokens, the context has room for 4; "
            "the text is too large: send a shorter one");
  exchange = refused({ErrorCode::kBusy, "full"}, "/v1/embeddings", R"({"input": "a"})");
  EXPECT_EQ(exchange->status, 429);
  EXPECT_THAT(exchange->headers, testing::Contains(testing::Pair("Retry-After", "7")));
  EXPECT_EQ(refused({ErrorCode::kNotFound, "no such"}, "/v1/embeddings", R"({"input": "a"})")->status, 404);
}

TEST(EmbeddingsTest, OllamasFormatsAreReadAndWritten) {
  FakeDoor door;
  auto exchange = door.post("/api/embed", std::string(R"({"model": "tiny:latest", "input": ["a", "b"]})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_EQ(last(door).model, "tiny:latest") << "the host knows the tag";
  EXPECT_EQ(last(door).keep_alive, std::nullopt);
  EXPECT_TRUE(last(door).cuts) << "Ollama's default";
  EXPECT_EQ(json_to_string(exchange->json()["embeddings"]), "[[0.5,-1],[1.5,-1]]");
  EXPECT_EQ(exchange->json()["prompt_eval_count"], 9);
  door.post("/api/embed", std::string(R"({"input": "a", "truncate": false, "keep_alive": 0})"));
  EXPECT_FALSE(last(door).cuts);
  EXPECT_EQ(last(door).keep_alive, std::chrono::milliseconds(0));
  exchange = door.post("/api/embeddings", std::string(R"({"model": "tiny", "prompt": "a"})"));
  EXPECT_EQ(exchange->body, R"({"embedding":[0.5,-1]})");
  for (const char* body : {R"({"input": ""})", R"({"input": []})", R"({"input": [5]})", R"({"input": [[5]]})"}) {
    exchange = door.post("/api/embed", std::string(body));
    EXPECT_EQ(exchange->status, 400) << body;
    EXPECT_THAT(exchange->body, HasSubstr(R"({"error":"input)")) << body;
  }
  EXPECT_EQ(door.post("/api/embeddings", std::string(R"({"prompt": ""})"))->status, 400);
}

TEST(EmbeddingsTest, WrittenNumbersAreParsedToTheSameFloats) {
  const std::vector<float> vector = {0, -0.0f, 1.0f / 3, 1e-38f, std::numeric_limits<float>::denorm_min(), -0.1f, 1};
  std::string text;
  append_numbers(text, vector);
  const Json json = Json::parse(text);
  ASSERT_EQ(json.size(), vector.size());
  for (size_t i = 0; i < vector.size(); ++i) EXPECT_EQ(json[i].get<float>(), vector[i]) << text;
  std::string none;
  append_numbers(none, {});
  EXPECT_EQ(none, "[]");
  // Lengths with each kind of padding.
  for (const size_t n : {0u, 1u, 2u, 3u}) {
    std::string base64;
    append_base64(base64, std::vector<float>(n, 1.0f));
    const char* const wanted[] = {R"("")", R"("AACAPw==")", R"("AACAPwAAgD8=")", R"("AACAPwAAgD8AAIA/")"};
    EXPECT_EQ(base64, wanted[n]);
  }
}

}  // namespace
}  // namespace ibid::serve
