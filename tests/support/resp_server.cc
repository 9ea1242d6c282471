#include "tests/support/resp_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ibid {

namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::abort();
}

std::string bulk(std::string_view bytes) {
  return "$" + std::to_string(bytes.size()) + "\r\n" + std::string(bytes) + "\r\n";
}

}  // namespace

// The byte stream of one client.
class RespServer::Channel {
 public:
  Channel(int descriptor, SSL_CTX* tls) : descriptor_(descriptor) {
    if (tls == nullptr) return;
    session_ = SSL_new(tls);
    SSL_set_fd(session_, descriptor);
  }
  ~Channel() {
    SSL_free(session_);
    ::close(descriptor_);
  }
  bool handshake() { return session_ == nullptr || SSL_accept(session_) == 1; }
  // False if the connection has ended.
  bool receive(std::string& ahead) {
    char bytes[65'536];
    const ssize_t n =
        session_ != nullptr ? SSL_read(session_, bytes, sizeof bytes) : ::recv(descriptor_, bytes, sizeof bytes, 0);
    if (n <= 0) return false;
    ahead.append(bytes, static_cast<size_t>(n));
    return true;
  }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = session_ != nullptr ? SSL_write(session_, bytes.data(), static_cast<int>(bytes.size()))
                                            : ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // Ends the calls of the thread that serves this client. May be called by any thread.
  void shut_down() { ::shutdown(descriptor_, SHUT_RDWR); }

 private:
  const int descriptor_;
  SSL* session_ = nullptr;
};

RespServer::RespServer(Options options) : options_(std::move(options)) {
  if (!options_.certificate_file.empty()) {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
    tls_ = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate_chain_file(tls_, options_.certificate_file.c_str());
    SSL_CTX_use_PrivateKey_file(tls_, options_.key_file.c_str(), SSL_FILETYPE_PEM);
  }
  listen();
}

RespServer::~RespServer() {
  set_down(true);
  SSL_CTX_free(tls_);
  if (!options_.unix_path.empty()) ::unlink(options_.unix_path.c_str());
}

std::string RespServer::url() const {
  if (!options_.unix_path.empty()) return "unix:" + options_.unix_path;
  const std::string login = options_.password.empty() ? "" : options_.user + ":" + options_.password + "@";
  return (tls_ != nullptr ? "rediss://" : "redis://") + login + options_.address + ":" + std::to_string(port_);
}

void RespServer::listen() {
  const bool is_unix = !options_.unix_path.empty();
  sockaddr_un local{};
  sockaddr_in loopback{};
  sockaddr* address = reinterpret_cast<sockaddr*>(&loopback);
  socklen_t length = sizeof loopback;
  if (is_unix) {
    local.sun_family = AF_UNIX;
    std::strncpy(local.sun_path, options_.unix_path.c_str(), sizeof local.sun_path - 1);
    ::unlink(options_.unix_path.c_str());
    address = reinterpret_cast<sockaddr*>(&local);
    length = sizeof local;
  } else {
    loopback.sin_family = AF_INET;
    ::inet_pton(AF_INET, options_.address.c_str(), &loopback.sin_addr);
    loopback.sin_port = htons(port_);  // after set_down(false) the same port as before
  }
  listener_ = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener_, address, length) != 0 || ::listen(listener_, 64) != 0) fail("RespServer");
  if (!is_unix) {
    ::getsockname(listener_, address, &length);
    port_ = ntohs(loopback.sin_port);
  }
  accepting_ = std::thread([this] { accept_all(); });
}

void RespServer::stop_listening() {
  ::shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  ::close(listener_);
  listener_ = -1;
}

void RespServer::set_down(bool down) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(down_, down) == down) return;
  }
  if (!down) return listen();
  stop_listening();
  std::list<Connection> connections;
  {
    const std::lock_guard lock(mutex_);
    connections.swap(connections_);
    changed_.notify_all();
  }
  for (Connection& connection : connections) connection.channel->shut_down();
  for (Connection& connection : connections) connection.thread.join();
}

