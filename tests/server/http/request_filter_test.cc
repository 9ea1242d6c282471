#include "server/http/request_filter.h"
#include "base/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "server/http/exchange.h"

namespace ibid::http {
namespace {

void answers_nothing(const ExchangePtr&, const PathParts&) {}

class RequestFilterTest : public testing::Test {
 protected:
  static RequestFilter filter(std::vector<ApiKey> keys = {}) {
    Router router;
    router.add("GET", "/open", answers_nothing, Access::kEverybody);
    router.add("POST", "/locked", answers_nothing);
    return RequestFilter({.allowed_hosts = {"llm.example"}, .allowed_origins = {"https://page.example"}, .port = 8080},
                         std::move(keys), std::move(router));
  }

  static RequestHead head(std::string method, std::string path, std::string host, Headers headers = {}) {
    RequestHead made;
    made.method = std::move(method);
    made.target.path = std::move(path);
    made.host = std::move(host);
    made.headers = std::move(headers);
    return made;
  }

  static int status_for_host(const std::string& host) {
    return filter().admit(head("GET", "/open", host), false).refusal.status;
  }
  static int status_for_origin(const std::string& origin, const std::string& host = "127.0.0.1:8080") {
    return filter().admit(head("POST", "/locked", host, {{"Origin", origin}}), false).refusal.status;
  }
  static std::string header(const Admission& admission, std::string_view name) {
    for (const auto& [key, value] : admission.headers) {
      if (equals_ignoring_case(key, name)) return value;
    }
    return "";
  }
};

// A page of another site may let its own name resolve to this machine: "DNS rebinding".
TEST_F(RequestFilterTest, ForeignHostNamesAreRefused) {
  for (const char* host : {"localhost", "localhost:8080", "LOCALHOST:1", "localhost.", "x.localhost", "127.0.0.1:8080",
                           "[::1]:8080", "[::1]", "192.168.1.7:8080", "llm.example", "LLM.example:443"}) {
    EXPECT_EQ(status_for_host(host), 0) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
                           "notlocalhost", "[::1", "[evil]", "localhost:", "localhost:99999", "localhost:80x",
                           "127.0.0.1:8080@evil.example", "", ":80", "0x7f.1"}) {
    EXPECT_EQ(status_for_host(host), *host == '\0' ? 0 : 403) << host;  // a request of HTTP/1.0 may have no Host
  }
}

TEST_F(RequestFilterTest, AnyHostIsAllowedOverAUnixSocket) {
  EXPECT_EQ(filter().admit(head("GET", "/open", "anything"), true).refusal.status, 0);
}

TEST_F(RequestFilterTest, ForeignOriginsAreRefused) {
  for (const char* origin : {"http://127.0.0.1:8080", "http://localhost:8080", "https://localhost:8080",
                             "http://[::1]:8080", "https://page.example"}) {
    EXPECT_EQ(status_for_origin(origin), 0) << origin;
  }
  for (const char* origin :
       {"http://evil.example", "null", "http://localhost:3000", "http://page.example", "https://page.example.evil",
        "file://", "http://", "chrome-extension://abc", "http://127.0.0.1:8081"}) {
    EXPECT_EQ(status_for_origin(origin), 403) << origin;
  }
  EXPECT_EQ(status_for_origin("https://llm.example", "llm.example"), 0);  // the page came through a TLS proxy
  EXPECT_EQ(status_for_origin("https://llm.example:444", "llm.example"), 403);
}

TEST_F(RequestFilterTest, AllowedOriginIsReturned) {
  const Admission allowed =
      filter().admit(head("POST", "/locked", "localhost", {{"Origin", "https://page.example"}}), false);
  EXPECT_EQ(header(allowed, "Access-Control-Allow-Origin"), "https://page.example");
  EXPECT_EQ(header(allowed, "Vary"), "Origin");
  const Admission refused =
      filter().admit(head("POST", "/locked", "localhost", {{"Origin", "https://evil.example"}}), false);
  EXPECT_EQ(header(refused, "Access-Control-Allow-Origin"), "");
}

TEST_F(RequestFilterTest, PreflightNeedsNoKey) {
  const Headers headers = {{"Origin", "https://page.example"},
                           {"Access-Control-Request-Method", "POST"},
                           {"Access-Control-Request-Headers", "authorization, content-type"},
                           {"Access-Control-Request-Private-Network", "true"}};
  const Admission admission =
      filter({{"secret-key", "me"}}).admit(head("OPTIONS", "/locked", "localhost", headers), false);
  EXPECT_EQ(admission.status, 200);
  EXPECT_EQ(header(admission, "Access-Control-Allow-Methods"), "POST, OPTIONS");
  EXPECT_EQ(header(admission, "Access-Control-Allow-Headers"), "authorization, content-type");
  EXPECT_EQ(header(admission, "Access-Control-Allow-Private-Network"), "true");
  EXPECT_EQ(header(admission, "Allow"), "POST, OPTIONS");
}

TEST_F(RequestFilterTest, PreflightAllowsOnlyValidHeaderNames) {
  for (const std::string& wanted :
       {std::string("x\r\nSet-Cookie: a"), std::string("<script>"), std::string(3000, 'a')}) {
    const Headers headers = {{"Origin", "https://page.example"}, {"Access-Control-Request-Headers", wanted}};
    EXPECT_EQ(
        header(filter().admit(head("OPTIONS", "/locked", "localhost", headers), false), "Access-Control-Allow-Headers"),
        "");
  }
}

// Case 133.
TEST_F(RequestFilterTest, RequestWithoutAKeyCannotDetectExistingPaths) {
  const RequestFilter locked = filter({{"secret-key", "mine"}, {"other-key", "theirs"}});
  const auto status = [&](const char* path, Headers headers) {
    return locked.admit(head("POST", path, "localhost", std::move(headers)), false).refusal.status;
  };
  EXPECT_EQ(status("/locked", {}), 401);
  EXPECT_EQ(status("/nowhere", {}), 401);
  EXPECT_EQ(status("/locked", {{"Authorization", "Bearer secret-kez"}}), 401);
  EXPECT_EQ(status("/locked", {{"Authorization", "Bearer secret-key2"}}), 401);
  EXPECT_EQ(status("/locked", {{"Authorization", "Bearer "}}), 401);
  EXPECT_EQ(status("/locked", {{"Authorization", "Basic secret-key"}}), 401);
  EXPECT_EQ(status("/locked", {{"Authorization", "secret-key"}}), 401);
  EXPECT_EQ(status("/locked", {{"x-api-key", std::string(100'000, 'a')}}), 401);
  EXPECT_EQ(status("/locked", {{"authorization", "bearer  secret-key"}}), 0);
  EXPECT_EQ(status("/locked", {{"X-Api-Key", "other-key"}}), 0);
  EXPECT_EQ(status("/nowhere", {{"x-api-key", "other-key"}}), 404);
  EXPECT_EQ(locked.admit(head("GET", "/open", "localhost"), false).refusal.status, 0);
}

TEST_F(RequestFilterTest, UnknownPathIsForTheLogIfTheKeyIsKnown) {
  const RequestFilter locked = filter({{"secret-key", "mine"}});
  const auto path = [&](const char* method, const std::string& asked, Headers headers) {
    return locked.admit(head(method, asked, "localhost", std::move(headers)), false).unknown_path;
  };
  const Headers key = {{"x-api-key", "secret-key"}};
  EXPECT_EQ(path("GET", "/get_model_info", key), "/get_model_info");
  EXPECT_EQ(path("DELETE", "/locked", key), "/locked") << "a method that the path does not have";
  EXPECT_EQ(path("POST", "/locked", key), "");
  EXPECT_EQ(path("GET", "/get_model_info", {}), "");
  EXPECT_EQ(path("GET", "/get_model_info", {{"x-api-key", "secret-kez"}}), "");
  EXPECT_EQ(path("GET", "/a b\"\\\n\x7f\xc3\xa9<>{}%", key), "/a?b" + std::string(11, '?'));
  EXPECT_EQ(path("GET", "/" + std::string(10'000, 'a'), key), "/" + std::string(127, 'a'));
}

TEST_F(RequestFilterTest, EachKeyHasItsNamespace) {
  const RequestFilter locked = filter({{"secret-key", "mine"}, {"other-key", "theirs"}});
  const auto whose = [&](const char* key) {
    return locked.admit(head("POST", "/locked", "localhost", {{"x-api-key", key}}), false).cache_namespace;
  };
  EXPECT_EQ(whose("secret-key"), "mine");
  EXPECT_EQ(whose("other-key"), "theirs");
}

TEST_F(RequestFilterTest, OnlyAKeyThatAllowsItNamesANamespace) {
  const std::vector<ApiKey> keys = {{"router-key", "mine", true}, {"other-key", "theirs"}};
  const auto admit = [&](const char* key, Headers headers, const char* path = "/locked") {
    headers.emplace_back("x-api-key", key);
    const bool is_locked = path == std::string_view("/locked");
    return filter(keys).admit(head(is_locked ? "POST" : "GET", path, "localhost", std::move(headers)), false);
  };
  const Admission named = admit("router-key", {{"X-Ibid-Namespace", " tenant-7:a@b.c_d "}});
  EXPECT_EQ(named.refusal.status, 0);
  EXPECT_EQ(named.cache_namespace, "mine");
  EXPECT_EQ(named.named_namespace, "tenant-7:a@b.c_d");
  EXPECT_EQ(admit("router-key", {}).named_namespace, "");
  EXPECT_EQ(admit("other-key", {}).refusal.status, 0);
  EXPECT_EQ(admit("other-key", {{"x-ibid-namespace", "a"}}).refusal.status, 403);
  EXPECT_EQ(admit("other-key", {{"x-ibid-namespace", ""}}).refusal.status, 403);
  EXPECT_EQ(admit("wrong-key", {{"x-ibid-namespace", "a"}}).refusal.status, 401);
  EXPECT_EQ(admit("router-key", {{"x-ibid-namespace", "a"}, {"X-IBID-NAMESPACE", "b"}}).refusal.status, 400);
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a\x1fuser:b"), std::string("a\tb"),
                                 std::string("\xc3\xa9"), std::string("a/b"), std::string(129, 'a')}) {
    EXPECT_EQ(admit("router-key", {{"x-ibid-namespace", bad}}).refusal.status, 400) << bad;
  }
  const Admission longest = admit("router-key", {{"x-ibid-namespace", std::string(128, 'a')}});
  EXPECT_EQ(longest.named_namespace.size(), 128u);
  const Headers name = {{"x-ibid-namespace", "a"}};
  EXPECT_EQ(filter().admit(head("POST", "/locked", "localhost", name), false).refusal.status, 403) << "no keys";
  EXPECT_EQ(admit("wrong-key", name, "/open").refusal.status, 0) << "a path that needs no key";
}

TEST_F(RequestFilterTest, OtherMethodsAndPathsAreRefused) {
  const Admission other = filter().admit(head("DELETE", "/locked", "localhost"), false);
  EXPECT_EQ(other.refusal.status, 405);
  EXPECT_EQ(header(other, "Allow"), "POST, OPTIONS");
  EXPECT_EQ(filter().admit(head("GET", "/nowhere", "localhost"), false).refusal.status, 404);
  EXPECT_EQ(filter().admit(head("OPTIONS", "*", "localhost"), false).status, 200);
  EXPECT_EQ(filter().admit(head("OPTIONS", "/nowhere", "localhost"), false).refusal.status, 404);
}

}  // namespace
}  // namespace ibid::http
