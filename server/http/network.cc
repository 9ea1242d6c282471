#include "server/http/network.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <future>
#include <list>
#include <thread>
#include <utility>
#include <vector>

namespace ibid::http {

namespace {

namespace net = boost::asio;
namespace ssl = boost::asio::ssl;
using NetError = boost::system::error_code;
using Strand = Transport::Strand;
using Descriptor = net::posix::basic_stream_descriptor<Strand>;

constexpr auto kShortagePause = std::chrono::milliseconds(50);
constexpr int kAcceptsInARow = 32;  // number of clients accepted in a row before other handlers run

}  // namespace

Transport::Transport(Socket socket, ssl::context* tls, std::string client, bool is_local)
    : socket_(std::move(socket)),
      strand_(socket_.get_executor()),
      timer_(strand_),
      client_(std::move(client)),
      is_local_(is_local) {
  if (tls != nullptr) tls_.emplace(socket_, *tls);
}

void Transport::handshake(Done done) {
  if (!tls_) return done(true, 0);
  tls_->async_handshake(ssl::stream_base::server,
                        net::bind_executor(strand_, [done = std::move(done)](NetError error) { done(!error, 0); }));
}

void Transport::read(std::span<char> room, Done done) {
  const auto buffer = net::buffer(room.data(), room.size());
  auto on_read = net::bind_executor(strand_, [done = std::move(done)](NetError error, size_t n) {
    // A TLS client that closes the connection without a close_notify has ended its input too.
    if (error == net::error::eof || error == ssl::error::stream_truncated) error = {}, n = 0;
    done(!error, n);
  });
  tls_ ? tls_->async_read_some(buffer, std::move(on_read)) : socket_.async_read_some(buffer, std::move(on_read));
}

void Transport::write(std::string_view bytes, Done done) {
  const auto buffer = net::buffer(bytes.data(), bytes.size());
  auto on_write = net::bind_executor(strand_, [done = std::move(done)](NetError error, size_t n) { done(!error, n); });
  tls_ ? tls_->async_write_some(buffer, std::move(on_write)) : socket_.async_write_some(buffer, std::move(on_write));
}

void Transport::end_writing() {
  NetError ignored;
  // With TLS, sends close_notify. The socket is closed when the transport is destroyed.
  tls_ ? tls_->async_shutdown(net::bind_executor(strand_, [](NetError) {}))
       : static_cast<void>(socket_.shutdown(Socket::shutdown_send, ignored));
}

void Transport::close() {
  NetError ignored;
  timer_.cancel(ignored);
  socket_.close(ignored);
}

bool Transport::client_has_ended() {
  pollfd asked{socket_.native_handle(), POLLRDHUP, 0};
  return poll(&asked, 1, 0) > 0;
}

Delivery Transport::delivery() { return delivery_of(socket_.native_handle()); }

void Transport::wake_at(Clock::time_point when, Task task) {
  timer_.expires_at(when);
  timer_.async_wait([task = std::move(task)](NetError error) {
    if (!error) task();
  });
}

void Transport::post(Task task) { net::post(strand_, std::move(task)); }

namespace {

// Returns an address as text: "127.0.0.1", "::1".
std::string address_text(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const void* bytes = address.ss_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr)
                          : &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  inet_ntop(address.ss_family, bytes, text, sizeof(text));
  return text;
}

Status check_readable(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return {ErrorCode::kNotFound, path + ": " + std::strerror(errno)};
  if (!S_ISREG(found.st_mode)) return {ErrorCode::kIo, path + " is not a regular file"};
  return {};
}

Result<std::unique_ptr<ssl::context>> make_tls(const NetworkOptions& options) {
  TRY(check_readable(options.certificate_file));
  TRY(check_readable(options.key_file));
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  NetError error;
  context->use_certificate_chain_file(options.certificate_file, error);
  if (error) {
    return {ErrorCode::kInvalidArgument, options.certificate_file + " is not a PEM certificate: " + error.message()};
  }
  context->use_private_key_file(options.key_file, ssl::context::pem, error);
  if (error || SSL_CTX_check_private_key(native) != 1) {
    return {ErrorCode::kInvalidArgument, options.key_file + " is not the private key of " + options.certificate_file +
                                             ", or not in PEM format, or has a passphrase"};
  }
  return context;
}

// Accepts the clients of one socket. All calls run on its strand.
struct Listener {
  Listener(net::io_context& io, ListeningSocket opened)
      : socket(std::move(opened)), strand(net::make_strand(io)), descriptor(strand), pause(strand) {}

