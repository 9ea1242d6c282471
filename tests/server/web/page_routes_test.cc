#include "server/web/page_routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

#include "tests/server/protocol/fake_door.h"
#include "tests/support/paths.h"

namespace ibid::serve {
namespace {

const std::filesystem::path kPageFolder = std::filesystem::path(golden_dir()) / "../../server/web";

class PageRoutesTest : public testing::Test {
 protected:
  PageRoutesTest() { add_page_routes(router_); }

  std::shared_ptr<FakeExchange> get(const std::string& path, const std::string& if_none_match = "",
                                    const std::string& accept = "text/html,*/*;q=0.8") const {
    http::Request request{.method = "GET", .path = path};
    if (!accept.empty()) request.headers.emplace_back("Accept", accept);
    if (!if_none_match.empty()) request.headers.emplace_back("If-None-Match", if_none_match);
    auto exchange = std::make_shared<FakeExchange>(std::move(request));
    const http::Router::Match match = router_.find("GET", path);
    if (match.handler != nullptr) (*match.handler)(exchange, match.parts);
    return exchange;
  }
  static std::string header(const FakeExchange& exchange, const std::string& name) {
    for (const auto& [each, value] : exchange.headers) {
      if (each == name) return value;
    }
    return "";
  }

  http::Router router_;
};

std::string file_text(const std::string& name) {
  std::ifstream in(kPageFolder / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_F(PageRoutesTest, EveryFileIsServedByteForByte) {
  const std::map<std::string, std::string> types = {{".html", "text/html; charset=utf-8"},
                                                    {".css", "text/css; charset=utf-8"},
                                                    {".js", "text/javascript; charset=utf-8"},
                                                    {".svg", "image/svg+xml"}};
  size_t n_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kPageFolder)) {
    const auto type = types.find(entry.path().extension());
    if (type == types.end()) continue;
    ++n_files;
    const std::string name = entry.path().filename();
    const std::string path = name == "index.html" ? "/" : name == "monitor.html" ? "/monitor" : "/page/" + name;
    const auto exchange = get(path);
    EXPECT_EQ(exchange->status, 200) << path;
    EXPECT_EQ(exchange->content_type, type->second) << path;
    EXPECT_TRUE(exchange->body == file_text(name)) << path;
    EXPECT_EQ(router_.find("GET", path).access, http::Access::kEverybody) << path;
  }
  EXPECT_EQ(page_files().size(), n_files);
  EXPECT_GT(n_files, 20u);
}

TEST_F(PageRoutesTest, EveryResponseHasSecurityHeaders) {
  for (const PageFile& file : page_files()) {
    const auto exchange = get(std::string(file.path));
    const std::string policy = header(*exchange, "Content-Security-Policy");
    EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';")) << policy;
    EXPECT_NE(policy.find("connect-src 'self'"), std::string::npos);
    EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos);
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(header(*exchange, "Referrer-Policy"), "no-referrer");
    EXPECT_EQ(header(*exchange, "Cache-Control"), "no-cache");
  }
}

TEST_F(PageRoutesTest, CachedFileIsNotSentAgain) {
  const std::string tag = header(*get("/"), "ETag");
  ASSERT_GT(tag.size(), 2u);
  for (const std::string& sent : {tag, "\"other\", " + tag, "W/" + tag, std::string("*")}) {
    const auto exchange = get("/", sent);
    EXPECT_EQ(exchange->status, 304) << sent;
    EXPECT_EQ(exchange->body, "");
    EXPECT_EQ(header(*exchange, "ETag"), tag);
  }
  EXPECT_EQ(get("/", "\"other\"")->status, 200);
  EXPECT_NE(header(*get("/page/app.js"), "ETag"), tag);
}

TEST_F(PageRoutesTest, RootPathReturnsOllamasTextToPrograms) {
  for (const char* accept : {"", "*/*", "application/json"}) {
    const auto exchange = get("/", "", accept);
    EXPECT_EQ(exchange->status, 200);
    EXPECT_EQ(exchange->body, "Ollama is running") << accept;
    EXPECT_EQ(exchange->content_type, "text/plain; charset=utf-8");
    EXPECT_EQ(header(*exchange, "Vary"), "Accept");
    EXPECT_NE(get("/monitor", "", accept)->body, "Ollama is running");
  }
}

// Every file that a page names is served, and pages name no other origin.
TEST_F(PageRoutesTest, FilesThatThePageReferencesExist) {
  const std::regex name(R"re((?:src|href)="([^"#]+)"|from "\./([\w.]+)")re");
  for (const PageFile& file : page_files()) {
    const std::string text(file.content);
    for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
      const std::string path = (*it)[1].matched ? std::string((*it)[1]) : "/page/" + std::string((*it)[2]);
      EXPECT_EQ(get(path)->status, 200) << file.path << " names " << path;
    }
  }
}

TEST_F(PageRoutesTest, OtherFilesOfTheFolderAreNotServed) {
  for (const char* path :
       {"/page/page_routes.cc", "/page/package.json", "/page/", "/page/../page/app.js", "/index.html"}) {
    EXPECT_EQ(router_.find("GET", path).handler, nullptr) << path;
  }
  EXPECT_EQ(router_.find("POST", "/").handler, nullptr);
}

}  // namespace
}  // namespace ibid::serve
