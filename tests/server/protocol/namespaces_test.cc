// With --namespace-by-user every endpoint separates the users of a key, however a request names its user.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/cache_namespace.h"
#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

// A body that every computing endpoint accepts, without its closing brace.
constexpr const char* kAnyBody =
    R"({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "prompt": "a", "content": "a", "input": "a",
        "tokens": [1], "max_tokens": 4)";

class NamespacesTest : public testing::Test {
 protected:
  NamespacesTest() { door.tell_users_apart(); }

  std::string id_of(const std::string& path, const std::string& body) {
    const auto exchange = door.post(path, body);
    EXPECT_EQ(exchange->status, 200) << exchange->body;
    return exchange->json()["id"].get<std::string>();
  }
  int status(const std::string& method, const std::string& path, const std::string& body = "",
             http::Headers headers = {}) {
    return door.send(method, path, body, "us", std::move(headers))->status;
  }

  FakeDoor door;
};

TEST_F(NamespacesTest, EveryComputingEndpointUsesTheUsersNamespace) {
  const std::string wanted = user_namespace("us", "anna");
  size_t n_seen = 0;
  for (const Endpoint& endpoint : endpoints()) {
    const std::string pattern(endpoint.pattern);
    if (endpoint.fields == nullptr || pattern.find('{') != std::string::npos) continue;
    FakeBackend& backend = *door.backend;
    backend.requests.clear(), backend.calls.clear(), backend.embedded.clear();
    const std::string body = pattern.starts_with("/v1/responses") ? R"({"input": "a")" : kAnyBody;
    ASSERT_EQ(status("POST", pattern, body + R"(, "user": "anna"})"), 200) << pattern;
    ASSERT_EQ(status("POST", pattern + "?user=anna", body + "}"), 200) << pattern;
    ASSERT_EQ(status("POST", pattern, body + "}", {{"X-User-Id", "anna"}}), 200) << pattern;
    for (const AnswerRequest& request : backend.requests) EXPECT_EQ(request.cache_namespace, wanted) << pattern;
    for (const ModelCall& call : backend.calls) EXPECT_EQ(call.cache_namespace, wanted) << pattern;
    for (const EmbeddingRequest& request : backend.embedded) EXPECT_EQ(request.cache_namespace, wanted) << pattern;
    const size_t n = backend.requests.size() + backend.calls.size() + backend.embedded.size();
    n_seen += n == 3 ? 1 : 0;
  }
  EXPECT_EQ(n_seen, 20u) << "endpoints of answers, prompts, tokens and embeddings";
}

TEST_F(NamespacesTest, StoredResponseIsVisibleOnlyToItsUser) {
  const std::string id = id_of("/v1/responses", R"({"input": "a", "user": "anna"})");
  const std::string path = "/v1/responses/" + id;
  for (const char* other : {"", "?user=ben", "?user="}) {
    EXPECT_EQ(status("GET", path + other), 404) << other;
    EXPECT_EQ(status("GET", path + "/input_items" + other), 404) << other;
    EXPECT_EQ(status("POST", path + "/cancel" + other), 404) << other;
    EXPECT_EQ(status("DELETE", path + other), 404) << other;
  }
  const std::string next = R"({"input": "b", "previous_response_id": ")" + id + "\"";
  EXPECT_EQ(status("POST", "/v1/responses", next + R"(, "user": "ben"})"), 404);
  EXPECT_EQ(status("POST", "/v1/responses", next + "}"), 404);
  EXPECT_EQ(status("POST", "/v1/responses", next + R"(, "user": "anna"})"), 200);
  const std::string item = door.send("GET", path + "/input_items?user=anna")->json()["data"][0]["id"];
  const std::string reference = R"({"input": [{"type": "item_reference", "id": ")" + item + R"("}], "user": )";
  EXPECT_EQ(status("POST", "/v1/responses", reference + R"("ben"})"), 404);
  EXPECT_EQ(status("POST", "/v1/responses", reference + R"("anna"})"), 200);
  EXPECT_EQ(status("GET", path, "", {{"x-user-id", "anna"}}), 200);
  EXPECT_EQ(status("POST", path + "/cancel?user=anna"), 400) << "it exists, and has ended";
  EXPECT_EQ(status("DELETE", path + "?user=anna"), 200);
}

