// Many clients that are slow, silent or incomplete, beside some normal ones. IBID_CROWD: number of the slow clients,
// IBID_ROUNDS: requests of each normal client. The latency of the normal clients is printed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/http/server_fixture.h"

namespace ibid::http {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

class ServerCrowdTest : public ServerFixture {
 protected:
  static size_t crowd_size() {
    const char* given = std::getenv("IBID_CROWD");
    return given == nullptr ? 200 : std::stoul(given);
  }

  void SetUp() override {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 2 * crowd_size() + 200) GTEST_SKIP() << "not enough open files are allowed";
  }
};

// Runs slow_crowd as a process that lives as long as the object.
class SlowCrowd {
 public:
  explicit SlowCrowd(std::vector<std::string> words) {
    words.insert(words.begin(), IBID_SLOW_CROWD);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn(&process_, IBID_SLOW_CROWD, &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    char byte = 0;
    while (read(ends[0], &byte, 1) == 1 && byte != '\n') said_ += byte;
    close(ends[0]);
  }
  ~SlowCrowd() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  SlowCrowd(const SlowCrowd&) = delete;
  SlowCrowd& operator=(const SlowCrowd&) = delete;

  const std::string& said() const { return said_; }

 private:
  pid_t process_ = -1;
  std::string said_;
};

struct Waits {
  std::vector<double> health, echo;
};

class SlowCrowdTest : public ServerCrowdTest {
 protected:
  static size_t n_rounds() {
    const char* given = std::getenv("IBID_ROUNDS");
    return given == nullptr ? 20 : std::stoul(given);
  }

