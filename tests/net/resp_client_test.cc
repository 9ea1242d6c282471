#include "net/resp_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/server/http/tls_certificate.h"
#include "tests/support/resp_server.h"
#include "tests/support/temp_dir.h"

namespace ibid::net {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;
using Kind = RespValue::Kind;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kPatienceNs = 20'000 * kMs;  // a test that waits longer has failed

TimeLimits soon(int64_t ns = kPatienceNs) { return TimeLimits{}.within(ns, system_clock()); }

Result<std::unique_ptr<RespClient>> connect(const std::string& url, const TimeLimits& limits = soon()) {
  TRY_ASSIGN(ServerAddress address, ServerAddress::parse(url));
  TRY_ASSIGN(const Connector connector, Connector::create(std::move(address), false));
  return RespClient::connect(connector, limits);
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Stores a value in several pieces, and reads it again.
void check_large_value(RespClient& client, const std::string& value) {
  const std::span<const std::byte> bytes = bytes_of(value);
  const std::span<const std::byte> pieces[] = {bytes.first(10), {}, bytes.subspan(10)};
  RespRequest request;
  request.command(5).word("SET").word("key").value(pieces).word("EX").word(int64_t{60});
  const Result<RespValue> stored = client.call(request, soon());
  ASSERT_TRUE(stored.ok()) << stored.status().to_string();
  ASSERT_TRUE(stored->is("OK"));
  std::vector<std::byte> room(value.size());
  const Result<RespValue> read = client.call(resp_command({"GET", "key"}), soon(), room);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  ASSERT_EQ(read->kind, Kind::kInRoom);
  ASSERT_EQ(read->n_bytes, value.size());
  EXPECT_TRUE(std::ranges::equal(room, bytes));
  EXPECT_TRUE(client.is_reusable());
}

std::string large_value() {
  std::string value(3'000'000, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 2654435761u >> 13);
  return value;
}

TEST(RespClient, LargeValuesPassOverTcpUnixSocketsAndTls) {
  const TempDir dir;
  const std::string value = large_value();
  {
    const RespServer tcp;
    const auto client = connect(tcp.url());
    ASSERT_TRUE(client.ok()) << client.status().to_string();
    check_large_value(**client, value);
  }
  {
    const RespServer local({.unix_path = dir.file("socket")});
    const auto client = connect(local.url());
    ASSERT_TRUE(client.ok()) << client.status().to_string();
    check_large_value(**client, value);
  }
  http::write_certificate(dir.file("cert"), dir.file("key"));
  const RespServer tls({.certificate_file = dir.file("cert"), .key_file = dir.file("key"), .password = "pass word"});
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    const std::string port = std::to_string(tls.port());
    const auto client = connect("rediss://:pass%20word@" + host + ":" + port + "?ca_file=" + dir.file("cert"));
    ASSERT_TRUE(client.ok()) << client.status().to_string();
    check_large_value(**client, value);
  }
}

TEST(RespClient, CertificateOfAnotherHostOrAuthorityIsRefused) {
  const TempDir dir;
  http::write_certificate(dir.file("cert"), dir.file("key"));
  http::write_certificate(dir.file("other"), dir.file("other key"));
  const RespServer tls({.certificate_file = dir.file("cert"), .key_file = dir.file("key")});
  const RespServer elsewhere(
      {.address = "127.0.0.2", .certificate_file = dir.file("cert"), .key_file = dir.file("key")});
  const std::string place_of_tls = "127.0.0.1:" + std::to_string(tls.port());
  for (const std::string& place : {place_of_tls, place_of_tls + "?ca_file=" + dir.file("other"),
                                   "127.0.0.2:" + std::to_string(elsewhere.port()) + "?ca_file=" + dir.file("cert")}) {
    const Status status = connect("rediss://" + place).status();
    EXPECT_EQ(status.code(), ErrorCode::kIo) << place;
    EXPECT_THAT(status.message(), HasSubstr("certificate")) << place;
  }
  EXPECT_EQ(connect("rediss://127.0.0.1?ca_file=" + dir.file("absent")).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(connect("rediss://127.0.0.1?ca_file=" + dir.file("key")).status().code(), ErrorCode::kInvalidArgument);
  const std::string mixed = "?certificate_file=" + dir.file("cert") + "&key_file=" + dir.file("other%20key");
  EXPECT_EQ(connect("rediss://127.0.0.1" + mixed).status().code(), ErrorCode::kInvalidArgument);
  const RespServer plain;
  EXPECT_EQ(connect("rediss://127.0.0.1:" + std::to_string(plain.port()), soon(500 * kMs)).status().ok(), false);
}

TEST(RespClient, LoginIsRequiredAndChecked) {
  const RespServer server({.user = "me", .password = "secret"});
  const std::string place = "@127.0.0.1:" + std::to_string(server.port());
  EXPECT_TRUE(connect("redis://me:secret" + place).ok());
  EXPECT_TRUE(connect("redis://:secret" + place + "/3").ok());
  EXPECT_EQ(server.n_commands("SELECT"), 1u);
  for (const std::string login : {"me:secreT", "you:secret"}) {
    const Status status = connect("redis://" + login + place).status();
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument) << login;
    EXPECT_THAT(status.message(), HasSubstr("WRONGPASS"));
    EXPECT_THAT(status.message(), Not(HasSubstr("secre"))) << status.message();
  }
  const auto client = connect("redis://127.0.0.1:" + std::to_string(server.port()));
  ASSERT_TRUE(client.ok());
  EXPECT_EQ(status_of(*(*client)->call(resp_command({"GET", "x"}), soon())).code(), ErrorCode::kInvalidArgument);
}

TEST(RespClient, AnswersComeInTheOrderOfTheRequests) {
  RespServer server;
  const auto client = connect(server.url());
  ASSERT_TRUE(client.ok());
  for (int i = 0; i < 100; i += 2) server.set("key" + std::to_string(i), std::to_string(i));
  RespRequest request;
  for (int i = 0; i < 100; ++i) request.command(2).word("GET").word("key" + std::to_string(i));
  ASSERT_TRUE((*client)->send(request, soon()).ok());
  for (int i = 0; i < 100; ++i) {
    const Result<RespValue> answer = (*client)->receive(soon());
    ASSERT_TRUE(answer.ok());
    EXPECT_FALSE((*client)->is_reusable() && i < 99);
    EXPECT_EQ(answer->text, i % 2 == 0 ? std::to_string(i) : "") << i;
    EXPECT_EQ(answer->kind, i % 2 == 0 ? Kind::kBytes : Kind::kNull) << i;
  }
  EXPECT_TRUE((*client)->is_reusable());
}

TEST(RespClient, ErrorsOfTheServerHaveCodesAndLeaveTheConnectionUsable) {
  struct Case {
    const char* answer;
    ErrorCode code;
  };
  RespServer server;
  const auto client = connect(server.url());
  ASSERT_TRUE(client.ok());
  for (const auto& [answer, code] :
       {Case{"-OOM command not allowed when used memory > 'maxmemory'.", ErrorCode::kLimitExceeded},
        Case{"-LOADING Redis is loading the dataset in memory", ErrorCode::kBusy},
        Case{"-MASTERDOWN Link with MASTER is down", ErrorCode::kBusy},
        Case{"-NOAUTH Authentication required.", ErrorCode::kInvalidArgument},
        Case{"-NOPERM this user has no permissions", ErrorCode::kInvalidArgument},
        Case{"-MOVED 3999 127.0.0.1:6381", ErrorCode::kUnsupported},
        Case{"-WRONGTYPE Operation against a key", ErrorCode::kBadType}, Case{"-ERR other", ErrorCode::kUnsupported}}) {
    server.set_script([&, text = answer](const RespServer::Words&) { return std::string(text) + "\r\n"; });
    const Result<RespValue> value = (*client)->call(resp_command({"GET", "x"}), soon());
    ASSERT_TRUE(value.ok()) << answer;
    EXPECT_EQ(status_of(*value).code(), code) << answer;
    EXPECT_TRUE((*client)->is_reusable());
  }
}

TEST(RespClient, DeadlineAndStopEndEveryWait) {
  RespServer server;
  for (const bool is_silent : {true, false}) {
    server.set_silent(is_silent);
    server.set_pace(1, milliseconds(50));
    server.set("x", std::string(10'000, 'x'));
    for (const bool stops : {true, false}) {
      const auto client = connect(server.url());
      ASSERT_TRUE(client.ok());
      std::stop_source source;
      std::jthread stopper([&] {
        std::this_thread::sleep_for(milliseconds(60));
        if (stops) source.request_stop();
      });
      TimeLimits limits = soon(stops ? kPatienceNs : 60 * kMs);
      limits.stop = source.get_token();
      const int64_t begin_ns = system_clock().steady_ns();
      const Status status = (*client)->call(resp_command({"GET", "x"}), limits).status();
      EXPECT_EQ(status.code(), stops ? ErrorCode::kCancelled : ErrorCode::kDeadline) << status.to_string();
      EXPECT_LT(system_clock().steady_ns() - begin_ns, 5000 * kMs);
      EXPECT_FALSE((*client)->is_reusable());
    }
  }
}

TEST(RespClient, ServerThatDoesNotReadIsLeftAtTheDeadline) {
  RespServer server;
  server.set_silent(true);
  const auto client = connect(server.url());
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE((*client)->send(resp_command({"PING"}), soon()).ok());
  const std::string value(64'000'000, 'v');  // more than the buffers of two sockets
  const std::span<const std::byte> pieces[] = {bytes_of(value)};
  RespRequest request;
  request.command(3).word("SET").word("x").value(pieces);
  EXPECT_EQ((*client)->send(request, soon(100 * kMs)).code(), ErrorCode::kDeadline);
}

TEST(RespClient, BrokenAnswersAndEndsMakeTheConnectionUnusable) {
  RespServer server;
  const std::string end(RespServer::kThenClose);
  struct Case {
    std::string answer;
    ErrorCode code;
  };
  for (const auto& [answer, code] :
       {Case{end, ErrorCode::kTruncated}, Case{"$100\r\nabc" + end, ErrorCode::kTruncated},
        Case{"$99999999999\r\n", ErrorCode::kLimitExceeded}, Case{"nonsense\r\n", ErrorCode::kBadHeader},
        Case{"*1000000\r\n", ErrorCode::kLimitExceeded}}) {
    server.set_script([&, bytes = answer](const RespServer::Words&) { return bytes; });
    const auto client = connect(server.url());
    ASSERT_TRUE(client.ok());
    const Status status = (*client)->call(resp_command({"GET", "x"}), soon()).status();
    EXPECT_EQ(status.code(), code) << answer << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(server.url())) << "the server is named";
    EXPECT_FALSE((*client)->is_reusable());
  }
}

TEST(RespClient, UnaskedBytesAndAClosedConnectionAreNoticed) {
  RespServer server;
  server.set_script([&](const RespServer::Words&) { return "+OK\r\n+extra\r\n"; });
  auto client = connect(server.url());
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE((*client)->call(resp_command({"GET", "x"}), soon()).ok());
  EXPECT_FALSE((*client)->is_reusable());
  server.set_script({});
  client = connect(server.url());
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE((*client)->is_reusable());
  server.set_down(true);
  EXPECT_FALSE((*client)->is_reusable());
}

TEST(RespClient, UnreachableServersAreErrorsThatNameThem) {
  const TempDir dir;
  RespServer server;
  const std::string url = server.url();
  server.set_down(true);
  for (const std::string& unreachable : {url, "unix:" + dir.file("absent"), std::string("redis://name.invalid")}) {
    const Status status = connect(unreachable).status();
    EXPECT_EQ(status.code(), ErrorCode::kIo) << unreachable;
    EXPECT_THAT(status.message(), HasSubstr(ServerAddress::parse(unreachable)->shown()));
  }
}

}  // namespace
}  // namespace ibid::net