TEST_F(NamespacesTest, ConversationAndItemsAreVisibleOnlyToTheirUser) {
  const std::string item = R"({"type": "message", "role": "user", "content": "a"})";
  const std::string id = id_of("/v1/conversations", R"({"items": [)" + item + R"(], "user": "anna"})");
  const std::string path = "/v1/conversations/" + id;
  const Json items = door.send("GET", path + "/items?user=anna")->json();
  const std::string first = path + "/items/" + items["data"][0]["id"].get<std::string>();
  for (const std::string other : {"", R"("user": "ben", )"}) {
    const std::string query = other.empty() ? "" : "?user=ben";
    for (const std::string& place : {path, path + "/items", first}) {
      EXPECT_EQ(status("GET", place + query), 404) << place << query;
    }
    EXPECT_EQ(status("DELETE", first + query), 404);
    EXPECT_EQ(status("DELETE", path + query), 404);
    EXPECT_EQ(status("POST", path, "{" + other + R"("metadata": {}})"), 404);
    EXPECT_EQ(status("POST", path + "/items", "{" + other + R"("items": [)" + item + "]}"), 404);
    EXPECT_EQ(status("POST", "/v1/responses", "{" + other + R"("input": "b", "conversation": ")" + id + "\"}"), 404);
  }
  EXPECT_EQ(status("POST", "/v1/responses", R"({"user": "anna", "input": "b", "conversation": ")" + id + "\"}"), 200);
  EXPECT_EQ(door.send("GET", path + "/items?user=anna")->json()["data"].size(), 3u);
  EXPECT_EQ(status("DELETE", first, "", {{"x-user-id", "anna"}}), 200);
  EXPECT_EQ(status("DELETE", path + "?user=anna"), 200);
}

TEST_F(NamespacesTest, RequestNamesAtMostOneUser) {
  const std::string body = std::string(kAnyBody) + R"(, "user": "anna"})";
  const std::string path = "/v1/chat/completions";
  EXPECT_EQ(status("POST", path + "?user=anna", body, {{"x-user-id", " anna "}}), 200);
  for (const char* query : {"?user=ben", "?user=anna&user=ben"}) EXPECT_EQ(status("POST", path + query, body), 400);
  EXPECT_EQ(status("POST", path, body, {{"x-user-id", "ben"}}), 400);
  EXPECT_EQ(status("GET", "/v1/responses/x?user=a%1fb"), 400);
  EXPECT_EQ(status("GET", "/v1/responses/x?user=%ff"), 400);
  EXPECT_EQ(status("GET", "/v1/responses/x?user=" + std::string(257, 'a')), 400);
  EXPECT_EQ(status("POST", path + "?x=1&user=Anna+M%C3%BCller%26", std::string(kAnyBody) + "}"), 200);
  EXPECT_EQ(door.last().cache_namespace, user_namespace("us", "Anna Müller&"));
  EXPECT_EQ(status("POST", "/v1/messages", std::string(kAnyBody) + R"(, "metadata": {"user_id": "anna"}})"), 200);
  EXPECT_EQ(door.last().cache_namespace, user_namespace("us", "anna"));
  EXPECT_EQ(status("POST", path, std::string(kAnyBody) + R"(, "metadata": {"user_id": "anna"}})"), 200);
  EXPECT_EQ(door.last().cache_namespace, "us") << "OpenAI's metadata does not select a namespace";
}