void RespServer::accept_all() {
  for (;;) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) return;
    const int on = 1;
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ++n_connections_;
    const std::lock_guard lock(mutex_);
    Connection& made = connections_.emplace_back();
    made.channel = std::make_unique<Channel>(descriptor, tls_);
    made.thread = std::thread([this, &channel = *made.channel] {
      if (channel.handshake()) serve(channel);
      channel.shut_down();
    });
  }
}

void RespServer::serve(Channel& channel) {
  std::string ahead;
  Session session;
  session.logged_in = options_.password.empty();
  while (const std::optional<Words> words = read_command(channel, ahead)) {
    Script script;
    {
      std::unique_lock lock(mutex_);
      ++n_commands_[words->front()];
      changed_.wait(lock, [this] { return !silent_ || down_; });
      if (down_) return;
      script = script_;
    }
    std::optional<std::string> bytes = script ? script(*words) : std::nullopt;
    if (!bytes) bytes = answer(*words, session);
    const size_t end = script ? bytes->find(kThenClose) : std::string::npos;
    if (!send(channel, std::string_view(*bytes).substr(0, end)) || end != std::string::npos) return;
  }
}

// Returns a command, with its name in capitals; nothing at the end of the connection.
std::optional<RespServer::Words> RespServer::read_command(Channel& channel, std::string& ahead) {
  size_t at = 0;
  const auto line = [&]() -> std::optional<std::string> {
    for (;;) {
      const size_t end = ahead.find("\r\n", at);
      if (end != std::string::npos) return ahead.substr(std::exchange(at, end + 2), end - at);
      if (!channel.receive(ahead)) return std::nullopt;
    }
  };
  const std::optional<std::string> head = line();
  if (!head) return std::nullopt;
  if (!head->starts_with('*')) return std::nullopt;  // not RESP
  Words words(std::stoul(head->substr(1)));
  for (std::string& word : words) {
    const std::optional<std::string> length_line = line();
    if (!length_line) return std::nullopt;
    const size_t length = std::stoul(length_line->substr(1));
    while (ahead.size() < at + length + 2) {
      if (!channel.receive(ahead)) return std::nullopt;
    }
    word = ahead.substr(at, length);
    at += length + 2;
  }
  ahead.erase(0, at);
  for (char& c : words.front()) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return words;
}

// Waits; returns false if the server goes down meanwhile.
bool RespServer::wait(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return down_; });
}

bool RespServer::send(Channel& channel, std::string_view bytes) {
  while (!bytes.empty()) {
    size_t n = bytes.size();
    std::chrono::milliseconds pause{0};
    {
      const std::lock_guard lock(mutex_);
      if (pace_bytes_ > 0) n = std::min(n, pace_bytes_), pause = pause_;
    }
    if (!channel.send(bytes.substr(0, n))) return false;
    bytes.remove_prefix(n);
    if (!bytes.empty() && !wait(pause)) return false;
  }
  return true;
}

std::string RespServer::answer(const Words& words, Session& session) {
  if (words[0] == "AUTH") {
    const bool has_user = words.size() == 3;
    session.logged_in = words.back() == options_.password && (!has_user || words[1] == options_.user);
    return session.logged_in ? "+OK\r\n" : "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
  }
  if (!session.logged_in) return "-NOAUTH Authentication required.\r\n";
  if (words[0] == "PING") return "+PONG\r\n";
  if (words[0] == "SELECT") return "+OK\r\n";
  const std::lock_guard lock(mutex_);
  return transaction(words, session);
}

// REQUIRES, for the functions below: mutex_ is locked.
std::string RespServer::transaction(const Words& words, Session& session) {
  const std::string& name = words[0];
  if (name == "WATCH") {
    session.watched[words.at(1)] = data_[words.at(1)];
    return "+OK\r\n";
  }
  if (name == "UNWATCH") {
    session.watched.clear();
    return "+OK\r\n";
  }
  if (name == "MULTI") {
    session.queues = true;
    return "+OK\r\n";
  }
  if (name == "EXEC") {
    const bool is_unchanged = std::all_of(session.watched.begin(), session.watched.end(), [this](const auto& watched) {
      return data_[watched.first] == watched.second;
    });
    std::string answers = is_unchanged ? "*" + std::to_string(session.queued.size()) + "\r\n" : "*-1\r\n";
    for (const Words& queued : session.queued) {
      if (is_unchanged) answers += answer_data(queued);
    }
    session.queues = false;
    session.queued.clear();
    session.watched.clear();
    return answers;
  }
  if (!session.queues) return answer_data(words);
  session.queued.push_back(words);
  return "+QUEUED\r\n";
}

