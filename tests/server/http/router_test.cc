#include "server/http/router.h"

#include <gtest/gtest.h>

namespace ibid::http {
namespace {

void nothing(const ExchangePtr&, const PathParts&) {}

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    for (const char* pattern : {"/v1/models", "/v1/models/{...}", "/v1/sessions/{id}", "/v1/sessions/all", "/"}) {
      router_.add("GET", pattern, nothing);
    }
    router_.add("DELETE", "/v1/sessions/{id}", nothing);
    router_.add("POST", "/v1/sessions/{id}/fork/{at}", nothing, Access::kEverybody);
  }

  std::string_view pattern(std::string_view method, std::string_view path) const {
    return router_.find(method, path).pattern;
  }

  Router router_;
};

TEST_F(RouterTest, FindsPatternAndParameters) {
  EXPECT_EQ(pattern("GET", "/v1/models"), "/v1/models");
  EXPECT_EQ(pattern("GET", "/"), "/");
  const Router::Match match = router_.find("POST", "/v1/sessions/a b/fork/7");
  ASSERT_NE(match.handler, nullptr);
  EXPECT_EQ(match.parts, (PathParts{"a b", "7"}));
  EXPECT_EQ(match.access, Access::kEverybody);
  EXPECT_EQ(router_.find("GET", "/v1/sessions/x").access, Access::kKey);
}

TEST_F(RouterTest, RestParameterMatchesNonEmptyTextWithSlashes) {
  EXPECT_EQ(router_.find("GET", "/v1/models/Qwen/Qwen3:0.6b").parts, (PathParts{"Qwen/Qwen3:0.6b"}));
  EXPECT_EQ(router_.find("GET", "/v1/models/").handler, nullptr);
}

TEST_F(RouterTest, LiteralPathPartsTakePrecedenceOverParameters) {
  EXPECT_EQ(pattern("GET", "/v1/sessions/all"), "/v1/sessions/all");
  EXPECT_EQ(pattern("GET", "/v1/sessions/alls"), "/v1/sessions/{id}");
  EXPECT_EQ(pattern("DELETE", "/v1/sessions/all"), "") << "a literal path takes all methods";
}

TEST_F(RouterTest, PathParameterMatchesOneNonEmptyPart) {
  EXPECT_EQ(router_.find("GET", "/v1/sessions/").handler, nullptr);
  EXPECT_EQ(router_.find("GET", "/v1/sessions/a/b").handler, nullptr);
  EXPECT_EQ(router_.find("GET", "/v1/sessions").handler, nullptr);
  EXPECT_EQ(router_.find("GET", "/v1/models/x/").parts, (PathParts{"x/"}));
  EXPECT_EQ(router_.find("GET", "//").handler, nullptr);
}

TEST_F(RouterTest, AllowedMethodsOfAPathAreListed) {
  const Router::Match other = router_.find("PUT", "/v1/sessions/x");
  EXPECT_EQ(other.handler, nullptr);
  EXPECT_EQ(other.allowed, "GET, DELETE, HEAD");
  EXPECT_EQ(router_.find("PUT", "/nowhere").allowed, "");
}

TEST_F(RouterTest, LiteralPathDecidesTheAllowedMethods) {
  EXPECT_EQ(router_.find("OPTIONS", "/v1/sessions/all").allowed, "GET, HEAD") << "not those of /v1/sessions/{id}";
  EXPECT_EQ(router_.find("DELETE", "/v1/sessions/all").handler, nullptr);
}

TEST_F(RouterTest, GetHandlerAnswersHeadRequests) {
  EXPECT_EQ(pattern("HEAD", "/v1/models"), "/v1/models");
  EXPECT_EQ(pattern("HEAD", "/v1/sessions/x/fork/y"), "");
}

TEST(RouterDeathTest, DuplicateHandlerIsRefused) {
  Router router;
  router.add("GET", "/x", nothing);
  router.add("POST", "/x", nothing);
  EXPECT_DEATH(router.add("GET", "/x", nothing), "two handlers for GET /x");
}

TEST(RequestTest, HeaderNamesAreCaseInsensitive) {
  const Request request{.headers = {{"X-Api-Key", "a"}, {"x-api-key", "b"}}};
  EXPECT_EQ(request.header("x-API-key"), "a");
  EXPECT_EQ(request.header("x-api"), "");
}

}  // namespace
}  // namespace ibid::http