TEST_F(NamespacesTest, RequestWithoutAUserIsRefusedUnlessAllowed) {
  door.change_site([](Site& site) { site.allows_no_user = false; });
  size_t n_seen = 0;
  for (const Endpoint& endpoint : endpoints()) {
    const std::string pattern(endpoint.pattern);
    if (endpoint.fields == nullptr || pattern.find('{') != std::string::npos) continue;
    const std::string body = pattern.starts_with("/v1/responses") ? R"({"input": "a")" : kAnyBody;
    FakeBackend& backend = *door.backend;
    backend.requests.clear(), backend.calls.clear(), backend.embedded.clear();
    const auto refused = door.post(pattern, body + R"(, "user": ""})");
    if (refused->status == 200) continue;  // the endpoint describes models
    EXPECT_EQ(refused->status, 400) << pattern << refused->body;
    EXPECT_THAT(refused->body, testing::HasSubstr("user: this server separates users")) << pattern;
    EXPECT_EQ(backend.requests.size() + backend.calls.size() + backend.embedded.size(), 0u) << pattern;
    EXPECT_EQ(status("POST", pattern, body + R"(, "user": "anna"})"), 200) << pattern;
    n_seen += 1;
  }
  EXPECT_EQ(n_seen, 21u) << "endpoints of answers, prompts, tokens and embeddings, and /v1/conversations";
  EXPECT_EQ(status("GET", "/v1/responses/x"), 400);
  EXPECT_EQ(status("DELETE", "/v1/conversations/x"), 400);
  EXPECT_EQ(status("GET", "/v1/models"), 200);
}

TEST_F(NamespacesTest, NamedNamespaceIsWithinThatOfTheKey) {
  const std::string body = std::string(kAnyBody) + "}", of_anna = std::string(kAnyBody) + R"(, "user": "anna"})";
  const auto space_of = [&](const std::string& text) {
    EXPECT_EQ(door.send("POST", "/v1/chat/completions", text, "us", {}, "tenant-7")->status, 200);
    return door.last().cache_namespace;
  };
  const std::string tenant = named_namespace("us", "tenant-7");
  door.change_site([](Site& site) { site.allows_no_user = false; });
  EXPECT_EQ(space_of(body), tenant) << "the name stands for a user";
  EXPECT_EQ(space_of(of_anna), user_namespace(tenant, "anna"));
  door.change_site([](Site& site) { site.namespace_by_user = false; });
  EXPECT_EQ(space_of(of_anna), tenant);
  EXPECT_EQ(space_of(std::string(kAnyBody) + R"(, "cache_salt": "s"})"), salted_namespace(tenant, "s"));
  for (const std::string& space : {tenant, user_namespace(tenant, "anna"), salted_namespace(tenant, "s")}) {
    EXPECT_EQ(key_of_namespace(space), "us");
  }
  EXPECT_EQ(owner_of_namespace(salted_namespace(user_namespace(tenant, "anna"), "s")), user_namespace(tenant, "anna"));
  const std::string id = door.send("POST", "/v1/responses", R"({"input": "a"})", "us", {}, "tenant-7")->json()["id"];
  const auto found = [&](const std::string& key, const std::string& name) {
    return door.send("GET", "/v1/responses/" + id, "", key, {}, name)->status;
  };
  EXPECT_EQ(found("us", "tenant-7"), 200);
  EXPECT_EQ(found("us", ""), 404);
  EXPECT_EQ(found("us", "tenant-8"), 404);
  EXPECT_EQ(found("them", "tenant-7"), 404);
}

TEST_F(NamespacesTest, UsersOfAKeyShareANamespaceWithoutTheOption) {
  FakeDoor shared;
  const std::string body = R"({"input": "a", "user": "anna"})";
  const std::string id = shared.post("/v1/responses", body)->json()["id"].get<std::string>();
  EXPECT_EQ(shared.send("GET", "/v1/responses/" + id + "?user=ben")->status, 200);
  EXPECT_EQ(shared.last().cache_namespace, "us");
}

}  // namespace
}  // namespace ibid::serve