  ListeningSocket socket;
  Strand strand;
  Descriptor descriptor;
  Transport::Timer pause;
  ssl::context* tls = nullptr;
  Network::OnClient on_client;
  Network::OnShortage on_shortage;
};

std::shared_ptr<Transport> make_transport(net::io_context& io, const Listener& listener, int descriptor,
                                          const sockaddr_storage& address) {
  const bool is_local = listener.socket.is_local();
  Transport::Socket socket(net::make_strand(io));
  NetError error;
  socket.assign(net::generic::stream_protocol(address.ss_family, is_local ? 0 : IPPROTO_TCP), descriptor, error);
  if (error) {
    ::close(descriptor);
    return nullptr;
  }
  if (is_local) return std::make_shared<Transport>(std::move(socket), nullptr, "local", true);
  const int on = 1;
  setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  return std::make_shared<Transport>(std::move(socket), listener.tls, address_text(address), false);
}

}  // namespace

struct Network::Parts {
  void accept_some(Listener& listener);
  void wait_for_clients(Listener& listener);

  net::io_context io;
  net::executor_work_guard<net::io_context::executor_type> work{io.get_executor()};
  std::unique_ptr<ssl::context> tls;
  std::list<Listener> listeners;
  std::vector<std::thread> threads;
};

void Network::Parts::wait_for_clients(Listener& listener) {
  listener.descriptor.async_wait(Descriptor::wait_read, [this, &listener](NetError error) {
    if (error) return;
    accept_some(listener);
  });
}

void Network::Parts::accept_some(Listener& listener) {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    const int descriptor = accept4(listener.descriptor.native_handle(), reinterpret_cast<sockaddr*>(&address), &length,
                                   SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor >= 0) {
      if (auto transport = make_transport(io, listener, descriptor, address)) listener.on_client(std::move(transport));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      listener.on_shortage();
      listener.pause.expires_after(kShortagePause);
      listener.pause.async_wait([this, &listener](NetError error) {
        if (!error) accept_some(listener);
      });
      return;
    }
    if (errno != EINTR && errno != ECONNABORTED) break;
  }
  wait_for_clients(listener);
}

Network::Network(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Network::~Network() { stop(); }

Result<std::unique_ptr<Network>> Network::create(const NetworkOptions& options) {
  auto parts = std::make_unique<Parts>();
  if (!options.certificate_file.empty()) {
    TRY_ASSIGN(parts->tls, make_tls(options));
  }
  std::unique_ptr<Network> network(new Network(std::move(parts)));
  const bool all = guarded([&] {
    for (int i = 0; i < options.n_threads; ++i) {
      network->parts_->threads.emplace_back([io = &network->parts_->io] {
        pthread_setname_np(pthread_self(), "ibid-network");
        while (!guarded([&] { io->run(); })) {
        }
      });
    }
  });
  if (!all) return {ErrorCode::kOutOfMemory, "cannot create threads"};
  return network;
}

void Network::serve(ListeningSocket socket, OnClient on_client, OnShortage on_shortage) {
  parts_->listeners.emplace_back(parts_->io, std::move(socket));
  Listener& listener = parts_->listeners.back();
  listener.tls = listener.socket.is_local() ? nullptr : parts_->tls.get();
  listener.on_client = std::move(on_client);
  listener.on_shortage = std::move(on_shortage);
  NetError ignored;
  listener.descriptor.assign(listener.socket.release_descriptor(), ignored);
  net::post(listener.strand, [parts = parts_.get(), &listener] { parts->wait_for_clients(listener); });
}

void Network::stop_listening() {
  for (Listener& listener : parts_->listeners) {
    std::promise<void> closed;
    net::post(listener.strand, [&] {
      NetError ignored;
      listener.pause.cancel(ignored);
      listener.descriptor.close(ignored);
      closed.set_value();
    });
    closed.get_future().wait();
  }
}

void Network::stop() {
  if (parts_->threads.empty()) return;
  stop_listening();
  parts_->work.reset();
  parts_->io.stop();
  for (std::thread& thread : parts_->threads) thread.join();
  parts_->threads.clear();
  parts_->listeners.clear();
}

}  // namespace ibid::http
