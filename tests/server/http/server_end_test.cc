// Shutdown of a server, and its start: addresses, sockets, files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/server/http/server_fixture.h"
#include "tests/support/temp_dir.h"

namespace ibid::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class ServerEndTest : public ServerFixture {
 protected:
  static Result<std::unique_ptr<Server>> listen(ServerOptions options) {
    Router router;
    router.add(
        "GET", "/health", [](const ExchangePtr& exchange, const PathParts&) { exchange->respond({}); },
        Access::kEverybody);
    return Server::listen(std::move(options), std::move(router),
                          [](int, std::string_view, std::string_view) { return ""; });
  }

  TempDir dir_;
};

TEST_F(ServerEndTest, StoppedListenerFinishesRunningExchangesAndStartsNoNewExchange) {
  start();
  RawClient idle = client(), busy = client();
  idle.send(get_text("/health"));
  idle.read_response();
  busy.send(get_text("/hold"));
  const ExchangePtr exchange = held(0);
  ASSERT_NE(exchange, nullptr);
  server_->stop_listening();
  EXPECT_TRUE(idle.is_closed_within(5000));
  EXPECT_FALSE(client().is_connected());
  EXPECT_FALSE(server_->wait_until_quiet(milliseconds(20)));
  EXPECT_FALSE(exchange->gone().stop_requested());
  exchange->respond({.body = "done"});
  const std::string response = busy.read_response();
  EXPECT_EQ(body_of(response), "done");
  EXPECT_TRUE(server_->wait_until_quiet(milliseconds(5000)));
  EXPECT_TRUE(busy.is_closed_within(5000));
}

TEST_F(ServerEndTest, CancelledExchangeCanStillRespond) {
  start();
  RawClient one = client();
  one.send(get_text("/hold"));
  const ExchangePtr exchange = held(0);
  exchange->begin_stream(200, "text/event-stream");
  server_->stop_listening();
  server_->cancel_exchanges();
  EXPECT_TRUE(is_gone_within(exchange, 5000));
  EXPECT_TRUE(exchange->send("event: error\n\n"));
  exchange->end_stream();
  EXPECT_THAT(one.read_all(5000), HasSubstr("event: error\n\n\r\n0\r\n\r\n"));
  EXPECT_TRUE(server_->wait_until_quiet(milliseconds(5000)));
}

TEST_F(ServerEndTest, HandlerMayOutliveItsServer) {
  start();
  RawClient one = client(), other = client();
  one.send(get_text("/hold"));
  const ExchangePtr exchange = held(0);
  other.send(get_text("/hold"));
  const ExchangePtr streaming = held(1);
  streaming->begin_stream(200, "text/plain");
  server_->stop();
  EXPECT_TRUE(exchange->gone().stop_requested());
  server_.reset();
  exchange->respond({.body = "too late"});
  EXPECT_FALSE(streaming->send("too late"));
  streaming->end_stream();
  EXPECT_EQ(status_of(one.read_all(5000)), 0);
}

TEST_F(ServerEndTest, StopsWhileClientsConnectAndSend) {
  start();
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([port = server_->port()](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        RawClient one(port);
        if (one.send(post_text("/echo", "x"))) one.read_response();
      }
    });
  }
  std::this_thread::sleep_for(milliseconds(100));
  server_->stop();
  EXPECT_GT(server_->stats().n_requests, 0u);
  EXPECT_EQ(server_->stats().n_open, 0u);
}

TEST_F(ServerEndTest, PortInUseErrorSuggestsAlternative) {
  start();
  ServerOptions options;
  options.port = server_->port();
  const auto second = listen(options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), ErrorCode::kIo);
  EXPECT_THAT(second.status().message(), HasSubstr("in use by another program; choose another with --port N"));
}

TEST_F(ServerEndTest, PublicAddressNeedsAKey) {
  ServerOptions options;
  options.address = "0.0.0.0";
  options.port = 0;
  const auto open = listen(options);
  ASSERT_FALSE(open.ok());
  EXPECT_THAT(open.status().message(), HasSubstr("--api-key-file"));
  options.insecure = true;
  EXPECT_TRUE(listen(options).ok());
  options.insecure = false;
  options.api_keys = {{"a-key-of-a-test", "me"}};
  EXPECT_TRUE(listen(options).ok());
}

TEST_F(ServerEndTest, InvalidAddressesAreRefused) {
  ServerOptions options;
  options.address = "no.such.host.invalid";
  EXPECT_EQ(listen(options).status().code(), ErrorCode::kInvalidArgument);
  options.address = "192.0.2.1";  // a test address (RFC 5737)
  EXPECT_THAT(listen(options).status().message(), HasSubstr("is not an address of this machine"));
  options.address = "";
  EXPECT_EQ(listen(options).status().code(), ErrorCode::kInvalidArgument);
}

TEST_F(ServerEndTest, LocalhostListensOnAllItsAddresses) {
  ServerOptions options = quick_options();
  options.address = "localhost";
  const auto server = listen(options);
  ASSERT_TRUE(server.ok()) << server.status().message();
  RawClient one((*server)->port());
  EXPECT_TRUE(one.is_connected());
  EXPECT_EQ((*server)->url(), "http://localhost:" + std::to_string((*server)->port()));
}

TEST_F(ServerEndTest, SeveralAddressesHaveTheSamePort) {
  ServerOptions options = quick_options();
  options.address = "127.0.0.1, 127.0.0.2";
  auto server = listen(options);
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_EQ((*server)->url(), "http://127.0.0.1:" + std::to_string((*server)->port()));
  options.port = (*server)->port();
  for (const char* address : {"127.0.0.1", "127.0.0.2"}) {
    options.address = address;
    EXPECT_THAT(listen(options).status().message(), HasSubstr("in use")) << address;
  }
  options.port = 0;
  for (const char* list : {"127.0.0.1,,127.0.0.2", ",", "127.0.0.1,no.such.host.invalid"}) {
    options.address = list;
    EXPECT_EQ(listen(options).status().code(), ErrorCode::kInvalidArgument) << list;
  }
}

TEST_F(ServerEndTest, UnixSocketIsPrivateAndRemovedAtTheEnd) {
  ServerOptions options = quick_options();
  options.address = "";
  options.unix_socket = dir_.file("socket");
  start(options);
  struct stat found {};
  ASSERT_EQ(stat(options.unix_socket.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  RawClient one(options.unix_socket);
  one.send("GET /health HTTP/1.1\r\nHost: whatever\r\n\r\n");
  EXPECT_EQ(status_of(one.read_response()), 200);
  EXPECT_EQ(server_->port(), 0);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(options.unix_socket));
}

TEST_F(ServerEndTest, StaleUnixSocketIsReplaced) {
  ServerOptions options = quick_options();
  options.unix_socket = dir_.file("socket");
  {
    const int left = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    options.unix_socket.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(left, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    close(left);
  }
  const auto server = listen(options);
  ASSERT_TRUE(server.ok()) << server.status().message();
  ServerOptions second = quick_options();
  second.unix_socket = options.unix_socket;
  EXPECT_THAT(listen(second).status().message(), HasSubstr("in use by another program"));
}

TEST_F(ServerEndTest, FileThatIsNotASocketIsKept) {
  ServerOptions options = quick_options();
  options.unix_socket = dir_.write("precious", "text");
  EXPECT_THAT(listen(options).status().message(), HasSubstr("is not a socket"));
  EXPECT_EQ(read_whole_file(options.unix_socket), "text");
  options.unix_socket = dir_.file(std::string(200, 'x'));
  EXPECT_EQ(listen(options).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ibid::http
