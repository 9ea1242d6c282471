// A separate program, so that the work of the crowd is not done in the tests' process.
//
//   slow_crowd crowd PORT N   N connections to a local port, each in a request that never ends: nothing at all,
//                             a header without an end, a body with a large length, a large chunk. Each sends a
//                             byte per second, spread over the second, and reconnects when it is closed.
//   slow_crowd sink           a port that accepts connections and reads: the cost of sending without a server.
//
// Prints a line when all are connected (the sink: its port), and runs until it is killed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

struct Beginning {
  std::string_view bytes;
  std::string_view drip;
};

// After each byte it is still the start of a valid request.
constexpr Beginning kBeginnings[] = {
    {"", ""},
    {"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: x", "x"},
    {"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nhalf", "b"},
    {"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nFFFF\r\nab", "c"},
};

sockaddr_in address_of(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

class SlowClient {
 public:
  SlowClient(uint16_t port, const Beginning& beginning) : port_(port), beginning_(beginning) { come(); }
  SlowClient(SlowClient&& other) noexcept
      : port_(other.port_), beginning_(other.beginning_), descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~SlowClient() { close(descriptor_); }

  void drip() {
    char byte = 0;
    const ssize_t n = recv(descriptor_, &byte, 1, MSG_DONTWAIT);
    const bool is_sent_away = n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    if (is_sent_away || !send_all(beginning_.drip)) come();
  }

 private:
  bool send_all(std::string_view bytes) const {
    return bytes.empty() ||
           send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  void come() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = address_of(port_);
    if (connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      send_all(beginning_.bytes);
    }
  }

  const uint16_t port_;
  const Beginning& beginning_;
  int descriptor_ = -1;
};

void be_crowd(uint16_t port, size_t n_clients) {
  constexpr size_t kTicks = 100;  // ticks per second
  std::vector<SlowClient> crowd;
  for (size_t i = 0; i < n_clients; ++i) crowd.emplace_back(port, kBeginnings[i % std::size(kBeginnings)]);
  std::puts("there");
  std::fflush(stdout);
  auto next = std::chrono::steady_clock::now();
  for (size_t tick = 0;; ++tick) {
    for (size_t i = tick % kTicks; i < n_clients; i += kTicks) crowd[i].drip();
    std::this_thread::sleep_until(next += std::chrono::milliseconds(1000 / kTicks));
  }
}

void be_sink() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = address_of(0);
  socklen_t length = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 4096) != 0) std::exit(1);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  std::printf("%d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  const auto watch = [poller](int descriptor) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
    epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event);
  };
  watch(listener);
  for (;;) {
    epoll_event events[64];
    const int n = epoll_wait(poller, events, 64, -1);
    for (int i = 0; i < n; ++i) {
      char bytes[4096];
      const int source = events[i].data.fd;
      if (source == listener) {
        for (int one; (one = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) watch(one);
      } else if (recv(source, bytes, sizeof(bytes), 0) <= 0) {
        close(source);
      }
    }
  }
}

}  // namespace

int main(int n_words, char** words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const std::string role = n_words > 1 ? words[1] : "";
  if (role == "sink" && n_words == 2) be_sink();
  if (role == "crowd" && n_words == 4) {
    be_crowd(static_cast<uint16_t>(std::atoi(words[2])), std::strtoul(words[3], nullptr, 10));
  }
  std::fputs("slow_crowd crowd PORT N, or slow_crowd sink\n", stderr);
  return 2;
}