  // Serves four clients with about fifty requests per second each, sent independently of response times.
  static void serve_good_clients(uint16_t port, size_t n_requests, Waits& waits) {
    constexpr auto kPause = milliseconds(20);
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        RawClient one(port);
        const bool is_health = i % 2 == 0;
        const std::string request = is_health ? get_text("/health") : post_text("/echo", "hello");
        SteadyClock::time_point next = SteadyClock::now() + static_cast<int>(i) * kPause / 4;
        for (size_t k = 0; k < n_requests; ++k) {
          std::this_thread::sleep_until(next);
          const auto begin = SteadyClock::now();
          one.send(request);
          const int status = status_of(one.read_response());
          const double ms = std::chrono::duration<double, std::milli>(SteadyClock::now() - begin).count();
          next = std::max<SteadyClock::time_point>(next + kPause, SteadyClock::now());
          const std::lock_guard lock(mutex);
          EXPECT_EQ(status, 200);
          (is_health ? waits.health : waits.echo).push_back(ms);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static void print(const std::string& what, std::vector<double> times) {
    std::sort(times.begin(), times.end());
    std::printf("%-40s p50 %.2f ms, p99 %.2f ms, longest %.2f ms, of %zu\n", what.c_str(), times[times.size() / 2],
                times[times.size() * 99 / 100], times.back(), times.size());
  }
};

// Cases 124 and 125 with hundreds of clients: connections in every unfinished state, as many as the server accepts,
// then twice as many. The cost of sending alone is measured with a crowd that sends to another process.
TEST_F(SlowCrowdTest, SlowAndSilentClientsDoNotDelayOthers) {
  ServerOptions options = quick_options();
  const size_t n_crowd = crowd_size();
  options.max_connections = n_crowd + 100;
  start(options);
  const std::unique_ptr<Server> wide = std::move(server_);
  options.max_connections = std::max<size_t>(n_crowd / 2, 50);
  start(options);
  const SlowCrowd sink({"sink"});
  struct Arm {
    const char* name;
    const Server* server;
    std::string crowd_port;  // empty: no crowd
    Waits waits = {};
  };
  Arm arms[] = {{"nobody else", wide.get(), ""},
                {"a crowd elsewhere", wide.get(), sink.said()},
                {"a crowd that has its places", wide.get(), std::to_string(wide->port())},
                {"a crowd of twice the places", server_.get(), std::to_string(server_->port())}};
  // The variants take turns, so that other load of the machine affects all of them.
  constexpr size_t kTurns = 4;
  for (size_t turn = 0; turn < kTurns; ++turn) {
    for (Arm& arm : arms) {
      std::unique_ptr<SlowCrowd> crowd;
      if (!arm.crowd_port.empty()) {
        crowd = std::make_unique<SlowCrowd>(std::vector<std::string>{"crowd", arm.crowd_port, std::to_string(n_crowd)});
        ASSERT_EQ(crowd->said(), "there");
      }
      serve_good_clients(arm.server->port(), std::max<size_t>(n_rounds() / kTurns, 1), arm.waits);
      if (&arm == &arms[2]) {
        EXPECT_GE(wide->stats().n_open, n_crowd) << "the crowd was not connected";
      }
      if (&arm == &arms[3]) {
        EXPECT_LE(server_->stats().n_open, options.max_connections + 8);
        EXPECT_GE(server_->stats().n_open, options.max_connections / 2) << "the crowd was not connected";
      }
    }
  }
  for (const Arm& arm : arms) {
    print(std::string("/health, ") + arm.name, arm.waits.health);
    print(std::string("/echo, ") + arm.name, arm.waits.echo);
  }
}

// Case 130 with hundreds of clients: some streams are not read, others are read to the end.
TEST_F(ServerCrowdTest, StreamsThatAreNotReadDoNotDelayOtherStreams) {
  ServerOptions options = quick_options();
  options.max_queued_bytes = 20'000;
  options.max_connections = 2 * crowd_size() + 100;
  start(options);
  const size_t n_stuck = crowd_size() / 4, n_good = 8;
  std::vector<RawClient> stuck, good;
  for (size_t i = 0; i < n_stuck + n_good; ++i) {
    (i < n_stuck ? stuck : good).push_back(client());
    (i < n_stuck ? stuck : good).back().send(get_text("/hold"));
    const ExchangePtr exchange = held(i);
    ASSERT_NE(exchange, nullptr);
    exchange->begin_stream(200, "text/plain");
  }
  std::vector<std::thread> readers;
  std::atomic<size_t> n_whole = 0;
  for (RawClient& one : good) {
    readers.emplace_back([&one, &n_whole] {
      one.read_to("\r\n\r\n");  // the head
      n_whole += one.read_to("0\r\n\r\n").ends_with("last\r\n0\r\n\r\n") ? 1 : 0;
    });
  }
  // Normal clients get little; the others so much that they are disconnected.
  const std::string piece(10'000, 'd');
  for (size_t i = 0; i < n_stuck; ++i) {
    while (held(i)->send(piece)) {
    }
    for (size_t k = 0; k < n_good; ++k) EXPECT_TRUE(held(n_stuck + k)->send("token"));
  }
  for (size_t k = 0; k < n_good; ++k) {
    held(n_stuck + k)->send("last");
    held(n_stuck + k)->end_stream();
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(n_whole, n_good);
  let_go_of_all();
  records(n_stuck + n_good);
  EXPECT_EQ(server_->stats().n_slow_clients, n_stuck);
}

// 256 streaming clients at once: each receives exactly its own bytes, in order.
TEST_F(ServerCrowdTest, ManyStreamsAreNeitherLostNorMixedUp) {
  ServerOptions options = quick_options();
  start(options);
  constexpr size_t kClients = 256, kTokens = 50;
  std::vector<RawClient> clients;
  std::vector<ExchangePtr> exchanges;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(client());
    clients.back().send(get_text("/hold"));
    exchanges.push_back(held(i));
    ASSERT_NE(exchanges.back(), nullptr);
    exchanges.back()->begin_stream(200, "text/plain");
  }
  for (size_t k = 0; k < kTokens; ++k) {
    for (size_t i = 0; i < kClients; ++i) {
      ASSERT_TRUE(exchanges[i]->send("[" + std::to_string(i) + ":" + std::to_string(k) + "]"));
    }
  }
  for (const ExchangePtr& exchange : exchanges) exchange->end_stream();
  for (size_t i = 0; i < kClients; ++i) {
    clients[i].read_to("\r\n\r\n");
    std::string chunked = clients[i].read_to("0\r\n\r\n"), text;
    while (!chunked.starts_with("0\r\n")) {  // decodes the chunks
      const size_t size = std::stoul(chunked, nullptr, 16);
      const size_t begin = chunked.find("\r\n") + 2;
      text += chunked.substr(begin, size);
      chunked.erase(0, begin + size + 2);
    }
    std::string wanted;
    for (size_t k = 0; k < kTokens; ++k) wanted += "[" + std::to_string(i) + ":" + std::to_string(k) + "]";
    ASSERT_EQ(text, wanted);
  }
}

// Connections that come and go in every way while others are served; nothing is leaked.
TEST_F(ServerCrowdTest, ClientsThatComeAndGoLeakNothing) {
  start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 100; ++k) {
        RawClient one(server_->port());
        one.send(k % 3 == 0 ? get_text("/health") : post_text("/echo", "x").substr(0, static_cast<size_t>(k)));
        if ((k + i) % 2 == 0) one.reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 500 && server_->stats().n_open > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(server_->stats().n_open, 0u);
  EXPECT_EQ(server_->stats().n_exchanges, 0u);
}

}  // namespace
}  // namespace ibid::http