std::string RespServer::answer_data(const Words& words) {
  const std::string& name = words[0];
  const bool is_for_lists = name == "LPUSH" || name == "LTRIM" || name == "LRANGE";
  if (is_for_lists ? data_.contains(words.at(1)) : name.starts_with("GET") && lists_.contains(words.at(1))) {
    return "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
  }
  if (is_for_lists) return answer_list(words);
  if (name == "GET" || name == "GETEX") {
    const auto found = data_.find(words.at(1));
    return found == data_.end() || found->second.empty() ? "$-1\r\n" : bulk(found->second);
  }
  if (name == "SET") {
    const bool only_new = std::find(words.begin() + 3, words.end(), "NX") != words.end();
    if (only_new && data_.contains(words.at(1))) return "$-1\r\n";
    lists_.erase(words.at(1));
    data_[words.at(1)] = words.at(2);
    return "+OK\r\n";
  }
  if (name == "EXPIRE") return data_.contains(words.at(1)) || lists_.contains(words.at(1)) ? ":1\r\n" : ":0\r\n";
  if (name == "DEL") {
    size_t n = 0;
    for (size_t i = 1; i < words.size(); ++i) n += data_.erase(words[i]) + lists_.erase(words[i]);
    return ":" + std::to_string(n) + "\r\n";
  }
  if (name == "INCR") {
    std::string& value = data_[words.at(1)];
    value = std::to_string(value.empty() ? 1 : std::stoll(value) + 1);
    return ":" + value + "\r\n";
  }
  return collections_.answer(words).value_or("-ERR unknown command '" + name + "'\r\n");
}

std::string RespServer::answer_list(const Words& words) {
  std::deque<std::string>& list = lists_[words.at(1)];
  if (words[0] == "LPUSH") {
    list.push_front(words.at(2));
    return ":" + std::to_string(list.size()) + "\r\n";
  }
  const size_t n = std::min(list.size(), std::stoul(words.at(3)) + 1);  // from the beginning only
  if (words[0] == "LTRIM") {
    list.resize(n);
    return "+OK\r\n";
  }
  std::string answer = "*" + std::to_string(n) + "\r\n";
  for (size_t i = 0; i < n; ++i) answer += bulk(list[i]);
  return answer;
}

void RespServer::set_silent(bool silent) {
  const std::lock_guard lock(mutex_);
  silent_ = silent;
  changed_.notify_all();
}

void RespServer::set_pace(size_t n_bytes, std::chrono::milliseconds pause) {
  const std::lock_guard lock(mutex_);
  pace_bytes_ = n_bytes;
  pause_ = pause;
}

void RespServer::set_script(Script script) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

std::map<std::string, std::string> RespServer::data() const {
  const std::lock_guard lock(mutex_);
  return data_;
}

void RespServer::set(const std::string& key, std::string value) {
  const std::lock_guard lock(mutex_);
  data_[key] = std::move(value);
}

void RespServer::edit(const std::function<std::string(const std::string&, const std::string&)>& edit) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, value] : data_) value = edit(key, value);
  for (auto& [key, list] : lists_) {
    for (std::string& element : list) element = edit(key, element);
  }
}

void RespServer::clear() {
  const std::lock_guard lock(mutex_);
  data_.clear();
  lists_.clear();
  collections_.clear();
}

void RespServer::erase(const std::string& key) {
  const std::lock_guard lock(mutex_);
  data_.erase(key);
  lists_.erase(key);
  collections_.erase(key);
}

std::string RespServer::all_texts() const {
  const std::lock_guard lock(mutex_);
  std::string all = collections_.all_texts();
  for (const auto& [key, value] : data_) all += key + "\n" + value + "\n";
  return all;
}

size_t RespServer::n_commands(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = n_commands_.find(name);
  return found == n_commands_.end() ? 0 : found->second;
}

}  // namespace ibid
