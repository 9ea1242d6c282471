#include "net/server_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/connector.h"

namespace ibid::net {
namespace {

using Kind = ServerAddress::Kind;
using testing::HasSubstr;
using testing::Not;

struct Url {
  const char* text;
  ServerAddress address;
};

TEST(ServerAddress, UrlsAreParsed) {
  const Url urls[] = {
      {"redis://example.org", {.host = "example.org"}},
      {"REDIS://example.org:7000/3", {.host = "example.org", .port = 7000, .database = 3}},
      {"redis://127.0.0.1/", {.host = "127.0.0.1"}},
      {"redis://[::1]:7000", {.host = "::1", .port = 7000}},
      {"redis://[::1]", {.host = "::1"}},
      {"redis://:pass@h", {.host = "h", .password = "pass"}},
      {"redis://me:p%40s%2Fs@h:1", {.host = "h", .port = 1, .user = "me", .password = "p@s/s"}},
      {"redis://me:p@ss@h", {.host = "h", .user = "me", .password = "p@ss"}},
      {"redis://h?database=15", {.host = "h", .database = 15}},
      {"unix:/run/redis.sock", {.kind = Kind::kUnix, .path = "/run/redis.sock"}},
      {"unix:/run/with%20space?database=2", {.kind = Kind::kUnix, .path = "/run/with space", .database = 2}},
      {"unix:///run/redis.sock", {.kind = Kind::kUnix, .path = "/run/redis.sock"}},
      {"unix://me:pass@/run/redis.sock",
       {.kind = Kind::kUnix, .path = "/run/redis.sock", .user = "me", .password = "pass"}},
      {"rediss://h?ca_file=/etc/ca.pem&certificate_file=c.pem&key_file=k.pem",
       {.kind = Kind::kTls, .host = "h", .tls = {"/etc/ca.pem", "c.pem", "k.pem"}}},
  };
  for (const Url& url : urls) {
    const Result<ServerAddress> parsed = ServerAddress::parse(url.text);
    ASSERT_TRUE(parsed.ok()) << url.text << ": " << parsed.status().to_string();
    EXPECT_EQ(parsed->kind, url.address.kind) << url.text;
    EXPECT_EQ(parsed->host, url.address.host) << url.text;
    EXPECT_EQ(parsed->port, url.address.port) << url.text;
    EXPECT_EQ(parsed->path, url.address.path) << url.text;
    EXPECT_EQ(parsed->user, url.address.user) << url.text;
    EXPECT_EQ(parsed->password, url.address.password) << url.text;
    EXPECT_EQ(parsed->database, url.address.database) << url.text;
    EXPECT_EQ(parsed->tls.ca_file, url.address.tls.ca_file) << url.text;
    EXPECT_EQ(parsed->tls.certificate_file, url.address.tls.certificate_file) << url.text;
    EXPECT_EQ(parsed->tls.key_file, url.address.tls.key_file) << url.text;
  }
}

TEST(ServerAddress, InvalidUrlsAreRefusedWithoutTheirPassword) {
  const char* const urls[] = {"",
                              "redis",
                              "http://h",
                              "redis:/h",
                              "redis://",
                              "redis://:secret@",
                              "redis://me:secret",
                              "redis://secret@h",
                              "redis://me:@h",
                              "redis://me:secret%4@h",
                              "redis://me:secret%00@h",
                              "redis://me:secret@h:0",
                              "redis://me:secret@h:65536",
                              "redis://me:secret@h:",
                              "redis://me:secret@h:1x",
                              "redis://me:secret@h/x",
                              "redis://me:secret@h/-1",
                              "redis://me:secret@h/65536",
                              "redis://me:secret@[::1",
                              "redis://me:secret@[::1]x",
                              "redis://me:secret@a b",
                              "redis://me:secret@h?color=red",
                              "redis://me:secret@h?database=",
                              "redis://me:secret@h?ca_file=f",
                              "rediss://me:secret@h?certificate_file=f",
                              "unix:relative",
                              "unix:",
                              "unix://me:secret@relative",
                              "unix:/a%00b"};
  for (const char* url : urls) {
    const Result<ServerAddress> parsed = ServerAddress::parse(url);
    ASSERT_FALSE(parsed.ok()) << url;
    EXPECT_EQ(parsed.status().code(), ErrorCode::kInvalidArgument) << url;
    EXPECT_THAT(parsed.status().message(), Not(HasSubstr("secret"))) << url;
  }
  EXPECT_FALSE(ServerAddress::parse("unix:/" + std::string(200, 'x')).ok()) << "longer than a socket address";
  EXPECT_FALSE(ServerAddress::parse("redis://" + std::string(300, 'x')).ok());
}

TEST(ServerAddress, ShownAddressHasNoLogin) {
  EXPECT_EQ(ServerAddress::parse("redis://me:secret@[::1]:1/2")->shown(), "redis://[::1]:1");
  EXPECT_EQ(ServerAddress::parse("rediss://:secret@h")->shown(), "rediss://h:6379");
  EXPECT_EQ(ServerAddress::parse("unix://:secret@/run/x")->shown(), "unix:/run/x");
}

TEST(ServerAddress, LocalAddressesAreThoseOfThisMachine) {
  for (const char* url : {"redis://localhost", "redis://LocalHost", "redis://127.0.0.1", "redis://127.200.0.9",
                          "redis://[::1]", "redis://[::ffff:127.0.0.1]", "unix:/x"}) {
    EXPECT_TRUE(ServerAddress::parse(url)->is_local()) << url;
    EXPECT_TRUE(Connector::create(*ServerAddress::parse(url), true).ok()) << url;
  }
  for (const char* url : {"redis://10.0.0.1", "redis://0.0.0.0", "redis://localhost.example.org", "redis://[::]",
                          "redis://[::ffff:10.0.0.1]", "redis://h"}) {
    EXPECT_FALSE(ServerAddress::parse(url)->is_local()) << url;
    EXPECT_EQ(Connector::create(*ServerAddress::parse(url), true).status().code(), ErrorCode::kInvalidArgument) << url;
    EXPECT_TRUE(Connector::create(*ServerAddress::parse(url), false).ok()) << url;
  }
}

}  // namespace
}  // namespace ibid::net
