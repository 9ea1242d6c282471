// A client that is only a socket: it sends the bytes that a test passes, and returns the bytes received.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace ibid::http {

class RawClient {
 public:
  static constexpr int kPatienceMs = 20'000;  // limit for a wait; a test that exceeds it has failed

  explicit RawClient(uint16_t port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const int on = 1;  // sends pieces at once
    setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  explicit RawClient(const std::string& path) : descriptor_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    is_connected_ = connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  RawClient(RawClient&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        is_connected_(other.is_connected_),
        received_(std::move(other.received_)) {}
  RawClient& operator=(RawClient&&) = delete;
  ~RawClient() { leave(); }

  bool is_connected() const { return is_connected_; }
  int descriptor() const { return descriptor_; }

  // Returns false if the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // Returns all bytes until the server closes, or `limit_ms` pass without any.
  std::string read_all(int limit_ms = kPatienceMs) {
    while (receive(limit_ms)) {
    }
    return std::exchange(received_, {});
  }
  // Returns all bytes up to and including this text, which must arrive; else all bytes received.
  std::string read_to(std::string_view end) {
    while (received_.find(end) == std::string::npos && receive(kPatienceMs)) {
    }
    const size_t at = received_.find(end);
    const size_t size = at == std::string::npos ? received_.size() : at + end.size();
    std::string found = received_.substr(0, size);
    received_.erase(0, size);
    return found;
  }
  // Returns a whole response with a Content-Length; for HEAD only its head.
  std::string read_response(bool head_only = false) {
    std::string head = read_to("\r\n\r\n");
    const size_t at = head.find("Content-Length: ");
    if (at == std::string::npos || head_only) return head;
    const size_t length = std::stoul(head.substr(at + 16));
    while (received_.size() < length && receive(kPatienceMs)) {
    }
    head += received_.substr(0, length);
    received_.erase(0, length);
    return head;
  }
  // True if the server closes within the time, whatever it sends before.
  bool is_closed_within(int limit_ms) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
    while (std::chrono::steady_clock::now() < end) {
      pollfd source{descriptor_, POLLIN, 0};
      if (poll(&source, 1, 20) > 0 && !receive(0)) return true;
    }
    return false;
  }

  void end_sending() { shutdown(descriptor_, SHUT_WR); }
  void leave() {
    if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  }
  // Closes with a reset, as a killed process with unread data does.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    leave();
  }

 private:
  // Returns false if the server has closed or nothing arrived.
  bool receive(int limit_ms) {
    pollfd source{descriptor_, POLLIN, 0};
    if (poll(&source, 1, limit_ms) <= 0) return false;
    char bytes[16 * 1024];
    const ssize_t n = recv(descriptor_, bytes, sizeof(bytes), 0);
    if (n <= 0) return false;
    received_.append(bytes, static_cast<size_t>(n));
    return true;
  }

  int descriptor_;
  bool is_connected_ = false;
  std::string received_;
};

// Returns the status of "HTTP/1.1 200 OK..."; 0 if there is no response.
inline int status_of(const std::string& response) {
  return response.starts_with("HTTP/1.1 ") ? std::stoi(response.substr(9, 3)) : 0;
}

inline std::string body_of(const std::string& response) {
  const size_t at = response.find("\r\n\r\n");
  return at == std::string::npos ? "" : response.substr(at + 4);
}

inline std::string post_text(std::string_view path, std::string_view body, std::string_view more = "") {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

inline std::string get_text(std::string_view path, std::string_view more = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more) + "\r\n";
}

}  // namespace ibid::http
